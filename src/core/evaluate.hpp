// The log-odds of rows under trained trees, in units of 2^-20, and what they mean in units of 2^-30.
#pragma once

#include <vector>

#include "bits.hpp"
#include "counts.hpp"
#include "trees.hpp"

namespace lbarn {

// Of all rows, and of padding, which means nothing. The trees may look at counts.
std::vector<int32_t> log_odds(const Columns& columns, const TreesView& trees, const CountsView* counts);

// Of rows index[0..count) of row-packed bits. Costs what these rows cost, however many others there are.
std::vector<int32_t> log_odds_at(const Rows& rows, const int32_t* index, size_t count, const TreesView& trees,
                                 const CountsView* counts);

// P(1), and log P(y) for a packed column y.
void probabilities(const int32_t* log_odds, size_t count, int32_t* out);
void log_likelihoods(const int32_t* log_odds, const uint64_t* target, size_t count, int64_t* out);

}  // namespace lbarn
