// A stack of symbols in as few bits as their probabilities allow: an asymmetric numeral system (Duda, 2009).
//
// A probability is a part of 2^24, and symbol s has the part left(s) .. left(s) + size(s) - 1. To push it, the state, a
// number of 64 bits, is divided by the size; to pop, its lowest 24 bits tell whose part it is. The lower half of a
// state that would become too large goes to a stack of 32-bit words, and comes back. An empty stack is state 0, which
// stays a bijection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lbarn {

constexpr int kPrecision = 24;
constexpr uint32_t kWhole = uint32_t{1} << kPrecision;

// Where the part of a 1 begins if these are the log-odds of one, from 1 to 2^24 - 1; a 0 has the part before it.
void boundaries(const int32_t* log_odds, size_t count, uint32_t* out);

// A bit that can be pushed without its model: its boundary and itself. 0 stands for no bit at all.
inline uint32_t coded_bit(uint32_t boundary, uint32_t bit) { return boundary << 1 | bit; }

// Where the parts of symbols with these weights begin, and at last 2^24. Each gets its share of what is left when all
// have one.
void parts_of_weights(const double* weights, size_t count, uint32_t* left);

// What may be in each of some cells: one of its symbols, of which the last one stands for `n_last` values, all alike.
struct CellSymbols {
  std::vector<uint32_t> left;    // of the symbols of all cells, 2^24 after those of each
  std::vector<size_t> first;     // where those of a cell begin; at last the number of all
  std::vector<uint64_t> n_last;  // by cell

  // Of the weights of all symbols, cell after cell; those of cell c begin at starts[c]. Equal weights get equal parts.
  CellSymbols(const double* weights, const int64_t* starts, const uint64_t* n_last, size_t n_cells);

  size_t n_cells() const { return n_last.size(); }
  uint32_t n_symbols(size_t cell) const { return static_cast<uint32_t>(first[cell + 1] - first[cell] - 1); }
};

class Coder {
 public:
  Coder() = default;
  // One that left these words.
  Coder(const uint32_t* words, size_t count);

  std::vector<uint32_t> words() const;
  size_t n_words() const;
  size_t n_bits() const;  // below the highest one
  bool empty() const { return state_ == 0 && words_.empty(); }

  // All of these go from the last one to the first, so that popping gives the first one first.
  void push_bits(const uint32_t* coded, size_t count);
  void push_symbols(const uint16_t* symbols, const double* weights, size_t count, size_t n_symbols);
  void push_inside(const CellSymbols& laws, const uint16_t* cells, const int64_t* symbols, const uint64_t* offsets,
                   size_t count);

  void pop_bits(const uint32_t* boundaries, size_t count, uint8_t* bits);
  // The same for rows that are at nodes: each goes on to the child of its bit, children[2 * at + bit]. Those at an end,
  // below 0, stay.
  void descend(const uint32_t* boundaries, const int32_t* children, size_t count, int32_t* at);
  void pop_symbols(const double* weights, size_t count, size_t n_symbols, uint16_t* symbols);
  void pop_inside(const CellSymbols& laws, const uint16_t* cells, size_t count, int64_t* symbols, uint64_t* offsets);

 private:
  void push(uint32_t left, uint32_t size);
  void pop(uint32_t left, uint32_t size);
  uint32_t place() const { return static_cast<uint32_t>(state_) & (kWhole - 1); }

  uint32_t pop_bit(uint32_t boundary);
  void push_uniform(uint32_t symbol, uint32_t n_symbols);
  uint32_t pop_uniform(uint32_t n_symbols);
  uint32_t pop_part(const uint32_t* left, uint32_t n_symbols);

  uint64_t state_ = 0;
  std::vector<uint32_t> words_;  // if there are any, the state is at least 2^32
};

}  // namespace lbarn
