#include "round.hpp"

#include <algorithm>

#include "fixed_point.hpp"

namespace lbarn {
namespace {

Quantiser quantiser_for(const BoostingParameters& parameters, const Walker& training) {
  Quantiser how{};
  const bool exact = parameters.splits == SplitKind::exact;
  how.stochastic = !exact;
  // Weights and counts spread the values over orders of magnitude: one digit would round most of them away.
  how.digits = exact ? 4 : training.unequal_weights() || training.count() ? 2 : 1;
  const int bits = exact ? 24 : parameters.split_bits + 6 * (how.digits - 1);
  how.g_levels = (1 << (bits - 1)) - 1;
  how.h_levels = (1 << bits) - 1;
  if (exact)  // products with counts need more digits
    for (uint32_t largest = training.largest_count(); largest > 1; largest = (largest + 63) / 64) ++how.digits;
  return how;
}

}  // namespace

bool fits_cells(const BoostingParameters& parameters, const Walker& training) {
  const Quantiser how = quantiser_for(parameters, training);
  if (training.count() && !how.stochastic) return false;
  const int64_t levels = how.h_levels;
  return levels * static_cast<int64_t>(training.columns().rows) <= INT32_MAX;
}

Round::Round(const Kernels& kernels, const Walker& training, const Predictors& predictors,
             const BoostingParameters& parameters, CellPredictors cells)
    : kernels_(kernels),
      parameters_(parameters),
      cells_(std::move(cells)),
      grower_(kernels, training.columns(), predictors, cells_),
      quantiser_(quantiser_for(parameters, training)),
      digits_(quantiser_.digits, std::vector<uint16_t>(training.columns().padded_rows())),
      active_(training.columns().words),
      values_(cells_.empty() ? 0 : training.columns().padded_rows()) {
  if (parameters.boosting == BoostingKind::gradient) {
    weights_ = training.weights_as_hessian();
    if (!weights_.empty()) max_weight_ = *std::max_element(weights_.begin(), weights_.end());
    most_weight_ = static_cast<double>(max_weight_) * training.largest_count();
  }
  if (parameters.max_features < 1.0) {
    std::vector<uint32_t> varying = cells_.varying();
    for (size_t j = 0; j < predictors.count(); ++j) varying.push_back(predictors.position(j));
    std::vector<uint32_t> number(varying.empty() ? 0 : *std::max_element(varying.begin(), varying.end()) + 1);
    for (const uint32_t position : varying) number[position] = 1;
    uint32_t count = 0;
    for (uint32_t& at : number) at = at ? count++ : 0;
    cells_.set_numbers(number);
    for (size_t j = 0; j < predictors.count(); ++j) numbers_.push_back(number[predictors.position(j)]);
    keep_.resize(scan_slots(predictors.rows()));
    kept_.resize(varying.size());
  }
}

// Marks a random share of the features, numbered as they follow each other.
void Round::draw_features(RoundKey key) {
  const auto threshold = static_cast<uint32_t>(parameters_.max_features * 4294967295.0);
  kernels_.draw_features(key, kept_.size(), threshold, kept_.data());
  for (size_t j = 0; j < numbers_.size(); ++j) keep_[slot_of_feature(j)] = kept_[numbers_[j]] ? 1.0 : 0.0;
  if (!cells_.empty()) cells_.keep(kept_.data());
}

// The rows' g and h as one number each.
void Round::combine_digits(size_t rows) {
  const int top = quantiser_.digits - 1;
  for (size_t i = 0; i < rows; ++i) {
    int32_t g = static_cast<int8_t>(digits_[top][i] & 0xFF), h = digits_[top][i] >> 8;
    for (int d = top; d-- > 0;) {
      g = g * 64 + (digits_[d][i] & 0xFF);
      h = h * 64 + (digits_[d][i] >> 8);
    }
    values_[i] = packed_sum(g, h);
  }
}

void Round::grow(Walker& training, const RoundSummary& summary, RoundKey key) {
  const bool gradient = parameters_.boosting == BoostingKind::gradient;
  const int32_t* h = gradient ? weights_.data() : training.h();
  const int32_t max_h = gradient ? max_weight_ : summary.max_h;
  QuantisedRows quantised{};
  uint16_t* plane_data[kMaxDigits] = {};
  quantised.planes.digits = quantiser_.digits;
  quantised.planes.largest = quantiser_.h_levels;
  for (int d = 0; d < quantiser_.digits; ++d) quantised.planes.plane[d] = plane_data[d] = digits_[d].data();
  quantiser_.key = key;
  double largest_g = summary.max_g, largest_h = max_h;
  if (training.count()) {
    if (quantiser_.stochastic) {
      largest_g = static_cast<double>(summary.most_g);
      largest_h = gradient ? most_weight_ : static_cast<double>(summary.most_h);
    }
    quantised.totals = kernels_.quantise_counted(training.columns().rows, training.g(), h, training.count(), largest_g,
                                                 largest_h, quantiser_, plane_data, active_.data());
  } else {
    quantised.totals = kernels_.quantise(training.columns().rows, training.g(), h, summary.max_g, max_h, quantiser_,
                                         plane_data, active_.data());
  }
  quantised.active = active_.data();
  quantised.largest = quantiser_.h_levels;
  if (!cells_.empty()) {
    combine_digits(training.columns().rows);
    quantised.values = values_.data();
  }
  if (parameters_.max_features < 1.0) draw_features(key);
  GrowthLimits limits{parameters_.max_leaf_nodes, 0.0, 0.0, keep_.empty() ? nullptr : keep_.data()};
  if (summary.max_g > 0 && max_h > 0) {
    // obj = (sum g)^2 / sum h, so the quantised objective is the true one times g_per_unit^2 / h_per_unit.
    const double g_per_unit = static_cast<double>(quantiser_.g_levels) / largest_g;
    const double h_per_unit = static_cast<double>(quantiser_.h_levels) / largest_h;
    limits.min_gain = parameters_.min_gain / training.scale() * kPerUnit * g_per_unit * g_per_unit / h_per_unit;
    limits.l2 = parameters_.l2_regularization / training.scale() * kPerUnit * h_per_unit;
  }
  splits_ = &grower_.grow(quantised, limits);
  training.assign({splits_->data(), splits_->size(), nullptr});
  training.sum_leaves(splits_->size() + 1, sums_);
}

}  // namespace lbarn
