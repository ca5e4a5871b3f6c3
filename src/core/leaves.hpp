// What a leaf is worth, from the sums of its rows' g and h in units of 2^-30.
#pragma once

#include <algorithm>
#include <cmath>

#include "fixed_point.hpp"
#include "kernels.hpp"

namespace lbarn {

inline double objective(const LeafSum& sum, double l2) {
  const auto g = static_cast<double>(sum.g);
  return sum.h > 0 ? g * g / (static_cast<double>(sum.h) + l2) : 0.0;
}

// nu * sum g / (sum h + l2), rounded and clipped; 0 without hessian.
inline int32_t leaf_value(const LeafSum& sum, double learning_rate, double l2) {
  if (sum.h <= 0) return 0;
  const double value = learning_rate / kLogOddsUnit * static_cast<double>(sum.g) / (static_cast<double>(sum.h) + l2);
  const auto clip = static_cast<double>(kMaxLeaf);
  return static_cast<int32_t>(std::llround(std::min(std::max(value, -clip), clip)));
}

}  // namespace lbarn
