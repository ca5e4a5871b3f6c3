// Grows one tree: best-first to max_leaf_nodes leaves on the quantised sums.
#pragma once

#include <vector>

#include "cells.hpp"
#include "kernels.hpp"

namespace lbarn {

// Units are those of the quantised sums.
struct GrowthLimits {
  size_t max_leaf_nodes;
  double min_gain;
  double l2;
  const double* keep = nullptr;  // by slot, 1 for the features that may be split on and 0 for others; null: all may
};

// The rows' quantised g and h: as digits for the bits, as one number each for the cells (null where there are none).
struct QuantisedRows {
  DigitPlanes planes;
  const uint64_t* values;
  const uint64_t* active;  // no row outside it has a digit set
  QuantisedTotals totals;
  int32_t largest;  // no h is larger, nor any g
};

class Grower {
 public:
  // All must outlive it.
  Grower(const Kernels& kernels, const Columns& columns, const Predictors& predictors, const CellPredictors& cells);

  // The splits of a tree.
  const std::vector<Split>& grow(const QuantisedRows& rows, const GrowthLimits& limits);

 private:
  struct Leaf {
    std::vector<uint64_t> mask;  // its rows
    std::vector<double> g, h;    // its histogram
    std::vector<CellRow> cells;  // and that of the cells
    double g_total, h_total;
    size_t rows;
    double gain;  // of its best split
    uint16_t feature;
    double g_ones, h_ones;

    bool can_split() const { return rows > 1 && h_total > 0.0; }
  };

  Leaf& leaf_at(size_t i);
  size_t list(const Leaf& leaf) { return kernels_.list_rows(leaf.mask.data(), columns_.words, index_.data()); }
  void scan_root(const QuantisedRows& rows, const GrowthLimits& limits);
  void divide(Leaf& smaller, Leaf& larger, const QuantisedRows& rows, const GrowthLimits& limits);
  void scan_bits(Leaf& leaf, size_t count, bool in_order, const QuantisedRows& rows, const GrowthLimits& limits);
  void search(Leaf& leaf, const CellSplit& best_cells, double l2);
  CellSplit best_of_few(Leaf& leaf, const QuantisedRows& rows, double l2);
  static CellPredictors::Node node_of(Leaf& leaf) { return {leaf.cells.data(), leaf.g_total, leaf.h_total}; }

  const Kernels& kernels_;
  Columns columns_;
  const Predictors& predictors_;
  const CellPredictors& cells_;
  std::vector<Leaf> leaves_;  // kept from tree to tree
  std::vector<uint32_t> index_;
  std::vector<float> scores_;
  std::vector<uint8_t> interleaved_;  // all rows, for roots
  std::vector<CellRow> fresh_;        // zeros between scans
  std::vector<CellScores> cell_scores_, other_cell_scores_;
  CellPredictors::Few few_;
  size_t few_rows_ = 0;  // leaves of so many have no sums over cells
  std::vector<Split> splits_;
  HistogramScratch scratch_;
};

}  // namespace lbarn
