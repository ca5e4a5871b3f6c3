// The units of every number that crosses from floating point into a model. Sums of these integers do not depend on
// order, thread or SIMD path.
#pragma once

#include <cstdint>

namespace lbarn {

constexpr double kLogOddsUnit = 1.0 / (1 << 20);  // leaf values and log-odds, int32
constexpr int32_t kMaxLeaf = 8 << 20;             // a leaf is clipped to +-8 after shrinkage
constexpr int64_t kMaxLogOdds = INT32_MAX;        // bound on the sum over trees of max |leaf|
constexpr int32_t kNoLimit = INT32_MAX;           // of the log-odds that probabilities are made of
constexpr int kKnees = 6;                         // 3, 4, ... 8: 1 in 21 to 1 in 3,000
constexpr int kFirstKnee = 3;                     // beyond each of which log-odds may be stretched
constexpr int32_t kAsTheyAre = 8;                 // a stretch, in eighths
constexpr int32_t kMostStretch = 32;
constexpr double kUnit = 1.0 / (1 << 30);  // g, h, probabilities: int32, and log-likelihoods: int64
constexpr double kPerUnit = 1 << 30;
constexpr int64_t kUnitsPerLogOdds = 1 << 10;  // 2^-20 in units of 2^-30

}  // namespace lbarn
