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

void LinkedTrees::link(const TreesView& trees) {
  nodes_.resize(static_cast<size_t>(trees.offsets[trees.count]));
  roots_.resize(trees.count);
  size_t node = 0;
  for (size_t t = 0; t < trees.count; ++t) {
    const Tree tree = trees.tree(t);
    leaf_.assign(1, &roots_[t]);
    for (size_t k = 0; k < tree.n_splits; ++k, ++node) {
      nodes_[node].feature = tree.splits[k].feature;
      *leaf_[tree.splits[k].leaf] = static_cast<int32_t>(node);
      leaf_[tree.splits[k].leaf] = &nodes_[node].child[0];
      leaf_.push_back(&nodes_[node].child[1]);
    }
    const auto first = static_cast<int32_t>(tree.values - trees.values);
    for (size_t l = 0; l < leaf_.size(); ++l) *leaf_[l] = ~(first + static_cast<int32_t>(l));
  }
}

void NarrowTrees::narrow(const LinkedTrees& linked, const Conditional& conditional, std::vector<Slot>& slots,
                         size_t words) {
  words_ = words;
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
  for (size_t t = 0; t < linked.count(); ++t) add_tree(linked, linked.root(t), given_.values, slots.data());
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

void NarrowTrees::add_tree(const LinkedTrees& linked, int32_t root, const int32_t* values, const Slot* slots) {
  const auto decided = [&](int32_t at) {
    while (at >= 0) {
      const LinkedTrees::Node& node = linked.node(at);
      const Slot slot = slots[node.feature];
      if (slot >= 0) break;
      at = node.child[slot == kAllOne];
    }
    return at;
  };
  const int32_t start = decided(root);
  if (start < 0) {
    constant_ += values[~start];
    return;
  }
  splits_.clear();
  values_.assign(1, 0);
  own_.clear();
  open_.assign(1, {start, 0});
  while (!open_.empty()) {
    const Place place = open_.back();
    open_.pop_back();
    if (place.at < 0) {
      values_[place.leaf] = values[~place.at];
      continue;
    }
    const LinkedTrees::Node& node = linked.node(place.at);
    const Slot slot = slots[node.feature];
    if (std::find(own_.begin(), own_.end(), slot) == own_.end()) own_.push_back(slot);
    splits_.push_back({place.leaf, static_cast<uint16_t>(slot)});
    const auto leaf = static_cast<uint16_t>(splits_.size());
    values_.push_back(0);
    open_.push_back({decided(node.child[1]), leaf});
    open_.push_back({decided(node.child[0]), place.leaf});
  }
  if (own_.size() <= kMerged && merged_.size() < kTable / 2) {
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
