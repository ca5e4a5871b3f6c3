// Rows while they are boosted: their log-odds, g and h, and the leaf that each has reached.
#pragma once

#include <utility>
#include <vector>

#include "cells.hpp"
#include "kernels.hpp"

namespace lbarn {

// Rows to learn from or to validate on. The target is column `position`, its predictors the columns before it.
struct WeightedRows {
  Columns columns;
  const double* weight = nullptr;      // null: all 1; else one per row, none negative
  const CellColumns* cells = nullptr;  // where some of the columns come from, if that is known
  const uint32_t* count = nullptr;     // null: all 1; else how many equal rows each one is, where there are no weights
};

// Weights are stored scaled by a power of two so that none exceeds 1 and g and h fit their integers; `scale` times a
// stored weight is the weight with mean 1.
class Walker {
 public:
  // `gradients`: whether g and h are wanted. Log-odds that are not given are 0, and every row is in leaf 0.
  Walker(const Kernels& kernels, const WeightedRows& rows, size_t position, bool gradients,
         std::vector<int32_t> log_odds = {});

  void set_limit(int32_t limit) { limit_ = limit; }

  // Adds trees whole.
  void replay(const TreesView& trees) { kernels_.add_trees(columns_, trees, log_odds_.data()); }

  // Adds one tree: its splits, then the values of its leaves. A score is the summed log-likelihood.
  void assign(const Tree& tree) {
    kernels_.assign_leaves(columns_, tree, leaf_.data());
    leaves_ = tree.n_splits + 1;
  }
  void sum_leaves(size_t leaves, std::vector<LeafSum>& sums) {
    sums.resize(leaves);
    kernels_.sum_leaves(state(), leaf_.data(), leaves, sums.data());
  }
  RoundSummary advance(const int32_t* values) { return kernels_.advance(state(), leaf_.data(), leaves_, values); }
  int64_t advance_score(const int32_t* values) {
    return kernels_.advance_score(state(), leaf_.data(), leaves_, values);
  }
  double mean(int64_t score) const;

  // What the objective divides by when only the gradient counts: the weights.
  std::vector<int32_t> weights_as_hessian() const;

  const Columns& columns() const { return columns_; }
  bool unequal_weights() const { return unequal_; }
  const uint32_t* count() const { return count_.empty() ? nullptr : count_.data(); }
  uint32_t largest_count() const { return largest_count_; }
  size_t rows_with_weight() const { return kept_; }
  double scale() const { return scale_; }
  const int32_t* g() const { return g_.data(); }
  const int32_t* h() const { return h_.data(); }
  std::vector<int32_t> take_log_odds() { return std::move(log_odds_); }

 private:
  RowState state() {
    return {columns_.rows, target_, weight_.empty() ? nullptr : weight_.data(), count(), log_odds_.data(), g_.data(),
            h_.data(),     limit_};
  }

  const Kernels& kernels_;
  Columns columns_;
  const uint64_t* target_;
  std::vector<int32_t> log_odds_;
  std::vector<uint16_t> leaf_;
  size_t leaves_ = 1;
  std::vector<int32_t> g_, h_;
  std::vector<float> weight_;    // empty where all are equal
  std::vector<uint32_t> count_;  // empty where all are 1
  uint32_t largest_count_ = 1;
  int32_t limit_ = kNoLimit;
  size_t kept_;           // rows that have any weight, those that they stand for counted one by one
  bool unequal_ = false;  // among those
  double scale_ = 1.0;
  double total_weight_;
};

}  // namespace lbarn
