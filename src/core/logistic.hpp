// The one map from integer log-odds to probabilities and log-likelihoods: polynomials in plain IEEE + - * / in a
// fixed order, so that every path and machine gives the same bits (compiled without contraction).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "fixed_point.hpp"
#include "inline.hpp"

namespace lbarn {

constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer in the low bits

LBARN_INLINE int64_t bits_of(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

LBARN_INLINE double double_of(int64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Nearest integer, for |x| < 2^51.
LBARN_INLINE int64_t round_to_int(double x) { return bits_of(x + kRound) - bits_of(kRound); }

// exp(-u) for u >= 0, relative error below 1e-12 up to u = 40, held there beyond.
LBARN_INLINE double exp_minus(double u) {
  u = u < 40.0 ? u : 40.0;
  const double t = u * -1.4426950408889634;
  const double shifted = t + kRound;
  const double r = t - (shifted - kRound);  // in [-1/2, 1/2]
  double p = 1.3255224878668817e-06;        // 2^r
  p = p * r + 1.5310079402249296e-05;
  p = p * r + 0.00015403455852453838;
  p = p * r + 0.0013333450568000645;
  p = p * r + 0.009618129159402558;
  p = p * r + 0.05550410941205933;
  p = p * r + 0.2402265069581299;
  p = p * r + 0.6931471805459335;
  p = p * r + 1.0;
  return p * double_of((bits_of(shifted) - bits_of(kRound) + 1023) << 52);
}

// For |log-odds| = u: the probability of the less likely value, and log(1 + exp(-u)).
struct Softplus {
  double minor;
  double log1p_exp;
};

LBARN_INLINE Softplus softplus(double u) {
  const double e = exp_minus(u);
  const double a = 1.0 + e;
  const double b = 2.0 + e;
  const double r = e / (a * b);
  const double z = r * a;  // e / (2 + e), and log(1 + e) = 2 atanh(z)
  const double w = z * z;
  double s = 0.2186056831430696;
  s = s * w + 0.1712253666729019;
  s = s * w + 0.22305127385582954;
  s = s * w + 0.2856814575820109;
  s = s * w + 0.4000006142120794;
  s = s * w + 0.6666666623792175;
  s = s * w + 2.000000000004866;
  return {r * b, s * z};
}

// P(1) in units of 2^-30.
LBARN_INLINE int32_t probability(int32_t log_odds) {
  const double u = std::fabs(static_cast<double>(log_odds)) * kLogOddsUnit;
  const auto minor = static_cast<int32_t>(softplus(u).minor * kPerUnit + 0.5);
  return log_odds < 0 ? minor : (1 << 30) - minor;
}

// log P(y) in units of 2^-30.
LBARN_INLINE int64_t log_likelihood(int32_t log_odds, int32_t y) {
  const double u = std::fabs(static_cast<double>(log_odds)) * kLogOddsUnit;
  const double wrong = static_cast<double>(((log_odds >> 31) + 1) ^ y);
  return round_to_int(-(wrong * u + softplus(u).log1p_exp) * kPerUnit);
}

}  // namespace lbarn
