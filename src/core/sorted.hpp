// Rows grouped by a small whole number: the node or the cell where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lbarn {

// 0..count in ascending order of their keys, and where each key begins; equal ones keep their order.
struct Sorted {
  std::vector<size_t> begin;
  std::vector<uint32_t> order;

  template <class Key>
  Sorted(Key key, size_t count, size_t n_keys) : begin(n_keys + 1), order(count) {
    for (size_t i = 0; i < count; ++i) ++begin[key(i) + 1];
    for (size_t k = 0; k < n_keys; ++k) begin[k + 1] += begin[k];
    std::vector<size_t> next(begin.begin(), begin.end() - 1);
    for (size_t i = 0; i < count; ++i) order[next[key(i)]++] = static_cast<uint32_t>(i);
  }
};

}  // namespace lbarn
