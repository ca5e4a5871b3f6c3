// The values of a tree's leaves, for rows that know their leaf.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inline.hpp"

namespace lbarn {

// Looked up in memory, one by one.
class LeafValues {
 public:
  static constexpr size_t kMasked = 2;  // leaves at most, whose values are better added by masks

  LeafValues(const int32_t* values, size_t) : values_(values) {}

  // To the log-odds of 64 rows.
  LBARN_INLINE void add(const uint16_t* leaf, int32_t* log_odds) const {
    for (size_t r = 0; r < 64; ++r) log_odds[r] += values_[leaf[r]];
  }

  // The same if a mask for every leaf, `stride` words apart, tells which rows are there.
  LBARN_INLINE static void add_masked(const uint64_t* masks, size_t stride, const int32_t* values, size_t leaves,
                                      int32_t* log_odds) {
    for (size_t l = 0; l < leaves; ++l)
      for (size_t r = 0; r < 64; ++r) log_odds[r] += masks[l * stride] >> r & 1 ? values[l] : 0;
  }

 private:
  const int32_t* values_;
};

}  // namespace lbarn
