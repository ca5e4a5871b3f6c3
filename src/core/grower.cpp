#include "grower.hpp"

#include <algorithm>
#include <queue>

namespace lbarn {
namespace {

struct Candidate {
  double gain;
  uint32_t leaf;

  // The queue's top is the greatest: the largest gain, the oldest leaf among equals.
  bool operator<(const Candidate& other) const { return gain != other.gain ? gain < other.gain : leaf > other.leaf; }
};

}  // namespace

Grower::Grower(const Kernels& kernels, const Columns& columns, const Predictors& predictors)
    : kernels_(kernels),
      columns_(columns),
      predictors_(predictors),
      index_(columns.padded_rows() + 64),
      scores_(scan_slots(predictors_.rows())) {}

void Grower::scan(Leaf& leaf, const DigitPlanes& planes, const double* keep) {
  const size_t count = kernels_.list_rows(leaf.mask.data(), columns_.words, index_.data());
  kernels_.histogram(predictors_.rows(), index_.data(), count, planes, scratch_, leaf.g.data(), leaf.h.data());
  for (size_t j = 0; keep && j < scores_.size(); ++j) {
    leaf.g[j] *= keep[j];
    leaf.h[j] *= keep[j];
  }
}

void Grower::search(Leaf& leaf, double l2) {
  leaf.best = BestSplit{};
  if (leaf.rows > 1 && leaf.h_total > 0.0)
    leaf.best = kernels_.best_split(leaf.g.data(), leaf.h.data(), scores_.size(), leaf.g_total, leaf.h_total, l2,
                                    scores_.data());
}

const std::vector<Split>& Grower::grow(const DigitPlanes& planes, const uint64_t* active, QuantisedTotals totals,
                                       const GrowthLimits& limits) {
  const auto leaf_at = [&](size_t i) -> Leaf& {
    if (i == leaves_.size()) {
      leaves_.emplace_back();
      leaves_[i].mask.resize(columns_.words);
      leaves_[i].g.resize(scores_.size());
      leaves_[i].h.resize(scores_.size());
    }
    return leaves_[i];
  };
  splits_.clear();
  if (predictors_.count() == 0 || totals.h <= 0) return splits_;

  Leaf& root = leaf_at(0);
  std::copy(active, active + columns_.words, root.mask.begin());
  root.rows = 0;
  for (const uint64_t word : root.mask) root.rows += static_cast<size_t>(__builtin_popcountll(word));
  root.g_total = static_cast<double>(totals.g);
  root.h_total = static_cast<double>(totals.h);
  scan(root, planes, limits.keep);
  search(root, limits.l2);

  std::priority_queue<Candidate> queue;
  if (root.best.gain > limits.min_gain) queue.push({root.best.gain, 0});
  while (!queue.empty() && splits_.size() + 1 < limits.max_leaf_nodes) {
    const uint32_t parent = queue.top().leaf;
    queue.pop();
    const auto child = static_cast<uint32_t>(splits_.size() + 1);
    leaf_at(child);
    Leaf& zeros = leaves_[parent];
    Leaf& ones = leaves_[child];
    const uint16_t feature = predictors_.position(zeros.best.feature);
    const size_t slot = slot_of_feature(zeros.best.feature);
    splits_.push_back({static_cast<uint16_t>(parent), feature});
    if (splits_.size() + 1 == limits.max_leaf_nodes) break;

    ones.rows = kernels_.split_mask(zeros.mask.data(), columns_.column(feature), ones.mask.data(), columns_.words);
    zeros.rows -= ones.rows;
    ones.g_total = zeros.g[slot];
    ones.h_total = zeros.h[slot];
    zeros.g_total -= ones.g_total;
    zeros.h_total -= ones.h_total;

    // Scan the smaller side into the fresh arrays; the larger is what remains of the parent's. All are integers in
    // doubles, so the difference is exact.
    const bool scan_ones = ones.rows <= zeros.rows;
    if (!scan_ones) {
      ones.g.swap(zeros.g);
      ones.h.swap(zeros.h);
    }
    Leaf& smaller = scan_ones ? ones : zeros;
    Leaf& larger = scan_ones ? zeros : ones;
    scan(smaller, planes, limits.keep);
    for (size_t j = 0; j < scores_.size(); ++j) larger.g[j] -= smaller.g[j];
    for (size_t j = 0; j < scores_.size(); ++j) larger.h[j] -= smaller.h[j];
    search(zeros, limits.l2);
    search(ones, limits.l2);
    if (zeros.best.gain > limits.min_gain) queue.push({zeros.best.gain, parent});
    if (ones.best.gain > limits.min_gain) queue.push({ones.best.gain, child});
  }
  return splits_;
}

}  // namespace lbarn
