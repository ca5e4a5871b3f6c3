// The log-odds of rows under trained trees, in units of 2^-20.
#pragma once

#include <vector>

#include "bits.hpp"
#include "trees.hpp"

namespace lbarn {

// Of all rows, padding included.
std::vector<int32_t> log_odds(const Columns& columns, const TreesView& trees);

// Of rows index[0..count) of row-packed bits. Costs what these rows cost, however many others there are.
std::vector<int32_t> log_odds_at(const Rows& rows, const int32_t* index, size_t count, const TreesView& trees);

}  // namespace lbarn
