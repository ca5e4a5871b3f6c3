// What rows have among some of their bits: how many ones, or a sum of their weights; and bits made of that: whether it
// is at least so much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bits.hpp"

namespace lbarn {

// Count c is base[c] and, for each of its masks k = 0, 1, ..., 2^k times the ones of a row among the bits of that mask,
// all of which are before `position`. Its masks are number first[c] to first[c + 1] - 1: a single one counts ones; with
// 16, every bit has a weight in two's complement. Sums are those of whole numbers modulo 2^16, and all that rows can
// have are from 0 to 2^16 - 1. Feature i asks whether count which[i] is at least at_least[i]; to trees it is number
// position + i.
struct CountsView {
  struct Term {  // a bit and its weight, which is not 0
    uint16_t bit;
    int16_t weight;
  };

  size_t position;
  const uint64_t* masks;  // `words` for every mask
  size_t words;
  const uint32_t* first;
  const uint16_t* base;
  size_t n_counts;
  const uint16_t* which;
  const uint16_t* at_least;
  size_t n_features;
  const std::vector<Term>* terms;  // of every count, bits ascending
};

// The terms that the masks of a count come to.
std::vector<CountsView::Term> terms_of(const CountsView& counts, size_t count);

// The counts of rows index[0..count), n_counts for every row.
void count_ones(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, uint16_t* out);

// The same rows up to the position, the features after them, then the position's own bit if it is wanted. `out` is
// zeroed and has `stride` bytes for every row.
void append_counts(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, bool with_target,
                   uint8_t* out, size_t stride);

}  // namespace lbarn
