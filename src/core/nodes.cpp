#include "nodes.hpp"

#include <algorithm>

#include "evaluate.hpp"

namespace lbarn {
namespace {

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

std::vector<int32_t> log_odds_of(const NodeTrees& node, const Rows& rows, const int32_t* index, const uint32_t* picked,
                                 size_t count) {
  std::vector<int32_t> there(count);
  for (size_t i = 0; i < count; ++i) there[i] = index[picked[i]];
  return log_odds_at(rows, there.data(), count, node.trees, node.counts);
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
    const std::vector<int32_t> odds = log_odds_of(nodes[node], rows, index, picked, n);
    own.resize(n);
    ones.assign((n + 63) / 64, 0);
    for (size_t i = cut - first; i < n; ++i) ones[i / 64] |= uint64_t{1} << (i % 64);
    log_likelihoods(odds.data(), ones.data(), n, own.data());
    for (size_t i = 0; i < n; ++i) result[picked[i]] += own[i];
  }
  return result;
}

}  // namespace lbarn
