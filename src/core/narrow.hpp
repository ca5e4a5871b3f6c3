// The trees of a conditional as the particles of one row see them. Particles of a row share most of their bits: what
// these decide is decided once, and what is left are a few small trees on the bits in which the particles differ.
#pragma once

#include <cstdint>
#include <vector>

#include "counts.hpp"
#include "kernels.hpp"
#include "trees.hpp"

namespace lbarn {

// What predicts one bit.
struct Conditional {
  TreesView trees;
  const CountsView* counts = nullptr;  // behind `position`, what the trees may split on as well
  size_t position = 0;
};

// Where the particles have a bit: a place in the words of each, or nowhere if all have the same.
using Slot = int32_t;
constexpr Slot kAllZero = -1;
constexpr Slot kAllOne = -2;

// The leaves of trees that rows can reach, as sets.
class LeafSets {
 public:
  static constexpr size_t kLeaves = 64;  // of a tree at most; larger ones have none
  static constexpr size_t kRows = 64;

  void build(const TreesView& trees);

  // For each of up to 64 rows and each tree, the leaves that can be reached: rows x trees. `slots` by row, by feature.
  void reach(const std::vector<const Slot*>& slots, std::vector<uint64_t>& reached);

 private:
  TreesView trees_{};
  std::vector<uint16_t> features_;   // that are split on
  std::vector<uint64_t> can_be_[2];  // by feature, the rows in which it can be 0 or 1
};

// Bits of particles, `words` each.
struct ParticleBits {
  const uint64_t* data;
  size_t words;
  const uint64_t* of(size_t particle) const { return data + particle * words; }
};

class NarrowTrees {
 public:
  // `slots` by feature, with room behind the position for the features of the counts.
  // `reached` by tree: null if it is not known yet.
  void narrow(LeafSets& sets, const Conditional& conditional, std::vector<Slot>& slots, const uint64_t* reached,
              size_t words, size_t particles);

  // Log-odds of the particles index[0..count), or of the first `count` if there is no index. `out` has room for whole
  // words.
  void log_odds(const ParticleBits& particles, const uint32_t* index, size_t count, int32_t* out);

 private:
  static constexpr size_t kMerged = 3;  // trees on the same so few bits are one, if there are many particles
  static constexpr size_t kMany = 128;

  struct Sum {     // a count, over the bits that differ
    size_t first;  // of its terms, on slots
    size_t last;
    uint16_t base;  // what the other bits come to
    int32_t least;  // that it can be
    int32_t most;
  };
  struct Counted {  // a feature made of it
    size_t sum;
    uint16_t at_least;
  };

  Sum narrow_sum(const CountsView& counts, size_t count, const std::vector<Slot>& slots);
  void narrow_counts(const CountsView& counts, std::vector<Slot>& slots);
  void add_tree(const Tree& tree, uint64_t leaves, const Slot* slots);
  void add_large(const Tree& tree, const std::vector<Slot>& slots);
  void add_own(Slot slot) {  // no more than tell that there are too many
    if (own_.size() > merged_bits_) return;
    for (const Slot other : own_)
      if (other == slot) return;
    own_.push_back(slot);
  }
  void add_splits();
  void merge(const std::vector<Slot>& own);
  void finish();
  void gather(const ParticleBits& particles, const uint32_t* index, size_t count, size_t stride);
  void add_up(size_t word, size_t stride);

  size_t words_ = 0;  // of a particle
  size_t merged_bits_ = 1;
  int32_t constant_ = 0;
  bool closed_ = false;  // for all
  TreesView given_{};
  std::vector<uint16_t> closers_;  // slots
  Trees trees_;                    // on slots
  std::vector<uint8_t> used_;      // words of particles that hold any of these
  std::vector<Sum> sums_;
  std::vector<Counted> counted_;
  std::vector<CountsView::Term> terms_;
  std::vector<uint64_t> reached_;
  // One tree: its splits on slots, its leaves, the slots.
  std::vector<Split> splits_;
  std::vector<int32_t> values_;
  std::vector<Slot> own_;
  std::vector<uint8_t> leads_;
  // Merged trees: by their slots, the sum for each of 2^k combinations.
  struct Merged {
    Slot slot[kMerged];
    uint8_t count;
    int32_t sum[1 << kMerged];
  };
  struct Single {  // on one slot
    int32_t sum[2];
    bool any;
  };
  std::vector<Single> single_;  // by slot
  std::vector<Merged> merged_;
  std::vector<uint32_t> table_;  // of hashes: 1 + number in merged_, 0 for none
  std::vector<uint64_t> columns_;
};

}  // namespace lbarn
