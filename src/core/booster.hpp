// Trains, continues and refits one conditional P(x_d | x_1..x_{d-1}) by LogitBoost, on one thread.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "kernels.hpp"

namespace lbarn {

// Called between trees; throws to stop.
using Interrupt = std::function<void()>;

enum class BoostingKind { newton, gradient };
enum class SplitKind { fast, exact };

// The words are those of lbarn.LBARN.
struct BoostingParameters {
  size_t max_leaf_nodes = 16;
  double learning_rate = 0.02;
  size_t max_iter = 1000;                        // in all, those of the trees given included
  BoostingKind boosting = BoostingKind::newton;  // gradient: split on the gradient alone
  SplitKind splits = SplitKind::fast;            // exact: round g and h to 24 bits; fast: stochastically to split_bits
  int split_bits = 6;
  double min_gain = 0.0;
  double l2_regularization = 0.0;
  double max_step = std::numeric_limits<double>::infinity();  // of a leaf, before the learning rate
  bool cap = false;                                           // no probability below 1 / (2 (n + 1)) after n rows
  double max_features = 1.0;                                  // share of the predictors that a tree may split on
  std::optional<size_t> n_iter_no_change;  // stop when validation has not improved for this many rounds; 0 is never too
};

// Rows to learn from or to validate on. The target is column `position`, its predictors the columns before it.
struct WeightedRows {
  Columns columns;
  const double* weight = nullptr;  // null: all 1; else one per row, none negative
};

// Mean log-likelihood per row (nats, weighted) after t = 0, 1, ... trees.
using Curve = std::vector<double>;

struct Boosted {
  Trees trees;
  Curve train_curve;
  Curve valid_curve;
};

// Adds rounds to `boosted` up to parameters.max_iter. Curves grow with the trees and start at t = 0 when it is empty.
// `valid` may have no rows.
void boost(const WeightedRows& train, const WeightedRows& valid, size_t position, const BoostingParameters& parameters,
           uint64_t seed, const Interrupt& interrupt, Boosted& boosted);

// New leaf values for the same splits, round by round, into `values`, and the limit that goes with them. The first
// `n_start` trees have a learning rate of their own.
int32_t refit(const WeightedRows& rows, size_t position, const TreesView& trees, const BoostingParameters& parameters,
              size_t n_start, double start_rate, const Interrupt& interrupt, int32_t* values);

// The curve of any rows under trained trees.
Curve curve(const WeightedRows& rows, size_t position, const TreesView& trees, const Interrupt& interrupt);

// The log-odds of all rows, padding included, in units of 2^-20.
std::vector<int32_t> log_odds(const Columns& columns, const TreesView& trees);

}  // namespace lbarn
