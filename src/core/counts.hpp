// How many ones rows have among some of their bits, and bits made of that: whether there are at least so many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bits.hpp"

namespace lbarn {

// Of each mask, the bits of a row that it counts, all before `position`. Feature i asks whether count which[i] is at
// least at_least[i]; to trees it is number position + i.
struct CountsView {
  size_t position;
  const uint64_t* masks;  // `words` for every mask
  size_t n_masks;
  size_t words;
  const uint16_t* which;
  const uint16_t* at_least;
  size_t n_features;

  // The bits that a mask counts, ascending.
  std::vector<uint16_t> counted(size_t mask) const;
};

// The ones of a word.
uint16_t ones_of(uint64_t word);

// The counts of rows index[0..count), n_masks for every row.
void count_ones(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, uint16_t* out);

// The same rows up to the position, the features after them, then the position's own bit if it is wanted. `out` is
// zeroed and has `stride` bytes for every row.
void append_counts(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, bool with_target,
                   uint8_t* out, size_t stride);

}  // namespace lbarn
