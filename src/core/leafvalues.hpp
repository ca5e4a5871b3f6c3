// The values of a tree's leaves, for rows that know their leaf.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inline.hpp"

namespace lbarn {

// Looked up in memory, one by one.
class LeafValues {
 public:
  LeafValues(const int32_t* values, size_t) : values_(values) {}

  // To the log-odds of 64 rows.
  LBARN_INLINE void add(const uint16_t* leaf, int32_t* log_odds) const {
    for (size_t r = 0; r < 64; ++r) log_odds[r] += values_[leaf[r]];
  }

 private:
  const int32_t* values_;
};

}  // namespace lbarn
