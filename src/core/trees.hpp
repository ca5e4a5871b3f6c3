// A conditional's trees as flat arrays, in the order in which their leaves were split.
//
// A tree starts as leaf 0. Its split k takes leaf `split_leaf` apart by a feature: rows with a 0 stay in that leaf,
// rows with a 1 move to the new leaf k + 1. So a tree of n splits has leaves 0..n, needs no child pointers, cannot
// contain a cycle, and is walked for many rows at once by one and / and-not per split.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fixed_point.hpp"

namespace lbarn {

constexpr size_t kMaxLeaves = 65535;  // of one tree: their numbers fit 16 bits

struct Split {
  uint16_t leaf;
  uint16_t feature;
};

// A view of one tree: n splits and n + 1 leaf values.
struct Tree {
  const Split* splits;
  size_t n_splits;
  const int32_t* values;
};

// How much further from 0 log-odds are taken to be beyond each knee, in eighths.
struct Stretch {
  std::array<uint8_t, kKnees> eighths;

  Stretch() { eighths.fill(kAsTheyAre); }
  explicit Stretch(const std::array<uint8_t, kKnees>& eighths) : eighths(eighths) {}

  bool none() const {
    return std::all_of(eighths.begin(), eighths.end(), [](uint8_t own) { return own == kAsTheyAre; });
  }
  bool sound() const {
    return std::all_of(eighths.begin(), eighths.end(),
                       [](uint8_t own) { return own >= kAsTheyAre && own <= kMostStretch; });
  }
  // Of a size of log-odds.
  int64_t of(int64_t u) const {
    int64_t more = 0;
    for (int i = 0; i < kKnees; ++i) {
      const int64_t knee = int64_t{kFirstKnee + i} << 20, next = i + 1 < kKnees ? knee + (1 << 20) : kMaxLogOdds;
      if (u <= knee) break;
      more += (std::min(u, next) - knee) * (eighths[i] - kAsTheyAre);
    }
    return std::min(u + more / 8, kMaxLogOdds);
  }
};

// Trees that somebody else owns.
struct TreesView {
  const Split* splits;
  const int32_t* values;
  const int64_t* offsets;
  size_t count;
  int32_t limit = kNoLimit;
  const uint16_t* closers = nullptr;  // features of which a 1 closes the conditional: its log-odds are `closed` then
  size_t n_closers = 0;
  int32_t closed = 0;
  Stretch stretch = {};

  Tree tree(size_t t) const {
    return {splits + offsets[t], static_cast<size_t>(offsets[t + 1] - offsets[t]), values + offsets[t] + t};
  }
};

// What a sum over the trees stands for: no further from 0 than the limit, then stretched.
inline int32_t certain(int32_t sum, const TreesView& trees) {
  const auto v = static_cast<int32_t>(trees.stretch.of(std::min(std::abs(int64_t{sum}), int64_t{trees.limit})));
  return sum < 0 ? -v : v;
}

// Throws std::invalid_argument where walking the trees could leave its bounds or their sum outgrow 31 bits. The number
// of columns that they need: one more than the last that they split on.
size_t check_trees(const TreesView& trees, size_t n_splits);

struct Trees {
  std::vector<Split> splits;
  std::vector<float> gains;      // one per split, from true sums
  std::vector<int32_t> values;   // leaf values, units of 2^-20
  std::vector<int64_t> offsets;  // offsets[t]: splits before tree t; its leaves start at offsets[t] + t
  int32_t limit = kNoLimit;      // the log-odds are the sum over trees, but no further from 0 than this

  Trees() : offsets(1, 0) {}
  size_t count() const { return offsets.size() - 1; }
  TreesView view() const { return {splits.data(), values.data(), offsets.data(), count(), limit}; }
};

}  // namespace lbarn
