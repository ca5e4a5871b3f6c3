#include "evaluate.hpp"

#include <algorithm>
#include <memory>

#include "compact.hpp"
#include "kernels.hpp"
#include "logistic.hpp"

namespace lbarn {
namespace {

constexpr size_t kWalkedRows = 4;  // so few are walked through the trees one by one: that is faster, without set-up

bool is_one(const uint8_t* row, uint16_t feature) { return row[feature / 8] >> (feature % 8) & 1; }

int32_t walk(const uint8_t* row, const TreesView& trees) {
  int32_t sum = 0;
  for (size_t t = 0; t < trees.count; ++t) {
    const Tree tree = trees.tree(t);
    size_t leaf = 0;
    for (size_t k = 0; k < tree.n_splits; ++k) {
      const Split split = tree.splits[k];
      leaf = ((split.leaf == leaf) & is_one(row, split.feature)) ? k + 1 : leaf;
    }
    sum += tree.values[leaf];
  }
  return sum;
}

// The same with features that count.
int32_t walk(const Rows& rows, int32_t index, const TreesView& trees, const CountsView* counts) {
  if (!counts) return walk(rows.row(static_cast<size_t>(index)), trees);
  std::vector<uint8_t> row((counts->position + counts->n_features) / 8 + 1);
  append_counts(rows, &index, 1, *counts, false, row.data(), row.size());
  return walk(row.data(), trees);
}

// What a sum over the trees means for a row: its log-odds.
int32_t log_odds_of(int32_t sum, const uint8_t* row, const TreesView& trees) {
  for (size_t i = 0; i < trees.n_closers; ++i)
    if (is_one(row, trees.closers[i])) return trees.closed;
  return certain(sum, trees);
}

void add_counting_trees(const Columns& columns, const TreesView& trees, const CountsView& counts, int32_t* sums) {
  const CompactTrees compact(trees, &counts);
  const std::unique_ptr<uint64_t[]> block(new uint64_t[compact.features() * kBlockWords]);
  for (size_t base = 0; base < columns.rows; base += kBlockRows) {
    const size_t n = std::min(kBlockRows, columns.rows - base), words = (n + 63) / 64;
    compact.gather(columns, base / 64, words, block.get());
    kernels().add_trees({block.get(), n, words}, compact.view(), sums + base);
  }
}

}  // namespace

std::vector<int32_t> log_odds(const Columns& columns, const TreesView& trees, const CountsView* counts) {
  std::vector<int32_t> sums(columns.padded_rows());
  if (counts)
    add_counting_trees(columns, trees, *counts, sums.data());
  else
    kernels().add_trees(columns, trees, sums.data());
  if (trees.limit < kNoLimit || !trees.stretch.none())
    for (int32_t& sum : sums) sum = certain(sum, trees);
  for (size_t w = 0; trees.n_closers && w < columns.words; ++w) {
    uint64_t any = 0;
    for (size_t i = 0; i < trees.n_closers; ++i) any |= columns.column(trees.closers[i])[w];
    for (size_t b = 0; any; ++b, any >>= 1)
      if (any & 1) sums[64 * w + b] = trees.closed;
  }
  return sums;
}

std::vector<int32_t> log_odds_at(const Rows& rows, const int32_t* index, size_t count, const TreesView& trees,
                                 const CountsView* counts) {
  std::vector<int32_t> result(count);
  if (count <= kWalkedRows) {
    for (size_t i = 0; i < count; ++i)
      result[i] = log_odds_of(walk(rows, index[i], trees, counts), rows.row(static_cast<size_t>(index[i])), trees);
    return result;
  }
  const Kernels& k = kernels();
  const CompactTrees compact(trees, counts);
  const size_t most_words = std::min(kBlockWords, (count + 63) / 64);
  const std::unique_ptr<uint64_t[]> columns(new uint64_t[compact.features() * most_words]);
  int32_t sums[kBlockRows];
  for (size_t base = 0; base < count; base += kBlockRows) {
    const size_t n = std::min(kBlockRows, count - base), words = (n + 63) / 64;
    compact.gather(k, rows, index + base, n, columns.get());
    std::fill(sums, sums + 64 * words, 0);
    k.add_trees({columns.get(), n, words}, compact.view(), sums);
    for (size_t r = 0; r < n; ++r)
      result[base + r] = log_odds_of(sums[r], rows.row(static_cast<size_t>(index[base + r])), trees);
  }
  return result;
}

void probabilities(const int32_t* log_odds, size_t count, int32_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = probability(log_odds[i]);
}

void log_likelihoods(const int32_t* log_odds, const uint64_t* target, size_t count, int64_t* out) {
  for (size_t base = 0; base < count; base += 64) {
    const size_t n = std::min<size_t>(64, count - base);
    int32_t y[64];
    for (size_t r = 0; r < 64; ++r) y[r] = static_cast<int32_t>(target[base / 64] >> r & 1);
    for (size_t r = 0; r < n; ++r) out[base + r] = log_likelihood(log_odds[base + r], y[r]);
  }
}

}  // namespace lbarn
