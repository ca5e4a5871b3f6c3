#include "booster.hpp"

#include <algorithm>
#include <cmath>

#include "fixed_point.hpp"
#include "grower.hpp"
#include "leaves.hpp"
#include "logistic.hpp"
#include "require.hpp"

namespace lbarn {
namespace {

// Rows with their state: log-odds, gradients, weights. Weights are stored scaled by a power of two so that none
// exceeds 1 and g and h fit their integers; `scale` times a stored weight is the weight with mean 1.
class Walker {
 public:
  Walker(const Kernels& kernels, const WeightedRows& rows, size_t position, bool gradients)
      : kernels_(kernels),
        columns_(rows.columns),
        target_(rows.columns.column(position)),
        log_odds_(columns_.padded_rows()),
        leaf_(columns_.padded_rows()),
        g_(gradients ? columns_.padded_rows() : 0),
        h_(gradients ? columns_.padded_rows() : 0) {
    const size_t n = columns_.rows;
    kept_ = n;
    total_weight_ = static_cast<double>(n);
    if (!rows.weight || n == 0) return;
    double largest = 0.0, sum = 0.0;  // the sum in units of the largest: it cannot overflow
    kept_ = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, rows.weight[i]);
    for (size_t i = 0; i < n && largest > 0.0; ++i) {
      sum += rows.weight[i] / largest;
      kept_ += rows.weight[i] > 0.0;
      unequal_ = unequal_ || (rows.weight[i] > 0.0 && rows.weight[i] != largest);
    }
    if (!unequal_ && kept_ == n) return;
    weight_.assign(columns_.padded_rows(), 0.0f);
    if (unequal_) {
      int exponent;
      const double fraction = std::frexp(largest, &exponent);
      for (size_t i = 0; i < n; ++i) weight_[i] = static_cast<float>(std::ldexp(rows.weight[i], -exponent));
      scale_ = static_cast<double>(kept_) / (sum * fraction);
    } else {
      for (size_t i = 0; i < n; ++i) weight_[i] = rows.weight[i] > 0.0 ? 1.0f : 0.0f;
    }
    total_weight_ = 0.0;
    for (size_t i = 0; i < n; ++i) total_weight_ += static_cast<double>(weight_[i]);
  }

  RowState state() {
    return {columns_.rows, target_, weight_.empty() ? nullptr : weight_.data(), log_odds_.data(), g_.data(),
            h_.data(),     limit_};
  }
  size_t rows_with_weight() const { return kept_; }
  void set_limit(int32_t limit) { limit_ = limit; }
  const uint16_t* assign(const Tree& tree) {
    kernels_.assign_leaves(columns_, tree, leaf_.data());
    return leaf_.data();
  }
  void replay(const TreesView& trees) { kernels_.add_trees(columns_, trees, log_odds_.data()); }
  RoundSummary advance(const int32_t* values) { return kernels_.advance(state(), leaf_.data(), values); }
  double advance_mean(const int32_t* values) { return mean(kernels_.advance_score(state(), leaf_.data(), values)); }
  double mean(int64_t log_likelihood) const {
    return total_weight_ > 0.0 ? static_cast<double>(log_likelihood) * kUnit / total_weight_ : 0.0;
  }
  void sum_leaves(size_t leaves, std::vector<LeafSum>& sums) {
    sums.resize(leaves);
    kernels_.sum_leaves(state(), leaf_.data(), leaves, sums.data());
  }
  // What the objective divides by when only the gradient counts: the weights.
  std::vector<int32_t> weights_as_hessian() const {
    std::vector<int32_t> h(columns_.padded_rows(), 0);
    for (size_t i = 0; i < columns_.rows; ++i)
      h[i] = static_cast<int32_t>((weight_.empty() ? 1.0 : static_cast<double>(weight_[i])) * kPerUnit + 0.5);
    return h;
  }
  bool unequal_weights() const { return unequal_; }
  double scale() const { return scale_; }
  const int32_t* g() const { return g_.data(); }
  const int32_t* h() const { return h_.data(); }

 private:
  const Kernels& kernels_;
  Columns columns_;
  const uint64_t* target_;
  std::vector<int32_t> log_odds_;
  std::vector<uint16_t> leaf_;
  std::vector<int32_t> g_, h_;
  std::vector<float> weight_;
  int32_t limit_ = kNoLimit;
  size_t kept_;           // rows that have any weight
  bool unequal_ = false;  // among the rows that have any weight
  double scale_ = 1.0;
  double total_weight_;
};

// Values of the leaves from their sums. A tree that would let the log-odds outgrow 31 bits gets zeros.
void set_values(const std::vector<LeafSum>& sums, const LeafRule& rule, int64_t& headroom, int32_t* values) {
  int32_t largest = 0;
  for (size_t l = 0; l < sums.size(); ++l) {
    values[l] = leaf_value(sums[l], rule);
    largest = std::max(largest, std::abs(values[l]));
  }
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
    int32_t largest = 0;
    for (size_t l = 0; l <= tree.n_splits; ++l) largest = std::max(largest, std::abs(tree.values[l]));
    headroom -= largest;
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

Quantiser quantiser_for(const BoostingParameters& parameters, bool unequal_weights) {
  Quantiser how{};
  const bool exact = parameters.splits == SplitKind::exact;
  how.stochastic = !exact;
  // Weights spread the values over orders of magnitude: one digit would round most of them away.
  how.digits = exact ? 4 : unequal_weights ? 2 : 1;
  const int bits = exact ? 24 : parameters.split_bits + 6 * (how.digits - 1);
  how.g_levels = (1 << (bits - 1)) - 1;
  how.h_levels = (1 << bits) - 1;
  return how;
}

// Marks a random share of the features. Rows are numbered from 0 and features from the other end, so that no two share
// a random number.
void draw_features(RoundKey key, size_t count, double share, std::vector<double>& keep) {
  const auto threshold = static_cast<uint32_t>(share * 4294967295.0);
  std::fill(keep.begin(), keep.end(), 0.0);
  for (size_t j = 0; j < count; ++j)
    keep[slot_of_feature(j)] = row_bits(key, ~static_cast<uint32_t>(j)) <= threshold ? 1.0 : 0.0;
}

constexpr int32_t kNoTree = 0;  // the value of the only leaf before the first tree

}  // namespace

void boost(const WeightedRows& train, const WeightedRows& valid, size_t position, const BoostingParameters& parameters,
           uint64_t seed, const Interrupt& interrupt, Boosted& boosted) {
  require(parameters.max_leaf_nodes >= 1 && parameters.max_leaf_nodes <= kMaxLeaves, "max_leaf_nodes: 1 to 65,535");
  require(parameters.split_bits >= 2 && parameters.split_bits <= 6, "split_bits: 2 to 6");
  const size_t n_points = boosted.train_curve.size(), n_trees = boosted.trees.count();
  require(n_points == boosted.valid_curve.size() && (n_points == n_trees + 1 || (n_points == 0 && n_trees == 0)),
          "a curve needs one value more than there are trees");
  const Kernels& k = kernels();
  Trees& trees = boosted.trees;
  Walker training(k, train, position, true);
  Walker validation(k, valid, position, false);
  trees.limit = limit_after(training.rows_with_weight(), parameters.cap);
  training.set_limit(trees.limit);
  validation.set_limit(trees.limit);
  training.replay(trees.view());
  validation.replay(trees.view());
  RoundSummary summary = training.advance(&kNoTree);
  if (boosted.train_curve.empty()) {
    boosted.train_curve.push_back(training.mean(summary.log_likelihood));
    boosted.valid_curve.push_back(validation.advance_mean(&kNoTree));
  }
  const auto best = std::max_element(boosted.valid_curve.begin(), boosted.valid_curve.end());
  size_t best_round = static_cast<size_t>(best - boosted.valid_curve.begin());

  const bool gradient = parameters.boosting == BoostingKind::gradient;
  const size_t patience = parameters.n_iter_no_change.value_or(0);
  Quantiser how = quantiser_for(parameters, training.unequal_weights());
  const std::vector<int32_t> weights = gradient ? training.weights_as_hessian() : std::vector<int32_t>();
  const int32_t max_weight = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
  std::vector<std::vector<uint16_t>> digits(how.digits, std::vector<uint16_t>(train.columns.padded_rows()));
  std::vector<uint64_t> active(train.columns.words);
  DigitPlanes planes;
  uint16_t* plane_data[kMaxDigits] = {};
  planes.digits = how.digits;
  for (int d = 0; d < how.digits; ++d) planes.plane[d] = plane_data[d] = digits[d].data();

  const Predictors predictors(train.columns, position);
  Grower grower(k, train.columns, predictors);
  std::vector<double> keep(parameters.max_features < 1.0 ? scan_slots(predictors.rows()) : 0);
  std::vector<LeafSum> sums;
  int64_t headroom = headroom_after(trees.view());
  const double true_l2 = parameters.l2_regularization / training.scale() * kPerUnit;  // in units of the summed h

  for (size_t round = trees.count(); round < parameters.max_iter; ++round) {
    interrupt();
    if (patience && round - best_round >= patience) break;

    how.key = round_key(seed, position, round);
    const int32_t* split_h = gradient ? weights.data() : training.h();
    const int32_t max_h = gradient ? max_weight : summary.max_h;
    const QuantisedTotals totals =
        k.quantise(train.columns.rows, training.g(), split_h, summary.max_g, max_h, how, plane_data, active.data());
    if (!keep.empty()) draw_features(how.key, predictors.count(), parameters.max_features, keep);
    GrowthLimits limits{parameters.max_leaf_nodes, 0.0, 0.0, keep.empty() ? nullptr : keep.data()};
    if (summary.max_g > 0 && max_h > 0) {
      // obj = (sum g)^2 / sum h, so the quantised objective is the true one times g_per_unit^2 / h_per_unit.
      const double g_per_unit = static_cast<double>(how.g_levels) / summary.max_g;
      const double h_per_unit = static_cast<double>(how.h_levels) / max_h;
      limits.min_gain = parameters.min_gain / training.scale() * kPerUnit * g_per_unit * g_per_unit / h_per_unit;
      limits.l2 = true_l2 * h_per_unit;
    }
    const std::vector<Split>& splits = grower.grow(planes, active.data(), totals, limits);

    trees.splits.insert(trees.splits.end(), splits.begin(), splits.end());
    trees.offsets.push_back(static_cast<int64_t>(trees.splits.size()));
    trees.values.resize(trees.splits.size() + trees.count());
    const Tree tree = trees.view().tree(round);
    int32_t* values = trees.values.data() + (trees.values.size() - splits.size() - 1);
    training.assign(tree);
    training.sum_leaves(splits.size() + 1, sums);
    set_values(sums, {parameters.learning_rate, true_l2, parameters.max_step}, headroom, values);
    append_gains(splits, sums, true_l2, training.scale() * kUnit, trees.gains);

    summary = training.advance(values);
    boosted.train_curve.push_back(training.mean(summary.log_likelihood));
    validation.assign(tree);
    boosted.valid_curve.push_back(validation.advance_mean(values));
    if (boosted.valid_curve.back() > boosted.valid_curve[best_round]) best_round = round + 1;
  }
}

int32_t refit(const WeightedRows& rows, size_t position, const TreesView& trees, const BoostingParameters& parameters,
              size_t n_start, double start_rate, const Interrupt& interrupt, int32_t* values) {
  Walker walker(kernels(), rows, position, true);
  const int32_t limit = limit_after(walker.rows_with_weight(), parameters.cap);
  walker.set_limit(limit);
  const double true_l2 = parameters.l2_regularization / walker.scale() * kPerUnit;
  int64_t headroom = kMaxLogOdds;
  std::vector<LeafSum> sums;
  walker.advance(&kNoTree);
  for (size_t t = 0; t < trees.count; ++t) {
    interrupt();
    const Tree tree = trees.tree(t);
    walker.assign(tree);
    walker.sum_leaves(tree.n_splits + 1, sums);
    const double rate = t < n_start ? start_rate : parameters.learning_rate;
    set_values(sums, {rate, true_l2, parameters.max_step}, headroom, values);
    walker.advance(values);
    values += sums.size();
  }
  return limit;
}

Curve curve(const WeightedRows& rows, size_t position, const TreesView& trees, const Interrupt& interrupt) {
  Walker walker(kernels(), rows, position, false);
  walker.set_limit(trees.limit);
  Curve curve{walker.advance_mean(&kNoTree)};
  for (size_t t = 0; t < trees.count; ++t) {
    interrupt();
    const Tree tree = trees.tree(t);
    walker.assign(tree);
    curve.push_back(walker.advance_mean(tree.values));
  }
  return curve;
}

std::vector<int32_t> log_odds(const Columns& columns, const TreesView& trees) {
  std::vector<int32_t> sums(columns.padded_rows());
  kernels().add_trees(columns, trees, sums.data());
  if (trees.limit < kNoLimit)
    for (int32_t& sum : sums) sum = clamped(sum, trees.limit);
  return sums;
}

}  // namespace lbarn
