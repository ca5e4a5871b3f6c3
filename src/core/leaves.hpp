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

// How the sums become values.
struct LeafRule {
  double learning_rate;
  double l1, l2;  // in units of the sums
};

// nu * G / (sum h + l2), clipped and rounded; 0 without hessian. G is sum g, nearer to 0 by l1: of the rows that a leaf
// has more or fewer than were expected, that many count as chance.
inline int32_t leaf_value(const LeafSum& sum, const LeafRule& rule) {
  if (sum.h <= 0) return 0;
  const double rate = rule.learning_rate / kLogOddsUnit;
  const auto g = static_cast<double>(sum.g);
  const double beyond = std::copysign(std::max(std::abs(g) - rule.l1, 0.0), g);
  const double value = rate * beyond / (static_cast<double>(sum.h) + rule.l2);
  const auto clip = static_cast<double>(kMaxLeaf);
  return static_cast<int32_t>(std::llround(std::min(std::max(value, -clip), clip)));
}

}  // namespace lbarn
