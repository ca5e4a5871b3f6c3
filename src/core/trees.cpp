#include "trees.hpp"

#include <algorithm>

#include "fixed_point.hpp"
#include "require.hpp"

namespace lbarn {

size_t check_trees(const TreesView& trees, size_t n_splits) {
  require(trees.offsets[0] == 0 && trees.offsets[trees.count] == static_cast<int64_t>(n_splits),
          "the numbers of splits do not add up");
  require(trees.limit > 0, "the limit of the log-odds is not positive");
  require(trees.closed > -kNoLimit, "the log-odds of the closed conditional are too large");
  require(trees.stretch.sound(), "the stretch of the log-odds is out of range");
  size_t n_features = 0;
  for (size_t i = 0; i < trees.n_closers; ++i) n_features = std::max(n_features, size_t{trees.closers[i]} + 1);
  int64_t largest_sum = 0;
  for (size_t t = 0; t < trees.count; ++t) {
    const int64_t first = trees.offsets[t], last = trees.offsets[t + 1];
    require(first <= last && last <= static_cast<int64_t>(n_splits), "the numbers of splits do not add up");
    require(last - first < static_cast<int64_t>(kMaxLeaves), "a tree has more than 65,535 leaves");
    const Tree tree = trees.tree(t);
    // Without a branch for each split and leaf: a model has millions of them.
    bool is_leaf = true;
    for (size_t k = 0; k < tree.n_splits; ++k) is_leaf &= tree.splits[k].leaf <= k;
    require(is_leaf, "a split names a leaf that does not exist");
    int32_t least = 0, most = 0;
    for (size_t l = 0; l <= tree.n_splits; ++l) {
      least = std::min(least, tree.values[l]);
      most = std::max(most, tree.values[l]);
    }
    largest_sum += std::max(int64_t{most}, -int64_t{least});
  }
  int32_t last = -1;
  for (size_t k = 0; k < n_splits; ++k) last = std::max(last, int32_t{trees.splits[k].feature});
  n_features = std::max(n_features, static_cast<size_t>(last + 1));
  require(largest_sum <= kMaxLogOdds, "the leaf values are too large");
  return n_features;
}

}  // namespace lbarn
