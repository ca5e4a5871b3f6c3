// Trees on the bits that they look at, and on nothing else: those that they split on and those that they count.
#pragma once

#include <vector>

#include "bits.hpp"
#include "counts.hpp"
#include "kernels.hpp"
#include "trees.hpp"

namespace lbarn {

// The bits are numbered anew in ascending order; the features that count them, which come after the bits, follow.
class CompactTrees {
 public:
  explicit CompactTrees(const TreesView& trees, const CountsView* counts = nullptr);

  const TreesView& view() const { return view_; }
  size_t features() const { return bits_.size() + thresholds_.size(); }

  // The features of some rows, 512 at most, as columns of as many words as these rows need.
  void gather(const Kernels& kernels, const Rows& rows, const int32_t* index, size_t count, uint64_t* out) const;
  void gather(const Columns& columns, size_t first_word, size_t words, uint64_t* out) const;

 private:
  struct Place {
    uint16_t word;  // its number among the words that are used
    uint16_t bit;
  };
  struct Sum {  // of a count that is used
    uint16_t base;
    std::vector<CountsView::Term> terms;  // bits by their numbers among those that are used
  };
  struct Threshold {
    uint16_t count;  // its number among those that are used
    uint16_t at_least;
  };

  void gather_word(const Kernels& kernels, const Rows& rows, const int32_t* index, size_t count, uint64_t* out,
                   size_t stride) const;
  void append_counts(uint64_t* columns, size_t words) const;
  template <size_t kWords>
  void append_words(uint64_t* columns, size_t stride) const;

  TreesView view_;
  std::vector<Split> splits_;
  std::vector<uint16_t> bits_;  // ascending
  std::vector<Place> places_;   // of the bits, in packed rows
  std::vector<size_t> words_;   // of packed rows
  std::vector<Sum> sums_;
  std::vector<Threshold> thresholds_;
};

}  // namespace lbarn
