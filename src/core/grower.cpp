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

// A root with more than one row in so many reads all rows in order: others have no digits, and that is faster by as
// much.
constexpr size_t kInOrder = 4;

}  // namespace

Grower::Grower(const Kernels& kernels, const Columns& columns, const Predictors& predictors,
               const CellPredictors& cells)
    : kernels_(kernels),
      columns_(columns),
      predictors_(predictors),
      cells_(cells),
      index_(columns.padded_rows() + 64),
      scores_(scan_slots(predictors_.rows())),
      fresh_(cells.empty() ? 0 : cells.rows_of_cells()),
      cell_scores_(cells.scores()),
      other_cell_scores_(cells.scores()) {}

Grower::Leaf& Grower::leaf_at(size_t i) {
  if (i == leaves_.size()) {
    leaves_.emplace_back();
    leaves_[i].mask.resize(columns_.words);
    leaves_[i].g.resize(scores_.size());
    leaves_[i].h.resize(scores_.size());
    leaves_[i].cells.resize(fresh_.size());
  }
  return leaves_[i];
}

void Grower::scan_bits(Leaf& leaf, size_t count, bool in_order, const QuantisedRows& rows, const GrowthLimits& limits) {
  if (scores_.empty()) return;
  const Rows& bits = predictors_.rows();
  if (in_order) {
    if (interleaved_.empty()) kernels_.interleave_rows(bits, interleaved_);
    kernels_.histogram_of_all(bits, interleaved_, rows.planes, scratch_, leaf.g.data(), leaf.h.data());
  } else {
    kernels_.histogram(bits, index_.data(), count, rows.planes, scratch_, leaf.g.data(), leaf.h.data());
  }
  for (size_t j = 0; limits.keep && j < scores_.size(); ++j) {
    leaf.g[j] *= limits.keep[j];
    leaf.h[j] *= limits.keep[j];
  }
}

void Grower::search(Leaf& leaf, const CellSplit& best_cells, double l2) {
  leaf.gain = 0.0;
  if (!leaf.can_split()) return;
  double score = 0.0;
  if (!scores_.empty()) {
    const BestSplit best = kernels_.best_split(leaf.g.data(), leaf.h.data(), scores_.size(), leaf.g_total, leaf.h_total,
                                               l2, scores_.data());
    if (best.score > 0.0) {
      const size_t slot = slot_of_feature(best.feature);
      score = best.score;
      leaf.feature = predictors_.position(best.feature);
      leaf.g_ones = leaf.g[slot];
      leaf.h_ones = leaf.h[slot];
    }
  }
  if (best_cells.score > score || (best_cells.score == score && score > 0.0 && best_cells.position < leaf.feature)) {
    score = best_cells.score;
    leaf.feature = static_cast<uint16_t>(best_cells.position);
    leaf.g_ones = g_of(best_cells.sum);
    leaf.h_ones = h_of(best_cells.sum);
  }
  leaf.gain = std::max(0.0, score - leaf.g_total * leaf.g_total / (leaf.h_total + l2));
}

CellSplit Grower::best_of_few(Leaf& leaf, const QuantisedRows& rows, double l2) {
  if (!leaf.can_split()) return {};
  const size_t count = list(leaf);
  return cells_.best_of_few(kernels_, node_of(leaf), index_.data(), count, rows.values, l2, few_);
}

void Grower::scan_root(const QuantisedRows& rows, const GrowthLimits& limits) {
  Leaf& root = leaf_at(0);
  std::copy(rows.active, rows.active + columns_.words, root.mask.begin());
  root.g_total = static_cast<double>(rows.totals.g);
  root.h_total = static_cast<double>(rows.totals.h);
  root.rows = list(root);
  scan_bits(root, root.rows, kInOrder * root.rows > columns_.rows, rows, limits);
  CellSplit best;
  few_rows_ = cells_.few_need_no_sums(rows.largest) ? kFewRows : 0;
  if (!cells_.empty() && root.rows <= few_rows_) {
    best = best_of_few(root, rows, limits.l2);
  } else if (!cells_.empty()) {
    cells_.add(kernels_, index_.data(), root.rows, rows.values, fresh_.data());
    cells_.sum(kernels_, fresh_.data(), node_of(root), limits.l2, cell_scores_.data());
    best = cells_.best(node_of(root), cell_scores_.data(), limits.l2);
  }
  search(root, best, limits.l2);
}

// Scans the smaller side; the larger, which has the parent's arrays, is what remains of them. All sums are integers, so
// the difference is exact.
void Grower::divide(Leaf& smaller, Leaf& larger, const QuantisedRows& rows, const GrowthLimits& limits) {
  const size_t count = list(smaller);
  scan_bits(smaller, count, false, rows, limits);
  for (size_t j = 0; j < scores_.size(); ++j) larger.g[j] -= smaller.g[j];
  for (size_t j = 0; j < scores_.size(); ++j) larger.h[j] -= smaller.h[j];
  CellSplit best_smaller, best_larger;
  if (!cells_.empty()) {
    const bool few = smaller.rows <= few_rows_;
    if (larger.rows <= few_rows_) {
      best_larger = best_of_few(larger, rows, limits.l2);
    } else {
      cells_.add(kernels_, index_.data(), count, rows.values, fresh_.data());
      if (few)
        cells_.subtract(kernels_, fresh_.data(), node_of(larger), limits.l2, other_cell_scores_.data());
      else
        cells_.divide(kernels_, fresh_.data(), node_of(smaller), node_of(larger), limits.l2, cell_scores_.data(),
                      other_cell_scores_.data());
      best_larger = cells_.best(node_of(larger), other_cell_scores_.data(), limits.l2);
    }
    best_smaller =
        few ? best_of_few(smaller, rows, limits.l2) : cells_.best(node_of(smaller), cell_scores_.data(), limits.l2);
  }
  search(smaller, best_smaller, limits.l2);
  search(larger, best_larger, limits.l2);
}

const std::vector<Split>& Grower::grow(const QuantisedRows& rows, const GrowthLimits& limits) {
  splits_.clear();
  if ((predictors_.count() == 0 && cells_.empty()) || rows.totals.h <= 0) return splits_;
  scan_root(rows, limits);

  std::priority_queue<Candidate> queue;
  if (leaves_[0].gain > limits.min_gain) queue.push({leaves_[0].gain, 0});
  while (!queue.empty() && splits_.size() + 1 < limits.max_leaf_nodes) {
    const uint32_t parent = queue.top().leaf;
    queue.pop();
    const auto child = static_cast<uint32_t>(splits_.size() + 1);
    leaf_at(child);
    Leaf& zeros = leaves_[parent];
    Leaf& ones = leaves_[child];
    splits_.push_back({static_cast<uint16_t>(parent), zeros.feature});
    if (splits_.size() + 1 == limits.max_leaf_nodes) break;

    const uint64_t* column = columns_.column(zeros.feature);
    ones.rows = kernels_.split_mask(zeros.mask.data(), column, ones.mask.data(), columns_.words);
    zeros.rows -= ones.rows;
    ones.g_total = zeros.g_ones;
    ones.h_total = zeros.h_ones;
    zeros.g_total -= ones.g_total;
    zeros.h_total -= ones.h_total;

    const bool ones_smaller = ones.rows <= zeros.rows;
    if (!ones_smaller) {
      ones.g.swap(zeros.g);
      ones.h.swap(zeros.h);
      ones.cells.swap(zeros.cells);
    }
    divide(ones_smaller ? ones : zeros, ones_smaller ? zeros : ones, rows, limits);
    if (zeros.gain > limits.min_gain) queue.push({zeros.gain, parent});
    if (ones.gain > limits.min_gain) queue.push({ones.gain, child});
  }
  return splits_;
}

}  // namespace lbarn
