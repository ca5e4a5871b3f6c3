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

// Trees by the features that they split on. A set of leaves is a mask; a split takes those behind its zeros from those
// behind its ones.
class IndexedTrees {
 public:
  static constexpr size_t kLeaves = 64;  // of a tree at most; larger ones are walked

  void index(const TreesView& trees);

 private:
  friend class NarrowTrees;

  std::vector<uint32_t> first_;          // by feature, where its splits begin
  std::vector<uint32_t> tree_, number_;  // of every split: its tree, and its number in it
  std::vector<uint64_t> zeros_, ones_;   // leaves behind it
  std::vector<uint32_t> large_;          // trees with more leaves
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
  void narrow(const IndexedTrees& trees, const Conditional& conditional, std::vector<Slot>& slots, size_t words,
              size_t particles);

  // Log-odds of the particles index[0..count), or of the first `count` if there is no index. `out` has room for whole
  // words.
  void log_odds(const ParticleBits& particles, const uint32_t* index, size_t count, int32_t* out);

 private:
  static constexpr size_t kMerged = 3;  // trees on the same so few bits are one, if there are many particles
  static constexpr size_t kMany = 128;

  struct Counted {  // a feature made of a count
    size_t first;   // of its mask's words
    int32_t least;  // ones among the bits that differ
  };

  struct Live {  // a split that particles disagree about
    uint32_t tree, number;
    uint64_t zeros, ones;
    Slot slot;
  };

  Slot narrow_count(const CountsView& counts, size_t feature, const std::vector<Slot>& slots);
  void reach(const IndexedTrees& trees, const std::vector<Slot>& slots);
  void add_tree(const Live* live, size_t count, uint64_t leaves, const int32_t* values);
  void add_large(const Tree& tree, const std::vector<Slot>& slots);
  void add_splits();
  void merge(const std::vector<Slot>& own);
  void finish();
  void gather(const ParticleBits& particles, const uint32_t* index, size_t count, size_t stride);

  size_t words_ = 0;   // of a particle
  size_t merged_bits_ = 1;
  int32_t constant_ = 0;
  bool closed_ = false;  // for all
  TreesView given_{};
  std::vector<uint16_t> closers_;  // slots
  Trees trees_;                    // on slots
  std::vector<uint8_t> used_;      // words of particles that hold any of these
  std::vector<Counted> counted_;
  std::vector<uint64_t> masks_;
  std::vector<uint64_t> reached_;  // leaves, by tree
  std::vector<Live> live_, sorted_;
  std::vector<uint32_t> ends_;
  // One tree: its splits on slots, its leaves, the slots.
  std::vector<uint64_t> leaves_;
  std::vector<Split> splits_;
  std::vector<int32_t> values_;
  std::vector<Slot> own_;
  // Merged trees: by their slots, the sum for each of 2^k combinations.
  struct Merged {
    Slot slot[kMerged];
    uint8_t count;
    int32_t sum[1 << kMerged];
  };
  std::vector<Merged> merged_;
  std::vector<uint32_t> table_;  // of hashes: 1 + number in merged_, 0 for none
  std::vector<uint64_t> columns_;
};

}  // namespace lbarn
