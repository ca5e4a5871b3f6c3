// The nodes of one column's tree, each with trees of its own: rows are grouped by the node where they are.
#pragma once

#include <vector>

#include "bits.hpp"
#include "counts.hpp"
#include "trees.hpp"

namespace lbarn {

struct NodeTrees {
  TreesView trees;
  const CountsView* counts;  // null where none are looked at
};

// Which cells reach a node, low to high - 1, and have a 1 there: from `cut` on.
struct NodeCells {
  const int32_t* low;
  const int32_t* cut;
  const int32_t* high;
};

// For each of rows index[0..count), the log-odds of a 1 at the node at[i]; 0 where that is negative.
std::vector<int32_t> log_odds_by_node(const std::vector<NodeTrees>& nodes, const int32_t* at, const Rows& rows,
                                      const int32_t* index, size_t count);

// For each of them, the log-likelihood of its cell in units of 2^-30; 0 for a cell that reaches no node.
std::vector<int64_t> log_likelihood_of_cells(const std::vector<NodeTrees>& nodes, const NodeCells& reached,
                                             const uint16_t* cells, const Rows& rows, const int32_t* index,
                                             size_t count);

// The bits on the way to the cell of each of them as a coder takes them, (n_levels, count): those of a level side by
// side, 0 where there is none. level[node] is the level of a node.
std::vector<uint32_t> coded_cells(const std::vector<NodeTrees>& nodes, const NodeCells& reached, const int32_t* level,
                                  size_t n_levels, const uint16_t* cells, const Rows& rows, const int32_t* index,
                                  size_t count);

}  // namespace lbarn
