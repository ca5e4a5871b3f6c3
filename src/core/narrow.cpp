#include "narrow.hpp"

#include <algorithm>
#include <cstring>

#include "logistic.hpp"
#include "random.hpp"
#include "require.hpp"

namespace lbarn {
namespace {

constexpr size_t kTable = 1024;  // hashes, a power of 2; as many merged trees at most as fill half of it

bool has_bit(const uint64_t* words, size_t bit) { return words[bit / 64] >> bit % 64 & 1; }

}  // namespace

void IndexedTrees::index(const TreesView& trees) {
  const auto n_splits = static_cast<size_t>(trees.offsets[trees.count]);
  size_t n_features = 0;
  for (size_t k = 0; k < n_splits; ++k) n_features = std::max(n_features, size_t{trees.splits[k].feature} + 1);
  first_.assign(n_features + 1, 0);
  large_.clear();
  for (size_t t = 0; t < trees.count; ++t) {
    const Tree tree = trees.tree(t);
    if (tree.n_splits >= kLeaves) {
      large_.push_back(static_cast<uint32_t>(t));
      continue;
    }
    for (size_t k = 0; k < tree.n_splits; ++k) ++first_[tree.splits[k].feature];
  }
  uint32_t end = 0;
  for (uint32_t& first : first_) first = end += first;  // the end of each: filled from behind
  tree_.resize(end);
  number_.resize(end);
  zeros_.resize(end);
  ones_.resize(end);
  for (size_t t = trees.count; t-- > 0;) {
    const Tree tree = trees.tree(t);
    if (tree.n_splits >= kLeaves) continue;
    uint64_t behind[kLeaves];
    for (size_t l = 0; l <= tree.n_splits; ++l) behind[l] = uint64_t{1} << l;
    for (size_t k = tree.n_splits; k-- > 0;) {
      const Split split = tree.splits[k];
      const size_t at = --first_[split.feature];
      tree_[at] = static_cast<uint32_t>(t);
      number_[at] = static_cast<uint32_t>(k);
      zeros_[at] = behind[split.leaf];
      ones_[at] = behind[k + 1];
      behind[split.leaf] |= behind[k + 1];
    }
  }
}

void NarrowTrees::narrow(const IndexedTrees& trees, const Conditional& conditional, std::vector<Slot>& slots,
                         size_t words, size_t particles) {
  words_ = words;
  merged_bits_ = particles > kMany ? kMerged : 1;
  given_ = conditional.trees;
  constant_ = 0;
  closed_ = false;
  closers_.clear();
  counted_.clear();
  masks_.clear();
  merged_.clear();
  table_.assign(kTable, 0);
  trees_.splits.clear();
  trees_.values.clear();
  trees_.offsets.assign(1, 0);
  used_.assign(words, 0);
  for (size_t i = 0; i < given_.n_closers; ++i) {
    const Slot slot = slots[given_.closers[i]];
    closed_ = closed_ || slot == kAllOne;
    if (slot >= 0) closers_.push_back(static_cast<uint16_t>(slot));
  }
  if (closed_) return;
  const size_t n_counts = conditional.counts ? conditional.counts->n_features : 0;
  for (size_t f = 0; f < n_counts; ++f)
    slots[conditional.position + f] = narrow_count(*conditional.counts, f, slots);
  reach(trees, slots);
  for (const uint32_t tree : trees.large_) add_large(given_.tree(tree), slots);
  std::fill_n(slots.begin() + static_cast<std::ptrdiff_t>(conditional.position), n_counts, kAllZero);
  finish();
}

// A count is decided if the bits in which particles differ can no longer change it.
Slot NarrowTrees::narrow_count(const CountsView& counts, size_t feature, const std::vector<Slot>& slots) {
  const uint64_t* mask = counts.masks + counts.which[feature] * counts.words;
  const size_t first = masks_.size();
  masks_.resize(first + words_);
  int32_t ones = 0, differ = 0;
  for (size_t w = 0; w < counts.words; ++w) {
    for (uint64_t left = mask[w]; left; left &= left - 1) {
      const Slot slot = slots[64 * w + static_cast<size_t>(__builtin_ctzll(left))];
      ones += slot == kAllOne;
      if (slot < 0) continue;
      ++differ;
      masks_[first + static_cast<size_t>(slot) / 64] |= uint64_t{1} << slot % 64;
    }
  }
  const int32_t least = counts.at_least[feature] - ones;
  if (least > 0 && least <= differ) {
    require(64 * words_ + counted_.size() <= UINT16_MAX, "counts: there are too many bits");
    counted_.push_back({first, least});
    return static_cast<Slot>(64 * words_ + counted_.size() - 1);
  }
  masks_.resize(first);
  return least <= 0 ? kAllOne : kAllZero;
}

// What all particles share takes leaves from the trees; what is left of a tree are the splits that part its leaves still.
void NarrowTrees::reach(const IndexedTrees& trees, const std::vector<Slot>& slots) {
  reached_.resize(given_.count);
  for (size_t t = 0; t < given_.count; ++t) {
    const size_t n_splits = given_.tree(t).n_splits;
    reached_[t] = n_splits < IndexedTrees::kLeaves ? ~uint64_t{0} >> (IndexedTrees::kLeaves - 1 - n_splits) : 0;
  }
  const size_t n_features = trees.first_.size() - 1;
  live_.clear();
  for (size_t f = 0; f < n_features; ++f) {
    const size_t begin = trees.first_[f], end = trees.first_[f + 1];
    if (slots[f] >= 0) continue;
    const uint64_t* gone = (slots[f] == kAllOne ? trees.zeros_ : trees.ones_).data();
    for (size_t at = begin; at < end; ++at) reached_[trees.tree_[at]] &= ~gone[at];
  }
  ends_.assign(given_.count + 1, 0);
  for (size_t f = 0; f < n_features; ++f) {
    if (slots[f] < 0) continue;
    for (size_t at = trees.first_[f]; at < trees.first_[f + 1]; ++at) {
      const uint32_t tree = trees.tree_[at];
      const uint64_t zeros = reached_[tree] & trees.zeros_[at], ones = reached_[tree] & trees.ones_[at];
      if (!zeros || !ones) continue;
      live_.push_back({tree, trees.number_[at], zeros, ones, slots[f]});
      ++ends_[tree + 1];
    }
  }
  for (size_t t = 0; t < given_.count; ++t) {
    ends_[t + 1] += ends_[t];
    if (ends_[t + 1] == ends_[t] && reached_[t]) constant_ += given_.tree(t).values[__builtin_ctzll(reached_[t])];
  }
  sorted_.resize(live_.size());
  for (size_t i = live_.size(); i-- > 0;) sorted_[--ends_[live_[i].tree + 1]] = live_[i];
  for (size_t i = 0; i < sorted_.size();) {
    size_t end = i + 1;
    while (end < sorted_.size() && sorted_[end].tree == sorted_[i].tree) ++end;
    std::sort(sorted_.data() + i, sorted_.data() + end, [](const Live& a, const Live& b) { return a.number < b.number; });
    add_tree(sorted_.data() + i, end - i, reached_[sorted_[i].tree], given_.tree(sorted_[i].tree).values);
    i = end;
  }
}

void NarrowTrees::add_tree(const Live* live, size_t count, uint64_t leaves, const int32_t* values) {
  splits_.clear();
  own_.clear();
  leaves_.assign(1, leaves);
  for (size_t k = 0; k < count; ++k) {
    size_t leaf = 0;
    while (!(leaves_[leaf] & live[k].zeros)) ++leaf;
    splits_.push_back({static_cast<uint16_t>(leaf), static_cast<uint16_t>(live[k].slot)});
    leaves_[leaf] &= ~live[k].ones;
    leaves_.push_back(live[k].ones);
    if (std::find(own_.begin(), own_.end(), live[k].slot) == own_.end()) own_.push_back(live[k].slot);
  }
  values_.clear();
  for (const uint64_t own : leaves_) values_.push_back(values[__builtin_ctzll(own)]);
  add_splits();
}

// Of too many leaves for a mask: split by split.
void NarrowTrees::add_large(const Tree& tree, const std::vector<Slot>& slots) {
  constexpr int32_t kGone = -1;
  std::vector<int32_t> place(tree.n_splits + 1, kGone);  // of each leaf among those that are left
  place[0] = 0;
  splits_.clear();
  own_.clear();
  for (size_t k = 0; k < tree.n_splits; ++k) {
    const size_t leaf = tree.splits[k].leaf;
    const Slot slot = slots[tree.splits[k].feature];
    if (place[leaf] == kGone || slot == kAllZero) continue;
    if (slot == kAllOne) {
      std::swap(place[leaf], place[k + 1]);
      continue;
    }
    splits_.push_back({static_cast<uint16_t>(place[leaf]), static_cast<uint16_t>(slot)});
    place[k + 1] = static_cast<int32_t>(splits_.size());
    if (std::find(own_.begin(), own_.end(), slot) == own_.end()) own_.push_back(slot);
  }
  values_.resize(splits_.size() + 1);
  for (size_t l = 0; l <= tree.n_splits; ++l)
    if (place[l] != kGone) values_[static_cast<size_t>(place[l])] = tree.values[l];
  if (splits_.empty())
    constant_ += values_[0];
  else
    add_splits();
}

void NarrowTrees::add_splits() {
  if (own_.size() <= merged_bits_ && merged_.size() < kTable / 2) {
    std::sort(own_.begin(), own_.end());
    merge(own_);
    return;
  }
  trees_.splits.insert(trees_.splits.end(), splits_.begin(), splits_.end());
  trees_.values.insert(trees_.values.end(), values_.begin(), values_.end());
  trees_.offsets.push_back(static_cast<int64_t>(trees_.splits.size()));
}

void NarrowTrees::merge(const std::vector<Slot>& own) {
  uint64_t key = own.size();
  for (const Slot slot : own) key = mix64(key ^ static_cast<uint64_t>(slot));
  size_t at = key % kTable;
  for (; table_[at]; at = (at + 1) % kTable) {
    const Merged& there = merged_[table_[at] - 1];
    if (there.count == own.size() && std::equal(own.begin(), own.end(), there.slot)) break;
  }
  if (!table_[at]) {
    merged_.push_back({});
    merged_.back().count = static_cast<uint8_t>(own.size());
    std::copy(own.begin(), own.end(), merged_.back().slot);
    table_[at] = static_cast<uint32_t>(merged_.size());
  }
  Merged& there = merged_[table_[at] - 1];
  for (size_t bits = 0; bits < size_t{1} << own.size(); ++bits) {
    uint16_t leaf = 0;
    for (size_t k = 0; k < splits_.size(); ++k) {
      size_t which = 0;
      while (own[which] != splits_[k].feature) ++which;
      if (splits_[k].leaf == leaf && (bits >> which & 1)) leaf = static_cast<uint16_t>(k + 1);
    }
    there.sum[bits] += values_[leaf];
  }
}

// Merged trees become complete ones: leaf b is that of the rows whose bits are b.
void NarrowTrees::finish() {
  for (const Merged& one : merged_) {
    for (size_t k = 0; k < one.count; ++k)
      for (size_t l = 0; l < size_t{1} << k; ++l)
        trees_.splits.push_back({static_cast<uint16_t>(l), static_cast<uint16_t>(one.slot[k])});
    trees_.values.insert(trees_.values.end(), one.sum, one.sum + (size_t{1} << one.count));
    trees_.offsets.push_back(static_cast<int64_t>(trees_.splits.size()));
  }
  for (const Split& split : trees_.splits)
    if (split.feature < 64 * words_) used_[split.feature / 64] = 1;
}

// The bits that are used, one column for each slot.
void NarrowTrees::gather(const ParticleBits& particles, const uint32_t* index, size_t count, size_t stride) {
  columns_.resize((64 * words_ + counted_.size()) * stride);
  size_t lane_word[kBlockLanes], lanes = 0;
  BitBlock block;
  const auto flush = [&] {
    for (size_t w = 0; lanes && w < stride; ++w) {
      const size_t rows = std::min<size_t>(64, count - 64 * w);
      if (rows < 64 || lanes < kBlockLanes) std::memset(&block, 0, sizeof block);
      for (size_t r = 0; r < rows; ++r) {
        const uint64_t* own = particles.of(index ? index[64 * w + r] : 64 * w + r);
        for (size_t lane = 0; lane < lanes; ++lane) block.word[r][lane] = own[lane_word[lane]];
      }
      kernels().transpose_block(block);
      for (size_t lane = 0; lane < lanes; ++lane)
        for (size_t b = 0; b < 64; ++b) columns_[(64 * lane_word[lane] + b) * stride + w] = block.word[b][lane];
    }
    lanes = 0;
  };
  for (size_t word = 0; word < words_; ++word) {
    if (!used_[word]) continue;
    lane_word[lanes++] = word;
    if (lanes == kBlockLanes) flush();
  }
  flush();
  for (size_t f = 0; f < counted_.size(); ++f) {
    uint64_t* column = columns_.data() + (64 * words_ + f) * stride;
    std::fill(column, column + stride, 0);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t* own = particles.of(index ? index[i] : i);
      int32_t ones = 0;
      for (size_t w = 0; w < words_; ++w) ones += ones_of(own[w] & masks_[counted_[f].first + w]);
      if (ones >= counted_[f].least) column[i / 64] |= uint64_t{1} << i % 64;
    }
  }
}

void NarrowTrees::log_odds(const ParticleBits& particles, const uint32_t* index, size_t count, int32_t* out) {
  const size_t stride = (count + 63) / 64;
  std::fill(out, out + 64 * stride, closed_ ? given_.closed : constant_);
  if (closed_) return;
  if (trees_.count()) {
    gather(particles, index, count, stride);
    kernels().add_trees({columns_.data(), count, stride}, trees_.view(), out);
  }
  if (given_.limit < kNoLimit)
    for (size_t i = 0; i < 64 * stride; ++i) out[i] = clamped(out[i], given_.limit);
  for (size_t i = 0; !closers_.empty() && i < count; ++i)
    for (const uint16_t closer : closers_)
      if (has_bit(particles.of(index ? index[i] : i), closer)) out[i] = given_.closed;
}

}  // namespace lbarn
