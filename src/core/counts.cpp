#include "counts.hpp"

#include <cstring>

namespace lbarn {

uint16_t ones_of(uint64_t word) {
  word -= word >> 1 & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  return static_cast<uint16_t>(word * 0x0101010101010101u >> 56);
}

namespace {

void count_row(const uint8_t* row, const CountsView& counts, uint16_t* out) {
  for (size_t m = 0; m < counts.n_masks; ++m) {
    const uint64_t* mask = counts.masks + m * counts.words;
    uint16_t total = 0;
    for (size_t w = 0; w < counts.words; ++w) {
      if (!mask[w]) continue;
      uint64_t word;
      std::memcpy(&word, row + 8 * w, sizeof word);
      total = static_cast<uint16_t>(total + ones_of(word & mask[w]));
    }
    out[m] = total;
  }
}

void set_bit(uint8_t* row, size_t bit) { row[bit / 8] = static_cast<uint8_t>(row[bit / 8] | 1u << bit % 8); }

}  // namespace

std::vector<uint16_t> CountsView::counted(size_t mask) const {
  std::vector<uint16_t> found;
  for (size_t bit = 0; bit < 64 * words; ++bit)
    if (masks[mask * words + bit / 64] >> (bit % 64) & 1) found.push_back(static_cast<uint16_t>(bit));
  return found;
}

void count_ones(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, uint16_t* out) {
  for (size_t i = 0; i < count; ++i)
    count_row(rows.row(static_cast<size_t>(index[i])), counts, out + i * counts.n_masks);
}

void append_counts(const Rows& rows, const int32_t* index, size_t count, const CountsView& counts, bool with_target,
                   uint8_t* out, size_t stride) {
  std::vector<uint16_t> found(counts.n_masks);
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
