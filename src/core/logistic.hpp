// The one map from integer log-odds to probabilities and log-likelihoods: polynomials in plain IEEE + - * / in a
// fixed order, so that every path and machine gives the same bits (compiled without contraction).
#pragma once

#include <cstdint>
#include <cstring>

#include "fixed_point.hpp"
#include "inline.hpp"

namespace lbarn {

LBARN_INLINE float float_of(int32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

LBARN_INLINE int32_t clamped(int32_t log_odds, int32_t limit) {
  const int32_t above = log_odds < -limit ? -limit : log_odds;
  return above > limit ? limit : above;
}

// For |log-odds| = u: the probability of the less likely value, and log(1 + exp(-u)). Relative errors are below 4e-7.
struct Softplus {
  float minor;
  float log1p_exp;
};

LBARN_INLINE Softplus softplus(int32_t log_odds) {
  // exp(-u) = 2^-k exp(-r) with |r| <= ln(2) / 2. Taking k ln(2) off in integers keeps r exact where u is large.
  constexpr int32_t kLn2 = 726817;  // ln(2) in units of 2^-20, and what is left of it
  constexpr float kLn2Rest = 0.498002825f;
  constexpr int32_t kLargest = 40 << 20;
  const int32_t magnitude = log_odds < 0 ? -log_odds : log_odds;
  const int32_t u = magnitude < kLargest ? magnitude : kLargest;
  const auto k = static_cast<int32_t>(static_cast<float>(u) * 1.37586121e-06f + 0.5f);
  const float r =
      (static_cast<float>(u - k * kLn2) - static_cast<float>(k) * kLn2Rest) * static_cast<float>(-kLogOddsUnit);
  // Both polynomials are summed in pairs (Estrin), which shortens the chain of operations that wait for each other.
  const float r2 = r * r;
  const float p =
      (1.0f + r) + r2 * ((0.5f + r * 0.166665767f) + r2 * ((0.0416665542f + r * 0.00836323288f) + r2 * 0.00139262508f));
  const float e = p * float_of((127 - k) << 23);
  const float a = 1.0f + e;
  const float b = 2.0f + e;
  const float q = e / (a * b);
  const float z = q * a;  // e / (2 + e), and log(1 + e) = 2 atanh(z)
  const float w = z * z;
  const float w2 = w * w;
  const float s = (2.0f + w * 0.666666403f) + w2 * ((0.400075606f + w * 0.282366198f) + w2 * 0.26851498f);
  return {q * b, s * z};
}

constexpr auto kUnits = static_cast<float>(kPerUnit);

// P(1) in units of 2^-30.
LBARN_INLINE int32_t probability(int32_t log_odds) {
  const auto minor = static_cast<int32_t>(softplus(log_odds).minor * kUnits + 0.5f);
  return log_odds < 0 ? minor : (1 << 30) - minor;
}

// 1 where the likelier value is not y.
LBARN_INLINE int32_t is_wrong(int32_t log_odds, int32_t y) { return ((log_odds >> 31) + 1) ^ y; }

// log P(y) in units of 2^-30: the log-odds themselves are exact.
LBARN_INLINE int64_t log_likelihood(int32_t log_odds, int32_t y) {
  const int64_t u = log_odds < 0 ? -static_cast<int64_t>(log_odds) : log_odds;
  const auto rest = static_cast<int32_t>(softplus(log_odds).log1p_exp * kUnits + 0.5f);
  return -(is_wrong(log_odds, y) * u * kUnitsPerLogOdds + rest);
}

}  // namespace lbarn
