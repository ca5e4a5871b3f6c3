// The numbers of the bits that are set in a word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inline.hpp"

namespace lbarn {

// Four at a time without asking whether there are so many: what is written past the end is written over.
LBARN_INLINE void list_four_at_a_time(uint64_t bits, size_t n, uint32_t base, uint32_t* out) {
  for (size_t i = 0; i < n; i += 4)
    for (size_t j = 0; j < 4; ++j) {
      out[i + j] = base + lowest_bit(bits | uint64_t{1} << 63);
      bits &= bits - 1;
    }
}

}  // namespace lbarn
