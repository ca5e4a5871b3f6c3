// Rows that are equal in their first columns, found once.
#pragma once

#include <vector>

#include "bits.hpp"

namespace lbarn {

struct DistinctRows {
  std::vector<int32_t> index;   // the first of each
  std::vector<uint32_t> count;  // and how many there are
};

// Of rows index[0..count): those that differ in the first `columns` columns, in the order in which they come. Empty if
// there are more than `most`.
DistinctRows distinct_rows(const Rows& rows, const int32_t* index, size_t count, size_t columns, size_t most);

}  // namespace lbarn
