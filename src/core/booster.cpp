#include "booster.hpp"

#include <algorithm>
#include <cmath>

#include "fixed_point.hpp"
#include "leaves.hpp"
#include "require.hpp"

namespace lbarn {
namespace {

void check(const BoostingParameters& parameters) {
  require(parameters.max_leaf_nodes >= 1 && parameters.max_leaf_nodes <= kMaxLeaves, "max_leaf_nodes: 1 to 65,535");
  require(parameters.split_bits >= 2 && parameters.split_bits <= 6, "split_bits: 2 to 6");
  require(parameters.l1_regularization >= 0.0, "l1_regularization: must not be negative");
}

LeafRule rule_for(const BoostingParameters& parameters, const Walker& walker) {
  const double per_row = kPerUnit / walker.scale();
  return {parameters.learning_rate, parameters.l1_regularization * per_row, parameters.l2_regularization * per_row};
}

int32_t largest_of(const int32_t* values, size_t count) {
  int32_t largest = 0;
  for (size_t l = 0; l < count; ++l) largest = std::max(largest, std::abs(values[l]));
  return largest;
}

// Values of the leaves from their sums. A tree that would let the log-odds outgrow 31 bits gets zeros.
void set_values(const std::vector<LeafSum>& sums, const LeafRule& rule, int64_t& headroom, int32_t* values) {
  for (size_t l = 0; l < sums.size(); ++l) values[l] = leaf_value(sums[l], rule);
  const int32_t largest = largest_of(values, sums.size());
  if (largest > headroom) {
    std::fill(values, values + sums.size(), 0);
    return;
  }
  headroom -= largest;
}

// The log-odds of p = 1 / (2 (n + 1)): n rows that agree are no evidence for less.
int32_t limit_after(size_t n, bool cap) {
  if (!cap) return kNoLimit;
  const double log_odds = std::log(2.0 * static_cast<double>(n) + 1.0);
  return std::max<int32_t>(1, static_cast<int32_t>(std::llround(log_odds / kLogOddsUnit)));
}

int64_t headroom_after(const TreesView& trees) {
  int64_t headroom = kMaxLogOdds;
  for (size_t t = 0; t < trees.count; ++t) {
    const Tree tree = trees.tree(t);
    headroom -= largest_of(tree.values, tree.n_splits + 1);
  }
  return headroom;
}

// Gains of the splits from the true sums of their leaves, undoing the splits from the last to the first.
void append_gains(const std::vector<Split>& splits, std::vector<LeafSum> sums, double l2, double unit,
                  std::vector<float>& gains) {
  const size_t first = gains.size();
  gains.resize(first + splits.size());
  for (size_t k = splits.size(); k-- > 0;) {
    LeafSum& zeros = sums[splits[k].leaf];
    const LeafSum ones = sums[k + 1];
    const LeafSum both = {zeros.g + ones.g, zeros.h + ones.h};
    const double gain = objective(zeros, l2) + objective(ones, l2) - objective(both, l2);
    gains[first + k] = static_cast<float>(std::max(0.0, gain) * unit);
    zeros = both;
  }
}

constexpr int32_t kNoTree = 0;  // the value of the only leaf before the first tree

}  // namespace

void boost(const WeightedRows& train, const WeightedRows& valid, size_t position, const BoostingParameters& parameters,
           uint64_t seed, size_t n_start, const Interrupt& interrupt, Boosted& boosted) {
  check(parameters);
  const size_t n_points = boosted.train_curve.size(), n_trees = boosted.trees.count();
  require(n_points == boosted.valid_curve.size() && (n_points == n_trees + 1 || n_points == 0),
          "a curve needs one value more than there are trees");
  const Kernels& k = kernels();
  Trees& trees = boosted.trees;
  Walker training(k, train, position, true);
  Walker validation(k, valid, position, false);
  trees.limit = limit_after(training.rows_with_weight(), parameters.cap);
  training.set_limit(trees.limit);
  validation.set_limit(trees.limit);
  RoundSummary summary{};
  const auto advance = [&](const int32_t* values) {
    summary = training.advance(values);
    boosted.train_curve.push_back(training.mean(summary.log_likelihood));
    boosted.valid_curve.push_back(validation.mean(validation.advance_score(values)));
  };
  if (boosted.train_curve.empty()) {
    advance(&kNoTree);
    for (size_t t = 0; t < n_trees; ++t) {
      const Tree tree = trees.view().tree(t);
      training.assign(tree);
      validation.assign(tree);
      advance(tree.values);
    }
  } else {
    training.replay(trees.view());
    validation.replay(trees.view());
    summary = training.advance(&kNoTree);
  }
  const auto best = std::max_element(boosted.valid_curve.begin(), boosted.valid_curve.end());
  size_t best_round = std::max(n_start, static_cast<size_t>(best - boosted.valid_curve.begin()));

  const size_t patience = parameters.n_iter_no_change.value_or(0);
  CellPredictors cells;
  if (train.cells && fits_cells(parameters, training)) cells = CellPredictors(*train.cells, position);
  const Predictors predictors(train.columns, position, cells.covered());
  Round round(k, training, predictors, parameters, std::move(cells));
  int64_t headroom = headroom_after(trees.view());
  const LeafRule rule = rule_for(parameters, training);

  for (size_t t = trees.count(); t < parameters.max_iter; ++t) {
    interrupt();
    if (patience && t - best_round >= patience) break;
    round.grow(training, summary, round_key(seed, position, t));

    const std::vector<Split>& splits = round.splits();
    trees.splits.insert(trees.splits.end(), splits.begin(), splits.end());
    trees.offsets.push_back(static_cast<int64_t>(trees.splits.size()));
    trees.values.resize(trees.splits.size() + trees.count());
    int32_t* values = trees.values.data() + (trees.values.size() - splits.size() - 1);
    set_values(round.sums(), rule, headroom, values);
    append_gains(splits, round.sums(), rule.l2, training.scale() * kUnit, trees.gains);

    validation.assign(trees.view().tree(t));
    advance(values);
    if (boosted.valid_curve.back() > boosted.valid_curve[best_round]) best_round = t + 1;
  }
}

int32_t refit(const WeightedRows& rows, size_t position, const TreesView& trees, const BoostingParameters& parameters,
              size_t n_start, std::optional<double> start_rate, const Interrupt& interrupt, int32_t* values) {
  check(parameters);
  Walker walker(kernels(), rows, position, true);
  const int32_t limit = limit_after(walker.rows_with_weight(), parameters.cap);
  walker.set_limit(limit);
  LeafRule rule = rule_for(parameters, walker);
  int64_t headroom = kMaxLogOdds;
  std::vector<LeafSum> sums;
  walker.advance(&kNoTree);
  for (size_t t = 0; t < trees.count; ++t) {
    interrupt();
    const Tree tree = trees.tree(t);
    const size_t leaves = tree.n_splits + 1;
    walker.assign(tree);
    if (t < n_start && !start_rate) {
      std::copy(tree.values, tree.values + leaves, values);
      headroom -= largest_of(values, leaves);
    } else {
      walker.sum_leaves(leaves, sums);
      rule.learning_rate = t < n_start ? *start_rate : parameters.learning_rate;
      set_values(sums, rule, headroom, values);
    }
    walker.advance(values);
    values += leaves;
  }
  return limit;
}

Curve curve(const WeightedRows& rows, size_t position, const TreesView& trees, const Interrupt& interrupt) {
  Walker walker(kernels(), rows, position, false);
  walker.set_limit(trees.limit);
  Curve curve{walker.mean(walker.advance_score(&kNoTree))};
  for (size_t t = 0; t < trees.count; ++t) {
    interrupt();
    const Tree tree = trees.tree(t);
    walker.assign(tree);
    curve.push_back(walker.mean(walker.advance_score(tree.values)));
  }
  return curve;
}

}  // namespace lbarn
