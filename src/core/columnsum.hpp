// Weighted sums of columns of bits, for 64 rows at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "counts.hpp"
#include "inline.hpp"

namespace lbarn {

// What some columns weigh in each row, where they are 1, on top of a base: plane p has bit p of every row's sum. As in
// any carry-save adder, two columns may wait at a place; with a third one, their sum stays there and the carry goes to
// the place above.
template <size_t kWords>
class ColumnSum {
 public:
  using Term = CountsView::Term;

  // `column` gives the words of a term's bit.
  template <class ColumnOf>
  ColumnSum(uint16_t base, const Term* first, const Term* last, const ColumnOf& column) {
    int32_t all = base;
    for (const Term* term = first; term < last; ++term) {
      Words one;
      std::memcpy(one.word, column(term->bit), sizeof one.word);
      if (term->weight < 0) {  // as if the zeros had its size and all rows its weight: small numbers have few bits
        for (uint64_t& word : one.word) word = ~word;
        all += term->weight;
      }
      add(one, static_cast<unsigned>(std::abs(int{term->weight})));
    }
    Words every;
    std::fill(every.word, every.word + kWords, ~uint64_t{0});
    add(every, static_cast<uint16_t>(all));
    for (size_t p = 0; p < kPlanes; ++p)  // every place has one plane at most: nothing waits any more
      if (waiting_[p] == 2) add_at(p, Words{});
  }

  void at_least(uint16_t threshold, uint64_t* out) const {
    Words found;
    std::fill(found.word, found.word + kWords, ~uint64_t{0});
    for (size_t p = 0; p < kPlanes; ++p) {
      const Words plane = waiting_[p] ? plane_[p][0] : Words{};
      const bool is_set = threshold >> p & 1;
      for (size_t w = 0; w < kWords; ++w)
        found.word[w] = is_set ? plane.word[w] & found.word[w] : plane.word[w] | found.word[w];
    }
    std::memcpy(out, found.word, sizeof found.word);
  }

 private:
  static constexpr size_t kPlanes = 16;  // sums are modulo 2^16

  struct Words {
    uint64_t word[kWords];
  };

  void add(const Words& one, unsigned weight) {
    for (; weight; weight &= weight - 1) add_at(lowest_bit(weight), one);
  }

  void add_at(size_t p, Words carry) {
    for (; p < kPlanes && waiting_[p] == 2; ++p) {
      Words &a = plane_[p][0], &b = plane_[p][1];
      for (size_t w = 0; w < kWords; ++w) {
        const uint64_t either = a.word[w] ^ b.word[w], both = a.word[w] & b.word[w];
        a.word[w] = either ^ carry.word[w];
        carry.word[w] = both | (either & carry.word[w]);
      }
      waiting_[p] = 1;
    }
    if (p < kPlanes) plane_[p][waiting_[p]++] = carry;
  }

  Words plane_[kPlanes][2];
  size_t waiting_[kPlanes] = {};
};

}  // namespace lbarn
