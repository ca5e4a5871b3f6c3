#include "distinct.hpp"

#include <algorithm>
#include <cstring>

namespace lbarn {
namespace {

constexpr int32_t kNone = -1;

// The first columns of a row, 64 at a time, those behind them left out.
class Prefix {
 public:
  Prefix(const Rows& rows, size_t columns)
      : rows_(rows),
        words_((columns + 63) / 64),
        last_(columns % 64 ? (uint64_t{1} << columns % 64) - 1 : ~uint64_t{0}) {}

  uint64_t hash(int32_t row) const {
    uint64_t hash = 0x9E3779B97F4A7C15ULL;
    for (size_t w = 0; w < words_; ++w) {
      hash = (hash ^ word(row, w)) * 0xD6E8FEB86659FD93ULL;
      hash ^= hash >> 32;
    }
    return hash;
  }

  bool equal(int32_t a, int32_t b) const {
    for (size_t w = 0; w < words_; ++w)
      if (word(a, w) != word(b, w)) return false;
    return true;
  }

 private:
  uint64_t word(int32_t row, size_t w) const {
    uint64_t word;
    std::memcpy(&word, rows_.row(static_cast<size_t>(row)) + 8 * w, sizeof word);
    return w + 1 == words_ ? word & last_ : word;
  }

  const Rows& rows_;
  size_t words_;
  uint64_t last_;
};

}  // namespace

DistinctRows distinct_rows(const Rows& rows, const int32_t* index, size_t count, size_t columns, size_t most) {
  const Prefix prefix(rows, columns);
  DistinctRows found;
  size_t slots = 64;
  while (slots < 2 * std::min(count, most + 1)) slots *= 2;
  std::vector<int32_t> table(slots, kNone);  // numbers of those found, by hash
  for (size_t i = 0; i < count; ++i) {
    size_t slot = prefix.hash(index[i]) & (slots - 1);
    while (table[slot] != kNone && !prefix.equal(found.index[static_cast<size_t>(table[slot])], index[i]))
      slot = (slot + 1) & (slots - 1);
    if (table[slot] != kNone) {
      ++found.count[static_cast<size_t>(table[slot])];
      continue;
    }
    if (found.index.size() == most) return {};
    table[slot] = static_cast<int32_t>(found.index.size());
    found.index.push_back(index[i]);
    found.count.push_back(1);
  }
  return found;
}

}  // namespace lbarn
