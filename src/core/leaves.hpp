// What a leaf is worth, from the sums of its rows' g and h in units of 2^-30.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixed_point.hpp"
#include "kernels.hpp"

namespace lbarn {

inline double objective(const LeafSum& sum, double l2) {
  const auto g = static_cast<double>(sum.g);
  return sum.h > 0 ? g * g / (static_cast<double>(sum.h) + l2) : 0.0;
}

// How the sums become values.
struct LeafRule {
  double learning_rate;
  double l2;                                                  // in units of the sums
  double max_step = std::numeric_limits<double>::infinity();  // of Newton's step, before the learning rate
};

// nu * sum g / (sum h + l2), the step clipped before and the value after nu, and rounded; 0 without hessian.
inline int32_t leaf_value(const LeafSum& sum, const LeafRule& rule) {
  if (sum.h <= 0) return 0;
  const double rate = rule.learning_rate / kLogOddsUnit;
  double value = rate * static_cast<double>(sum.g) / (static_cast<double>(sum.h) + rule.l2);
  if (std::isfinite(rule.max_step)) value = std::min(std::max(value, -rate * rule.max_step), rate * rule.max_step);
  const auto clip = static_cast<double>(kMaxLeaf);
  return static_cast<int32_t>(std::llround(std::min(std::max(value, -clip), clip)));
}

}  // namespace lbarn
