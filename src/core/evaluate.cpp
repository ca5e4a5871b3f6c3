#include "evaluate.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels.hpp"
#include "logistic.hpp"

namespace lbarn {
namespace {

constexpr size_t kWalkedRows =
    12;  // so few are walked through the trees one by one: that is as fast, without any set-up

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

// What a sum over the trees means for a row: its log-odds.
int32_t log_odds_of(int32_t sum, const uint8_t* row, const TreesView& trees) {
  for (size_t i = 0; i < trees.n_closers; ++i)
    if (is_one(row, trees.closers[i])) return trees.closed;
  return certain(sum, trees);
}

// The same trees on the features that they split on, numbered anew in ascending order, and where those are in a row.
class CompactTrees {
 public:
  explicit CompactTrees(const TreesView& trees) : view_(trees) {
    const auto n_splits = static_cast<size_t>(trees.offsets[trees.count]);
    size_t end = 0;
    for (size_t k = 0; k < n_splits; ++k) end = std::max(end, size_t{trees.splits[k].feature} + 1);
    std::vector<uint16_t> number(end);
    for (size_t k = 0; k < n_splits; ++k) number[trees.splits[k].feature] = 1;
    for (size_t feature = 0; feature < end; ++feature) {
      if (!number[feature]) continue;
      number[feature] = static_cast<uint16_t>(count_++);
      const size_t word = feature / 64;
      if (words_.empty() || words_.back() != word) words_.push_back(word);
      places_.push_back({static_cast<uint16_t>(words_.size() - 1), static_cast<uint16_t>(feature % 64)});
    }
    splits_.reserve(n_splits);
    for (size_t k = 0; k < n_splits; ++k) splits_.push_back({trees.splits[k].leaf, number[trees.splits[k].feature]});
    view_.splits = splits_.data();
  }

  const TreesView& view() const { return view_; }
  size_t features() const { return count_; }

  // The features' bits of up to 64 rows: one word for each feature, `stride` apart.
  void gather(const Kernels& kernels, const Rows& rows, const int32_t* index, size_t count, uint64_t* out,
              size_t stride) const {
    BitBlock block;
    size_t feature = 0;
    for (size_t first = 0; first < words_.size(); first += kBlockLanes) {
      const size_t lanes = std::min(kBlockLanes, words_.size() - first);
      std::memset(&block, 0, sizeof block);
      for (size_t r = 0; r < count; ++r) {
        const uint8_t* row = rows.row(static_cast<size_t>(index[r]));
        for (size_t lane = 0; lane < lanes; ++lane)
          std::memcpy(&block.word[r][lane], row + 8 * words_[first + lane], sizeof(uint64_t));
      }
      kernels.transpose_block(block);
      for (; feature < count_ && places_[feature].word < first + lanes; ++feature)
        out[feature * stride] = block.word[places_[feature].bit][places_[feature].word - first];
    }
  }

 private:
  struct Place {
    uint16_t word;  // its number among the words that are used
    uint16_t bit;
  };

  TreesView view_;
  size_t count_ = 0;
  std::vector<Split> splits_;
  std::vector<size_t> words_;
  std::vector<Place> places_;  // of the features, ascending
};

}  // namespace

std::vector<int32_t> log_odds(const Columns& columns, const TreesView& trees) {
  std::vector<int32_t> sums(columns.padded_rows());
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

std::vector<int32_t> log_odds_at(const Rows& rows, const int32_t* index, size_t count, const TreesView& trees) {
  std::vector<int32_t> result(count);
  if (count <= kWalkedRows) {
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* row = rows.row(static_cast<size_t>(index[i]));
      result[i] = log_odds_of(walk(row, trees), row, trees);
    }
    return result;
  }
  const Kernels& k = kernels();
  const CompactTrees compact(trees);
  const size_t most_words = std::min(kBlockWords, (count + 63) / 64);
  const std::unique_ptr<uint64_t[]> columns(new uint64_t[compact.features() * most_words]);
  int32_t sums[kBlockRows];
  for (size_t base = 0; base < count; base += kBlockRows) {
    const size_t n = std::min(kBlockRows, count - base), words = (n + 63) / 64;
    for (size_t w = 0; w < words; ++w)
      compact.gather(k, rows, index + base + 64 * w, std::min<size_t>(64, n - 64 * w), columns.get() + w, words);
    std::fill(sums, sums + 64 * words, 0);
    k.add_trees({columns.get(), n, words}, compact.view(), sums);
    for (size_t r = 0; r < n; ++r)
      result[base + r] = log_odds_of(sums[r], rows.row(static_cast<size_t>(index[base + r])), trees);
  }
  return result;
}

}  // namespace lbarn
