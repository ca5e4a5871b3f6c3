#include "nodes.hpp"

#include <algorithm>

#include "coder.hpp"
#include "evaluate.hpp"
#include "sorted.hpp"

namespace lbarn {
namespace {

std::vector<int32_t> log_odds_of(const NodeTrees& node, const Rows& rows, const int32_t* index, const uint32_t* picked,
                                 size_t count) {
  std::vector<int32_t> there(count);
  for (size_t i = 0; i < count; ++i) there[i] = index[picked[i]];
  return log_odds_at(rows, there.data(), count, node.trees, node.counts);
}

// visit(node, rows that reach it, their number, how many of them have a 0 there, their log-odds) for all nodes that
// rows reach on the way to their cells; rows are numbers of the index, those with a 0 first.
template <class Visit>
void on_the_way(const std::vector<NodeTrees>& nodes, const NodeCells& reached, const uint16_t* cells, const Rows& rows,
                const int32_t* index, size_t count, Visit visit) {
  size_t n_cells = 0;
  for (size_t node = 0; node < nodes.size(); ++node)
    n_cells = std::max(n_cells, static_cast<size_t>(reached.high[node]));
  const Sorted sorted([=](size_t i) { return std::min<size_t>(cells[i], n_cells); }, count, n_cells + 1);
  for (size_t node = 0; node < nodes.size(); ++node) {
    const size_t first = sorted.begin[static_cast<size_t>(reached.low[node])];
    const size_t cut = sorted.begin[static_cast<size_t>(reached.cut[node])];
    const size_t n = sorted.begin[static_cast<size_t>(reached.high[node])] - first;
    if (!n) continue;
    const uint32_t* picked = sorted.order.data() + first;
    visit(node, picked, n, cut - first, log_odds_of(nodes[node], rows, index, picked, n));
  }
}

}  // namespace

std::vector<int32_t> log_odds_by_node(const std::vector<NodeTrees>& nodes, const int32_t* at, const Rows& rows,
                                      const int32_t* index, size_t count) {
  std::vector<int32_t> result(count);
  const Sorted sorted([at](size_t i) { return at[i] < 0 ? size_t{0} : static_cast<size_t>(at[i]) + 1; }, count,
                      nodes.size() + 1);
  for (size_t node = 0; node < nodes.size(); ++node) {
    const uint32_t* picked = sorted.order.data() + sorted.begin[node + 1];
    const size_t n = sorted.begin[node + 2] - sorted.begin[node + 1];
    if (!n) continue;
    const std::vector<int32_t> own = log_odds_of(nodes[node], rows, index, picked, n);
    for (size_t i = 0; i < n; ++i) result[picked[i]] = own[i];
  }
  return result;
}

std::vector<int64_t> log_likelihood_of_cells(const std::vector<NodeTrees>& nodes, const NodeCells& reached,
                                             const uint16_t* cells, const Rows& rows, const int32_t* index,
                                             size_t count) {
  std::vector<int64_t> result(count), own;
  std::vector<uint64_t> ones;
  on_the_way(nodes, reached, cells, rows, index, count,
             [&](size_t, const uint32_t* picked, size_t n, size_t n_zeros, const std::vector<int32_t>& odds) {
               own.resize(n);
               ones.assign((n + 63) / 64, 0);
               for (size_t i = n_zeros; i < n; ++i) ones[i / 64] |= uint64_t{1} << (i % 64);
               log_likelihoods(odds.data(), ones.data(), n, own.data());
               for (size_t i = 0; i < n; ++i) result[picked[i]] += own[i];
             });
  return result;
}

std::vector<uint32_t> coded_cells(const std::vector<NodeTrees>& nodes, const NodeCells& reached, const int32_t* level,
                                  size_t n_levels, const uint16_t* cells, const Rows& rows, const int32_t* index,
                                  size_t count) {
  std::vector<uint32_t> result(n_levels * count), own;
  on_the_way(nodes, reached, cells, rows, index, count,
             [&](size_t node, const uint32_t* picked, size_t n, size_t n_zeros, const std::vector<int32_t>& odds) {
               own.resize(n);
               boundaries(odds.data(), n, own.data());
               uint32_t* out = result.data() + static_cast<size_t>(level[node]) * count;
               for (size_t i = 0; i < n; ++i) out[picked[i]] = coded_bit(own[i], i >= n_zeros);
             });
  return result;
}

}  // namespace lbarn
