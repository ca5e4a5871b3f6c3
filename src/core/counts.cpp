#include "counts.hpp"

#include <cstring>

#include "inline.hpp"

namespace lbarn {

namespace {

void count_row(const uint8_t* row, const CountsView& counts, uint16_t* out) {
  for (size_t c = 0; c < counts.n_counts; ++c) {
    uint16_t total = counts.base[c];
    for (size_t m = counts.first[c]; m < counts.first[c + 1]; ++m) {
      const uint64_t* mask = counts.masks + m * counts.words;
      uint16_t ones = 0;
      for (size_t w = 0; w < counts.words; ++w) {
        if (!mask[w]) continue;
        uint64_t word;
        std::memcpy(&word, row + 8 * w, sizeof word);
        ones = static_cast<uint16_t>(ones + popcount(word & mask[w]));
      }
      total = static_cast<uint16_t>(total + (ones << (m - counts.first[c])));
    }
    out[c] = total;
  }
}

void set_bit(uint8_t* row, size_t bit) { row[bit / 8] = static_cast<uint8_t>(row[bit / 8] | 1u << bit % 8); }

}  // namespace

std::vector<CountsView::Term> terms_of(const CountsView& counts, size_t count) {
  std::vector<CountsView::Term> found;
  const size_t first = counts.first[count], last = counts.first[count + 1];
  for (size_t w = 0; w < counts.words; ++w) {
    uint64_t any = 0;
    for (size_t m = first; m < last; ++m) any |= counts.masks[m * counts.words + w];
    for (; any; any &= any - 1) {
      const size_t bit = lowest_bit(any);
      uint64_t weight = 0;
      for (size_t m = first; m < last; ++m) weight |= (counts.masks[m * counts.words + w] >> bit & 1) << (m - first);
      found.push_back({static_cast<uint16_t>(64 * w + bit), static_cast<int16_t>(static_cast<uint16_t>(weight))});
    }
  }
  return found;
}

void count_ones(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, uint16_t* out) {
  for (size_t i = 0; i < count; ++i)
    count_row(rows.row(static_cast<size_t>(index[i])), counts, out + i * counts.n_counts);
}

void append_counts(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, bool with_target,
                   uint8_t* out, size_t stride) {
  std::vector<uint16_t> found(counts.n_counts);
  const size_t position = counts.position, whole = position / 8;
  const auto rest = static_cast<uint8_t>((1u << position % 8) - 1);
  for (size_t i = 0; i < count; ++i, out += stride) {
    const uint8_t* row = rows.row(static_cast<size_t>(index[i]));
    count_row(row, counts, found.data());
    std::memcpy(out, row, whole);
    if (rest) out[whole] = row[whole] & rest;
    for (size_t f = 0; f < counts.n_features; ++f)
      if (found[counts.which[f]] >= counts.at_least[f]) set_bit(out, position + f);
    if (with_target && row[position / 8] >> position % 8 & 1) set_bit(out, position + counts.n_features);
  }
}

}  // namespace lbarn
