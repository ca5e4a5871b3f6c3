#include "round.hpp"

#include <algorithm>

#include "fixed_point.hpp"

namespace lbarn {
namespace {

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

}  // namespace

Round::Round(const Kernels& kernels, const Walker& training, const Predictors& predictors,
             const BoostingParameters& parameters)
    : kernels_(kernels),
      predictors_(predictors),
      parameters_(parameters),
      grower_(kernels, training.columns(), predictors),
      quantiser_(quantiser_for(parameters, training.unequal_weights())),
      digits_(quantiser_.digits, std::vector<uint16_t>(training.columns().padded_rows())),
      active_(training.columns().words),
      keep_(parameters.max_features < 1.0 ? scan_slots(predictors.rows()) : 0) {
  if (parameters.boosting == BoostingKind::gradient) {
    weights_ = training.weights_as_hessian();
    if (!weights_.empty()) max_weight_ = *std::max_element(weights_.begin(), weights_.end());
  }
}

void Round::grow(Walker& training, const RoundSummary& summary, RoundKey key) {
  const bool gradient = parameters_.boosting == BoostingKind::gradient;
  const int32_t* h = gradient ? weights_.data() : training.h();
  const int32_t max_h = gradient ? max_weight_ : summary.max_h;
  DigitPlanes planes;
  uint16_t* plane_data[kMaxDigits] = {};
  planes.digits = quantiser_.digits;
  for (int d = 0; d < planes.digits; ++d) planes.plane[d] = plane_data[d] = digits_[d].data();
  quantiser_.key = key;
  const QuantisedTotals totals = kernels_.quantise(training.columns().rows, training.g(), h, summary.max_g, max_h,
                                                   quantiser_, plane_data, active_.data());
  if (!keep_.empty()) draw_features(key, predictors_.count(), parameters_.max_features, keep_);
  GrowthLimits limits{parameters_.max_leaf_nodes, 0.0, 0.0, keep_.empty() ? nullptr : keep_.data()};
  if (summary.max_g > 0 && max_h > 0) {
    // obj = (sum g)^2 / sum h, so the quantised objective is the true one times g_per_unit^2 / h_per_unit.
    const double g_per_unit = static_cast<double>(quantiser_.g_levels) / summary.max_g;
    const double h_per_unit = static_cast<double>(quantiser_.h_levels) / max_h;
    limits.min_gain = parameters_.min_gain / training.scale() * kPerUnit * g_per_unit * g_per_unit / h_per_unit;
    limits.l2 = parameters_.l2_regularization / training.scale() * kPerUnit * h_per_unit;
  }
  splits_ = &grower_.grow(planes, active_.data(), totals, limits);
  training.assign({splits_->data(), splits_->size(), nullptr});
  training.sum_leaves(splits_->size() + 1, sums_);
}

}  // namespace lbarn
