#include "bits.hpp"

#include <algorithm>
#include <cstring>

#include "kernels.hpp"

namespace lbarn {
namespace {

// An 8 x 8 bit matrix in a word, byte r being row r: swap rows and columns.
uint64_t transpose8(uint64_t x) {
  uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAULL;
  x = x ^ t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCULL;
  x = x ^ t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ULL;
  return x ^ t ^ (t << 28);
}

// The columns of the rows that `row(i)` points to.
template <class RowAt>
void write_columns(RowAt row, size_t count, size_t columns, uint64_t* out) {
  const Kernels& k = kernels();
  const size_t words = column_words(count);
  BitBlock block;
  // By blocks of 512 rows, so that a column's cache line is written whole before the next.
  for (size_t base = 0; base < count; base += kBlockRows)
    for (size_t first = 0; first < columns; first += 64 * kBlockLanes)
      for (size_t start = base; start < std::min(base + kBlockRows, count); start += 64) {
        const size_t n = std::min<size_t>(64, count - start);
        for (size_t r = 0; r < n; ++r) std::memcpy(block.word[r], row(start + r) + first / 8, sizeof block.word[r]);
        std::memset(block.word + n, 0, (64 - n) * sizeof block.word[0]);
        k.transpose_block(block);
        for (size_t lane = 0; lane < kBlockLanes; ++lane) {
          const size_t column = first + 64 * lane;
          for (size_t c = 0; c < 64 && column + c < columns; ++c)
            out[(column + c) * words + start / 64] = block.word[c][lane];
        }
      }
}

}  // namespace

void Predictors::reserve(const Columns& columns, size_t capacity) {
  const size_t stride = (capacity + 8 * kScanBytes - 1) / (8 * kScanBytes) * kScanBytes;
  data_.resize(columns.padded_rows() * stride + kCacheLine);
  const auto misaligned = reinterpret_cast<uintptr_t>(data_.data()) % kCacheLine;
  start_ = data_.data() + (misaligned ? kCacheLine - misaligned : 0);
  view_ = {start_, columns.rows, stride, 0};
}

Predictors Predictors::with_room(const Columns& columns, size_t capacity) {
  Predictors predictors;
  predictors.reserve(columns, capacity);
  return predictors;
}

void Predictors::append(const Columns& columns, size_t position) {
  const size_t at = count();
  position_.push_back(static_cast<uint16_t>(position));
  resize(count());
  const uint64_t* column = columns.column(position);
  for (size_t i = 0; i < columns.rows; ++i)
    start_[i * view_.stride + at / 8] |= static_cast<uint8_t>((column[i / 64] >> (i % 64) & 1) << (at % 8));
}

Predictors::Predictors(const Columns& columns, size_t position, const std::vector<uint8_t>& skip) {
  for (size_t j = 0; j < position; ++j) {
    if (!skip.empty() && skip[j]) continue;
    const uint64_t* column = columns.column(j);
    size_t ones = 0;
    for (size_t w = 0; w < columns.words; ++w) ones += popcount(column[w]);
    if (ones > 0 && ones < columns.rows) position_.push_back(static_cast<uint16_t>(j));
  }
  reserve(columns, count());
  resize(count());
  for (size_t first = 0; first < count(); first += 8) {
    const size_t n = std::min<size_t>(8, count() - first);
    for (size_t w = 0; w < columns.words; ++w)
      for (size_t r8 = 0; r8 < 64; r8 += 8) {
        uint64_t square = 0;
        for (size_t c = 0; c < n; ++c) square |= (columns.column(position_[first + c])[w] >> r8 & 0xFF) << (8 * c);
        square = transpose8(square);
        for (size_t r = 0; r < 8; ++r)
          start_[(64 * w + r8 + r) * view_.stride + first / 8] = static_cast<uint8_t>(square >> (8 * r));
      }
  }
}

void transpose(const Rows& rows, size_t columns, uint64_t* out) {
  write_columns([&rows](size_t i) { return rows.row(i); }, rows.count, columns, out);
}

void take_columns(const Rows& rows, const int32_t* index, size_t count, size_t columns, uint64_t* out) {
  write_columns([&rows, index](size_t i) { return rows.row(static_cast<size_t>(index[i])); }, count, columns, out);
}

}  // namespace lbarn
