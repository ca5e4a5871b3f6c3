// Trains, continues and refits one conditional P(x_d | x_1..x_{d-1}) by LogitBoost, on one thread.
#pragma once

#include <functional>
#include <vector>

#include "kernels.hpp"

namespace lbarn {

// Called between trees; throws to stop.
using Interrupt = std::function<void()>;

struct BoostingParams {
  size_t max_leaves = 16;
  double learning_rate = 0.02;
  size_t rounds = 1000;  // in all, those of the trees given included
  bool exact = false;    // round g and h to 24 bits; else stochastically to split_bits
  int split_bits = 6;
  bool gradient = false;  // split on the gradient alone
  double min_gain = 0.0;
  double l2 = 0.0;
  double max_features = 1.0;  // share of the predictors that a tree may split on
  uint64_t seed = 0;
  size_t patience = 0;  // stop when validation has not improved for so many rounds; 0: never
};

// Rows to learn from or to validate on. The target is column `position`, its predictors the columns before it.
struct Sample {
  Columns columns;
  const double* weight = nullptr;  // null: all 1; else one per row, none negative
};

// Mean log-likelihood per row (nats, weighted) after t = 0, 1, ... trees.
using Curve = std::vector<double>;

struct BoostingResult {
  Trees trees;
  Curve train_curve;
  Curve valid_curve;
};

// Adds rounds to `result` up to params.rounds. Curves grow with the trees and start at t = 0 when it is empty.
// `valid` may have no rows.
void boost(const Sample& train, const Sample& valid, size_t position, const BoostingParams& params,
           const Interrupt& interrupt, BoostingResult& result);

// New leaf values for the same splits, round by round, into `values`; the curve of the data that they come from. The
// first `n_start` trees have a learning rate of their own.
Curve refit(const Sample& sample, size_t position, const TreesView& trees, size_t n_start, double start_rate,
            double learning_rate, double l2, const Interrupt& interrupt, int32_t* values);

// The curve of any data under trained trees.
Curve curve(const Sample& sample, size_t position, const TreesView& trees, const Interrupt& interrupt);

}  // namespace lbarn
