#include "coder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "evaluate.hpp"
#include "require.hpp"
#include "sorted.hpp"

namespace lbarn {
namespace {

constexpr int kWord = 32;
constexpr size_t kChunk = 1024;
constexpr int kDigitBits = 20;  // of a number that may be any in a range

// The digits of a number below n: how far the highest one is shifted, and how many values it has.
struct Digits {
  int highest;
  uint32_t n_highest;

  explicit Digits(uint64_t n) : highest(0) {
    while ((n - 1) >> (highest + kDigitBits)) {
      highest += kDigitBits;
      if (highest + kDigitBits >= 64) break;
    }
    n_highest = static_cast<uint32_t>((n - 1) >> highest) + 1;
  }
  uint32_t n_values(int shift) const { return shift == highest ? n_highest : uint32_t{1} << kDigitBits; }
};

uint32_t digit(uint64_t number, int shift) {
  return static_cast<uint32_t>(number >> shift & ((uint64_t{1} << kDigitBits) - 1));
}

}  // namespace

void boundaries(const int32_t* log_odds, size_t count, uint32_t* out) {
  constexpr int kShift = 30 - kPrecision;
  int32_t p[kChunk];
  for (size_t base = 0; base < count; base += kChunk) {
    const size_t n = std::min(kChunk, count - base);
    probabilities(log_odds + base, n, p);
    for (size_t i = 0; i < n; ++i) {
      const int32_t rounded = (p[i] + (1 << (kShift - 1))) >> kShift;
      const int32_t ones = std::min(std::max(rounded, 1), static_cast<int32_t>(kWhole) - 1);
      const uint64_t zeros = kWhole - static_cast<uint32_t>(ones);
      out[base + i] = static_cast<uint32_t>(zeros * (kWhole - 2) >> kPrecision) + 1;
    }
  }
}

void parts_of_weights(const double* weights, size_t count, uint32_t* left) {
  double total = 0.0, before = 0.0;
  for (size_t s = 0; s < count; ++s) {
    require(weights[s] >= 0.0, "weights: negative, or not a number");
    total += weights[s];
  }
  require(0 < count && count < kWhole && total > 0.0 && std::isfinite(total), "weights: they have no sum");
  const double scale = static_cast<double>(kWhole - count) / total;
  for (size_t s = 0; s < count; ++s) {
    left[s] = static_cast<uint32_t>(before * scale) + static_cast<uint32_t>(s);
    before += weights[s];
  }
  left[count] = kWhole;
}

CellSymbols::CellSymbols(const double* weights, const int64_t* starts, const uint64_t* n_last, size_t n_cells)
    : first(n_cells + 1), n_last(n_last, n_last + n_cells) {
  left.resize(static_cast<size_t>(starts[n_cells]) + n_cells);
  for (size_t cell = 0; cell < n_cells; ++cell) {
    const double* own = weights + starts[cell];
    const auto n = static_cast<size_t>(starts[cell + 1] - starts[cell]);
    uint32_t* parts = left.data() + first[cell];
    first[cell + 1] = first[cell] + n + 1;
    require(n > 0 && this->n_last[cell] > 0, "a cell without a value");
    if (std::all_of(own, own + n, [own](double weight) { return weight == own[0]; })) {
      require(n <= kWhole, "a cell of too many values");
      for (size_t s = 0; s < n; ++s) parts[s] = static_cast<uint32_t>(s * (kWhole / n));
      parts[n] = kWhole;
    } else {
      parts_of_weights(own, n, parts);
    }
  }
}

Coder::Coder(const uint32_t* words, size_t count) : words_(words, words + count) {
  require(!count || words[count - 1] != 0, "the last word of a stream is 0, which no encoder leaves");
  for (int half = 0; half < 2 && !words_.empty(); ++half) {
    state_ = state_ << kWord | words_.back();
    words_.pop_back();
  }
}

std::vector<uint32_t> Coder::words() const {
  std::vector<uint32_t> all(words_);
  for (uint64_t rest = state_; rest; rest >>= kWord) all.push_back(static_cast<uint32_t>(rest));
  return all;
}

size_t Coder::n_words() const { return words_.size() + (state_ != 0) + (state_ >> kWord != 0); }

size_t Coder::n_bits() const {
  size_t bits = kWord * words_.size();
  for (uint64_t rest = state_ >> 1; rest; rest >>= 1) ++bits;
  return bits;
}

inline void Coder::push(uint32_t left, uint32_t size) {
  if (state_ >> (64 - kPrecision) >= size) {
    words_.push_back(static_cast<uint32_t>(state_));
    state_ >>= kWord;
  }
  const uint64_t quotient = state_ / size;
  state_ = quotient << kPrecision | (state_ - quotient * size + left);
}

inline void Coder::pop(uint32_t left, uint32_t size) {
  state_ = (state_ >> kPrecision) * size + (place() - left);
  if (state_ >> kWord == 0 && !words_.empty()) {
    state_ = state_ << kWord | words_.back();
    words_.pop_back();
  }
}

inline uint32_t Coder::pop_bit(uint32_t boundary) {
  const uint32_t bit = place() >= boundary, all = 0 - bit;  // no branch: nobody could tell which way it goes
  pop(all & boundary, (all & (kWhole - boundary)) | (~all & boundary));
  return bit;
}

// A copy of one's own stays in registers.
void Coder::push_bits(const uint32_t* coded, size_t count) {
  Coder own(std::move(*this));
  for (size_t i = count; i-- > 0;) {
    const uint32_t boundary = coded[i] >> 1, all = 0 - (coded[i] & 1);
    if (boundary) own.push(all & boundary, (all & (kWhole - boundary)) | (~all & boundary));
  }
  *this = std::move(own);
}

void Coder::pop_bits(const uint32_t* boundaries, size_t count, uint8_t* bits) {
  Coder own(std::move(*this));
  for (size_t i = 0; i < count; ++i) bits[i] = static_cast<uint8_t>(own.pop_bit(boundaries[i]));
  *this = std::move(own);
}

void Coder::descend(const uint32_t* boundaries, const int32_t* children, size_t count, int32_t* at) {
  Coder own(std::move(*this));
  for (size_t i = 0; i < count; ++i)
    if (at[i] >= 0) at[i] = children[2 * static_cast<size_t>(at[i]) + own.pop_bit(boundaries[i])];
  *this = std::move(own);
}

uint32_t Coder::pop_part(const uint32_t* left, uint32_t n_symbols) {
  const auto symbol = static_cast<uint32_t>(std::upper_bound(left, left + n_symbols, place()) - left) - 1;
  pop(left[symbol], left[symbol + 1] - left[symbol]);
  return symbol;
}

void Coder::push_symbols(const uint16_t* symbols, const double* weights, size_t count, size_t n_symbols) {
  std::vector<uint32_t> left(n_symbols + 1);
  for (size_t i = count; i-- > 0;) {
    parts_of_weights(weights + i * n_symbols, n_symbols, left.data());
    require(symbols[i] < n_symbols, "symbols: there is no such symbol");
    push(left[symbols[i]], left[symbols[i] + size_t{1}] - left[symbols[i]]);
  }
}

void Coder::pop_symbols(const double* weights, size_t count, size_t n_symbols, uint16_t* symbols) {
  std::vector<uint32_t> left(n_symbols + 1);
  for (size_t i = 0; i < count; ++i) {
    parts_of_weights(weights + i * n_symbols, n_symbols, left.data());
    symbols[i] = static_cast<uint16_t>(pop_part(left.data(), static_cast<uint32_t>(n_symbols)));
  }
}

void Coder::push_uniform(uint32_t symbol, uint32_t n_symbols) {
  const uint32_t size = kWhole / n_symbols, left = symbol * size;
  push(left, symbol + 1 == n_symbols ? kWhole - left : size);
}

uint32_t Coder::pop_uniform(uint32_t n_symbols) {
  const uint32_t size = kWhole / n_symbols, symbol = std::min(place() / size, n_symbols - 1), left = symbol * size;
  pop(left, symbol + 1 == n_symbols ? kWhole - left : size);
  return symbol;
}

// Cell by cell: the symbols of all its rows, then the digits of those rows that have the last one, the highest first.
void Coder::push_inside(const CellSymbols& laws, const uint16_t* cells, const int64_t* symbols, const uint64_t* offsets,
                        size_t count) {
  const Sorted sorted([cells](size_t i) { return size_t{cells[i]}; }, count, laws.n_cells());
  for (size_t cell = laws.n_cells(); cell-- > 0;) {
    const uint32_t *begin = sorted.order.data() + sorted.begin[cell],
                   *end = sorted.order.data() + sorted.begin[cell + 1];
    const uint32_t n = laws.n_symbols(cell);
    const uint64_t n_last = laws.n_last[cell];
    if (n == 1 && n_last == 1) continue;
    for (const uint32_t* row = begin; row < end; ++row)
      require(0 <= symbols[*row] && symbols[*row] < n && (symbols[*row] < n - 1 || offsets[*row] < n_last),
              "a value that its cell does not have");
    if (n_last > 1) {
      const Digits digits(n_last);
      for (int shift = 0; shift <= digits.highest; shift += kDigitBits)
        for (const uint32_t* row = end; row-- > begin;)
          if (symbols[*row] == n - 1) push_uniform(digit(offsets[*row], shift), digits.n_values(shift));
    }
    const uint32_t* left = laws.left.data() + laws.first[cell];
    if (n > 1)
      for (const uint32_t* row = end; row-- > begin;)
        push(left[symbols[*row]], left[symbols[*row] + 1] - left[symbols[*row]]);
  }
}

void Coder::pop_inside(const CellSymbols& laws, const uint16_t* cells, size_t count, int64_t* symbols,
                       uint64_t* offsets) {
  const Sorted sorted([cells](size_t i) { return size_t{cells[i]}; }, count, laws.n_cells());
  std::fill(symbols, symbols + count, 0);
  std::fill(offsets, offsets + count, 0);
  for (size_t cell = 0; cell < laws.n_cells(); ++cell) {
    const uint32_t *begin = sorted.order.data() + sorted.begin[cell],
                   *end = sorted.order.data() + sorted.begin[cell + 1];
    const uint32_t n = laws.n_symbols(cell);
    const uint32_t* left = laws.left.data() + laws.first[cell];
    if (n > 1)
      for (const uint32_t* row = begin; row < end; ++row) symbols[*row] = pop_part(left, n);
    if (laws.n_last[cell] > 1) {
      const Digits digits(laws.n_last[cell]);
      for (int shift = digits.highest; shift >= 0; shift -= kDigitBits)
        for (const uint32_t* row = begin; row < end; ++row)
          if (symbols[*row] == n - 1)
            offsets[*row] |= static_cast<uint64_t>(pop_uniform(digits.n_values(shift))) << shift;
      for (const uint32_t* row = begin; row < end; ++row)
        require(offsets[*row] < laws.n_last[cell], "a value that its cell does not have");
    }
  }
}

}  // namespace lbarn
