// Packed bits in two layouts. Rows feed the histogram; columns feed everything that walks trees.
//
//   rows     row i is `stride` bytes; column j is bit j % 8 of byte j / 8. Stride is a multiple of 32.
//   columns  column j is `words` 64-bit words; row i is bit i % 64 of word i / 64. Words is a multiple of 8.
//
// Padding bits are zero in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lbarn {

constexpr size_t kRowAlign = 32;   // bytes
constexpr size_t kScanBytes = 16;  // the histogram reads rows in pieces of so many bytes
constexpr size_t kCacheLine = 64;
constexpr size_t kBlockWords = 8;  // words of a column per block: one cache line
constexpr size_t kBlockRows = 512;

struct Rows {
  const uint8_t* data = nullptr;
  size_t count = 0;
  size_t stride = 0;
  size_t width = 0;  // bytes of a row that a histogram reads, a multiple of 16

  const uint8_t* row(size_t i) const { return data + i * stride; }
};

struct Columns {
  const uint64_t* data = nullptr;
  size_t rows = 0;
  size_t words = 0;

  const uint64_t* column(size_t j) const { return data + j * words; }
  size_t padded_rows() const { return words * 64; }
};

inline size_t column_words(size_t rows) { return (rows + kBlockRows - 1) / kBlockRows * kBlockWords; }

// The predictors of one problem, as rows for its many scans: the columns that are not constant (no split can use the
// others), close together, aligned, and nothing else.
class Predictors {
 public:
  // Those among the columns before `position`, but for those that `skip` marks.
  Predictors(const Columns& columns, size_t position, const std::vector<uint8_t>& skip = {});

  // None yet, and room for so many; `append` adds a column of `columns`.
  static Predictors with_room(const Columns& columns, size_t capacity);
  void append(const Columns& columns, size_t position);

  const Rows& rows() const { return view_; }
  size_t count() const { return position_.size(); }
  uint16_t position(size_t predictor) const { return position_[predictor]; }

 private:
  Predictors() = default;
  void reserve(const Columns& columns, size_t capacity);
  void resize(size_t count) { view_.width = (count + 8 * kScanBytes - 1) / (8 * kScanBytes) * kScanBytes; }

  std::vector<uint16_t> position_;
  std::vector<uint8_t> data_;
  uint8_t* start_ = nullptr;
  Rows view_;
};

// Writes the first `columns` columns of `rows` into `out`, which holds columns * column_words(rows.count) zeroed words.
void transpose(const Rows& rows, size_t columns, uint64_t* out);

// The same for rows index[0..count) alone: `out` holds columns * column_words(count) zeroed words.
void take_columns(const Rows& rows, const int32_t* index, size_t count, size_t columns, uint64_t* out);

}  // namespace lbarn
