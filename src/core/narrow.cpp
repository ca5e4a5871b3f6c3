#include "narrow.hpp"

#include <algorithm>
#include <cstring>

#include "columnsum.hpp"
#include "logistic.hpp"
#include "random.hpp"
#include "require.hpp"

namespace lbarn {
namespace {

constexpr size_t kTable = 1024;  // hashes, a power of 2; as many merged trees at most as fill half of it

bool has_bit(const uint64_t* words, size_t bit) { return words[bit / 64] >> bit % 64 & 1; }

}  // namespace

void LeafSets::build(const TreesView& trees) {
  trees_ = trees;
  const auto n_splits = static_cast<size_t>(trees.offsets[trees.count]);
  size_t n_features = 0;
  for (size_t k = 0; k < n_splits; ++k) n_features = std::max(n_features, size_t{trees.splits[k].feature} + 1);
  for (std::vector<uint64_t>& can : can_be_) can.assign(n_features, 0);
  features_.clear();
  for (size_t k = 0; k < n_splits; ++k) {
    uint64_t& seen = can_be_[0][trees.splits[k].feature];
    if (!seen) features_.push_back(trees.splits[k].feature);
    seen = 1;
  }
}

void LeafSets::reach(const std::vector<const Slot*>& slots, std::vector<uint64_t>& reached) {
  const size_t n_rows = slots.size();
  reached.resize(n_rows * trees_.count);
  for (const uint16_t f : features_) can_be_[0][f] = can_be_[1][f] = 0;
  for (size_t r = 0; r < n_rows; ++r)
    for (const uint16_t f : features_) {
      can_be_[0][f] |= static_cast<uint64_t>(slots[r][f] != kAllOne) << r;
      can_be_[1][f] |= static_cast<uint64_t>(slots[r][f] != kAllZero) << r;
    }
  BitBlock block;  // of so many trees, the rows that reach each leaf; transposed, the leaves that each row reaches
  for (size_t first = 0; first < trees_.count; first += kBlockLanes) {
    const size_t lanes = std::min(kBlockLanes, trees_.count - first);
    std::memset(&block, 0, sizeof block);
    for (size_t lane = 0; lane < lanes; ++lane) {
      const Tree tree = trees_.tree(first + lane);
      if (tree.n_splits >= kLeaves) continue;
      block.word[0][lane] = ~uint64_t{0};
      for (size_t k = 0; k < tree.n_splits; ++k) {
        uint64_t& rows = block.word[tree.splits[k].leaf][lane];
        block.word[k + 1][lane] = rows & can_be_[1][tree.splits[k].feature];
        rows &= can_be_[0][tree.splits[k].feature];
      }
    }
    kernels().transpose_block(block);
    for (size_t r = 0; r < n_rows; ++r)
      for (size_t lane = 0; lane < lanes; ++lane) reached[r * trees_.count + first + lane] = block.word[r][lane];
  }
}

void NarrowTrees::narrow(LeafSets& sets, const Conditional& conditional, std::vector<Slot>& slots,
                         const uint64_t* reached, size_t words, size_t particles) {
  words_ = words;
  merged_bits_ = particles > kMany ? kMerged : 1;
  given_ = conditional.trees;
  constant_ = 0;
  closed_ = false;
  closers_.clear();
  sums_.clear();
  counted_.clear();
  terms_.clear();
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
  if (n_counts) narrow_counts(*conditional.counts, slots);
  single_.assign(64 * words_ + counted_.size(), {});
  if (!reached) {
    sets.reach({slots.data()}, reached_);
    reached = reached_.data();
  }
  for (size_t t = 0; t < given_.count; ++t) {
    const Tree tree = given_.tree(t);
    if (tree.n_splits >= LeafSets::kLeaves)
      add_large(tree, slots);
    else if (reached[t] & (reached[t] - 1))
      add_tree(tree, reached[t], slots.data());
    else
      constant_ += tree.values[__builtin_ctzll(reached[t])];
  }
  std::fill_n(slots.begin() + static_cast<std::ptrdiff_t>(conditional.position), n_counts, kAllZero);
  finish();
}

NarrowTrees::Sum NarrowTrees::narrow_sum(const CountsView& counts, size_t count, const std::vector<Slot>& slots) {
  const size_t first = terms_.size();
  int32_t decided = counts.base[count], less = 0, more = 0;
  for (const auto [bit, weight] : counts.terms[count]) {
    const Slot slot = slots[bit];
    if (slot == kAllOne) decided += weight;
    if (slot < 0) continue;
    (weight < 0 ? less : more) += weight;
    terms_.push_back({static_cast<uint16_t>(slot), weight});
  }
  return {first, terms_.size(), static_cast<uint16_t>(decided), decided + less, decided + more};
}

// A feature is decided if the bits in which particles differ can no longer change it.
void NarrowTrees::narrow_counts(const CountsView& counts, std::vector<Slot>& slots) {
  for (size_t f = 0; f < counts.n_features; ++f) {
    if (!f || counts.which[f] != counts.which[f - 1]) sums_.push_back(narrow_sum(counts, counts.which[f], slots));
    const Sum& sum = sums_.back();
    Slot& slot = slots[counts.position + f];
    slot = sum.least >= counts.at_least[f] ? kAllOne : kAllZero;
    if (slot == kAllOne || sum.most < counts.at_least[f]) continue;
    require(64 * words_ + counted_.size() <= UINT16_MAX, "counts: there are too many bits");
    counted_.push_back({sums_.size() - 1, counts.at_least[f]});
    slot = static_cast<Slot>(64 * words_ + counted_.size() - 1);
  }
}

// What is left of a tree are the splits that part leaves that can be reached. Split k has made leaf k + 1, so taking
// back one split after the other, the last first, a leaf becomes the one that it was made from: if that is reached too,
// the split parts them.
void NarrowTrees::add_tree(const Tree& tree, uint64_t leaves, const Slot* slots) {
  uint8_t taken_back[LeafSets::kLeaves];
  uint64_t parts = 0;  // splits
  size_t count = 0;
  uint64_t left = leaves;
  while (left & (left - 1)) {
    const auto k = static_cast<size_t>(62 - __builtin_clzll(left));
    const size_t from = tree.splits[k].leaf;
    taken_back[count++] = static_cast<uint8_t>(k);
    parts |= (left >> from & 1) << k;
    left = (left & ~(uint64_t{2} << k)) | uint64_t{1} << from;
  }
  if (!(parts & (parts - 1))) {
    const auto k = static_cast<size_t>(__builtin_ctzll(parts));
    const auto low = static_cast<size_t>(__builtin_ctzll(leaves)),
               high = static_cast<size_t>(63 - __builtin_clzll(leaves));
    Single& own = single_[static_cast<size_t>(slots[tree.splits[k].feature])];
    own.any = true;
    size_t one = high;  // the leaf behind the split's ones comes from leaf k + 1
    while (one > k + 1) one = tree.splits[one - 1].leaf;
    const bool high_is_one = one == k + 1;
    own.sum[0] += tree.values[high_is_one ? low : high];
    own.sum[1] += tree.values[high_is_one ? high : low];
    return;
  }
  uint8_t place[LeafSets::kLeaves];  // of each leaf among those that are left
  place[__builtin_ctzll(left)] = 0;
  splits_.resize(static_cast<size_t>(__builtin_popcountll(parts)));
  own_.clear();
  for (size_t made = 0; count-- > 0;) {
    const size_t k = taken_back[count], from = tree.splits[k].leaf;
    place[k + 1] = place[from];
    if (!(parts >> k & 1)) continue;
    const Slot slot = slots[tree.splits[k].feature];
    splits_[made] = {place[from], static_cast<uint16_t>(slot)};
    place[k + 1] = static_cast<uint8_t>(++made);
    add_own(slot);
  }
  values_.resize(splits_.size() + 1);
  for (; leaves; leaves &= leaves - 1) {
    const auto leaf = static_cast<size_t>(__builtin_ctzll(leaves));
    values_[place[leaf]] = tree.values[leaf];
  }
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
    add_own(slot);
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
  // By slot, the combinations of bits in which its own is set; by leaf, those that lead there.
  constexpr uint8_t kSet[kMerged] = {0xAA, 0xCC, 0xF0};
  leads_.resize(values_.size());
  leads_[0] = 0xFF;
  for (size_t k = 0; k < splits_.size(); ++k) {
    size_t which = 0;
    while (own[which] != splits_[k].feature) ++which;
    uint8_t& zeros = leads_[splits_[k].leaf];
    leads_[k + 1] = zeros & kSet[which];
    zeros = static_cast<uint8_t>(zeros & ~kSet[which]);
  }
  for (size_t leaf = 0; leaf < values_.size(); ++leaf)
    for (size_t bits = 0; bits < size_t{1} << own.size(); ++bits)
      there.sum[bits] += leads_[leaf] >> bits & 1 ? values_[leaf] : 0;
}

// Merged trees become complete ones: leaf b is that of the rows whose bits are b.
void NarrowTrees::finish() {
  for (size_t slot = 0; slot < single_.size(); ++slot) {
    if (!single_[slot].any) continue;
    trees_.splits.push_back({0, static_cast<uint16_t>(slot)});
    trees_.values.insert(trees_.values.end(), single_[slot].sum, single_[slot].sum + 2);
    trees_.offsets.push_back(static_cast<int64_t>(trees_.splits.size()));
  }
  for (const Merged& one : merged_) {
    for (size_t k = 0; k < one.count; ++k)
      for (size_t l = 0; l < size_t{1} << k; ++l)
        trees_.splits.push_back({static_cast<uint16_t>(l), static_cast<uint16_t>(one.slot[k])});
    trees_.values.insert(trees_.values.end(), one.sum, one.sum + (size_t{1} << one.count));
    trees_.offsets.push_back(static_cast<int64_t>(trees_.splits.size()));
  }
  for (const Split& split : trees_.splits)
    if (split.feature < 64 * words_) used_[split.feature / 64] = 1;
  for (const Counted& own : counted_)
    for (size_t t = sums_[own.sum].first; t < sums_[own.sum].last; ++t) used_[terms_[t].bit / 64] = 1;
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
  for (size_t w = 0; !counted_.empty() && w < stride; ++w) add_up(w, stride);
}

// The features that are made of sums, for 64 particles.
void NarrowTrees::add_up(size_t word, size_t stride) {
  for (size_t f = 0; f < counted_.size();) {
    const Sum& own = sums_[counted_[f].sum];
    const ColumnSum<1> sum(own.base, terms_.data() + own.first, terms_.data() + own.last,
                           [&](size_t slot) { return &columns_[slot * stride + word]; });
    for (const size_t which = counted_[f].sum; f < counted_.size() && counted_[f].sum == which; ++f)
      sum.at_least(counted_[f].at_least, &columns_[(64 * words_ + f) * stride + word]);
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
  if (given_.limit < kNoLimit || !given_.stretch.none())
    for (size_t i = 0; i < 64 * stride; ++i) out[i] = certain(out[i], given_);
  for (size_t i = 0; !closers_.empty() && i < count; ++i)
    for (const uint16_t closer : closers_)
      if (has_bit(particles.of(index ? index[i] : i), closer)) out[i] = given_.closed;
}

}  // namespace lbarn
