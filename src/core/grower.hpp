// Grows one tree: best-first to max_leaf_nodes leaves on the quantised sums.
#pragma once

#include <vector>

#include "kernels.hpp"

namespace lbarn {

// Units are those of the quantised sums.
struct GrowthLimits {
  size_t max_leaf_nodes;
  double min_gain;
  double l2;
  const double* keep = nullptr;  // by slot, 1 for the features that may be split on and 0 for others; null: all may
};

class Grower {
 public:
  // Both must outlive it.
  Grower(const Kernels& kernels, const Columns& columns, const Predictors& predictors);

  // The splits of a tree on the rows of `active`; no row outside it has a digit set.
  const std::vector<Split>& grow(const DigitPlanes& planes, const uint64_t* active, QuantisedTotals totals,
                                 const GrowthLimits& limits);

 private:
  struct Leaf {
    std::vector<uint64_t> mask;  // its rows
    std::vector<double> g, h;    // its histogram
    double g_total, h_total;
    size_t rows;
    BestSplit best;
  };

  void scan(Leaf& leaf, const DigitPlanes& planes, const double* keep);
  void search(Leaf& leaf, double l2);

  const Kernels& kernels_;
  Columns columns_;
  const Predictors& predictors_;
  std::vector<Leaf> leaves_;  // kept from tree to tree
  std::vector<uint32_t> index_;
  std::vector<double> scores_;
  std::vector<Split> splits_;
  HistogramScratch scratch_;
};

}  // namespace lbarn
