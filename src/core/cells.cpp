#include "cells.hpp"

#include <algorithm>
#include <cstring>

namespace lbarn {
namespace {

// Scores in single precision are within 2^-19 of what they are; beyond this, l2 might leave their range.
constexpr double kLargestL2 = 1e12;
constexpr float kNearlyOne = 1.0f - 1.0f / (1 << 17);

// Nanoseconds a tree of 16 leaves, as measured, and for no more than a choice between two ways to the same sums: of 128
// bits, and of a column of cells. The first column of cells costs something by itself.
constexpr double kBitsPerRow = 7.0, kBitsPerTree = 6900.0;
constexpr double kCellsPerTree = 8000.0, kCellsPerRow = 1.5, kCellsPerRank = 22.0, kCellsPerInterval = 100.0;

// `yes` where all bits of the mask are set, `no` where none is.
uint32_t choose(uint32_t mask, uint32_t yes, uint32_t no) { return no ^ ((yes ^ no) & mask); }

// Ranks of the cells of one column among those that its rows have and its bits tell apart.
class Ranks {
 public:
  void find(const uint16_t* cells, size_t rows, const uint16_t* lo, const uint16_t* hi, size_t bits) {
    uint16_t last = 0;
    for (size_t i = 0; i < rows; ++i) last = std::max(last, cells[i]);
    for (size_t k = 0; k < bits; ++k) last = std::max({last, lo[k], hi[k]});
    const size_t n = size_t{last} + 1;
    seen_.assign(n, 0);
    edge_.assign(n, 0);
    for (size_t i = 0; i < rows; ++i) seen_[cells[i]] = 1;
    for (size_t k = 0; k < bits; ++k) edge_[lo[k]] = edge_[hi[k]] = 1;
    rank_.resize(n);
    uint16_t rank = 0;
    bool any = false, edge = false;
    for (size_t c = 0; c < n; ++c) {
      edge = edge || edge_[c];
      // What is not seen has the rank that the next seen cell will have, unless no other follows.
      rank_[c] = static_cast<uint16_t>(rank + (any && edge));
      if (!seen_[c]) continue;
      rank = rank_[c];
      any = true;
      edge = false;
    }
    last_ = rank;
  }

  // Of a cell that is seen, or of the first such cell at or after an edge; one more than the last where none follows.
  size_t of(size_t cell) const { return rank_[cell]; }
  size_t last() const { return last_; }
  const uint16_t* data() const { return rank_.data(); }

 private:
  std::vector<uint8_t> seen_, edge_;
  std::vector<uint16_t> rank_;
  size_t last_ = 0;
};

}  // namespace

CellPredictors::CellPredictors(const CellColumns& source, size_t position) {
  const auto bits_before = [&](size_t c) {
    const size_t first = source.first[c], bits = source.offsets[c + 1] - source.offsets[c];
    return first < position ? std::min(bits, position - first) : 0;
  };
  covered_.assign(position, 0);
  std::vector<Ranks> ranks(source.count);
  size_t plain = position;
  for (size_t c = 0; c < source.count; ++c) {
    const size_t bits = bits_before(c), from = source.offsets[c];
    if (bits == 0) continue;
    std::fill_n(covered_.begin() + static_cast<ptrdiff_t>(source.first[c]), bits, 1);
    plain -= bits;
    ranks[c].find(source.cells + c * source.rows, source.rows, source.lo + from, source.hi + from, bits);
    if (ranks[c].last() == 0) continue;
    Column column{c, bits, ranks[c].last()};
    column.lowest = source.first[c];
    for (size_t k = from; k < from + bits; ++k) column.intervals += ranks[c].of(source.hi[k]) <= column.last_rank;
    columns_.push_back(column);
  }
  leave_to_bits(source, plain);
  if (columns_.empty()) return;
  std::stable_sort(columns_.begin(), columns_.end(),
                   [](const Column& a, const Column& b) { return a.last_rank > b.last_rank; });
  lay_out();

  const bool narrow = total_slot() <= UINT16_MAX;
  const size_t n = columns_.size();
  (narrow ? slots16_.resize(source.rows * n) : slots32_.resize(source.rows * n));
  for (size_t k = 0; k < n; ++k) {
    const Column& column = columns_[k];
    const uint16_t* cells = source.cells + column.source * source.rows;
    const Ranks& rank = ranks[column.source];
    if (narrow)
      for (size_t i = 0; i < source.rows; ++i)
        slots16_[i * n + k] = static_cast<uint16_t>(column.slot(rank.of(cells[i])));
    else
      for (size_t i = 0; i < source.rows; ++i) slots32_[i * n + k] = column.slot(rank.of(cells[i]));
    const size_t from = source.offsets[column.source], end = column.last_rank + 1;
    for (size_t b = column.bits; b-- > 0;) {
      const size_t lo = rank.of(source.lo[from + b]), hi = rank.of(source.hi[from + b]);
      const auto at = static_cast<uint32_t>(column.lowest + b);
      if (lo == hi || (lo == 0 && hi == end)) continue;
      if (hi == end)
        bits_.push_back({at, 0, position_index(column.slot(lo))});
      else
        intervals_.push_back(
            {lo == 0 ? total_slot() : column.slot(lo), column.slot(hi), at, 0, static_cast<uint32_t>(k), true});
    }
  }
  positions_.resize(n_rows_);
  keep(nullptr);
}

// Columns of few bits are dear: all their rows for little. The cheapest choice is to leave those with the fewest bits
// to the histogram of the bits, which costs the same for each 128 of them that it has begun.
void CellPredictors::leave_to_bits(const CellColumns& source, size_t plain) {
  const auto rows = static_cast<double>(source.rows);
  const auto cost_of_bits = [rows](size_t bits) {
    return static_cast<double>((bits + 127) / 128) * (kBitsPerRow * rows + kBitsPerTree);
  };
  const auto cost_of_cells = [rows](const Column& column) {
    return kCellsPerRow * rows + kCellsPerRank * static_cast<double>(column.last_rank) +
           kCellsPerInterval * static_cast<double>(column.intervals);
  };
  std::stable_sort(columns_.begin(), columns_.end(), [](const Column& a, const Column& b) { return a.bits < b.bits; });
  size_t left = 0, bits = plain;
  double best = cost_of_bits(plain), saved = 0.0;
  for (size_t k = 0; k < columns_.size(); ++k) {
    bits += columns_[k].bits;
    saved += cost_of_cells(columns_[k]);
    if (k + 1 == columns_.size()) saved += kCellsPerTree;
    if (cost_of_bits(bits) - saved > best) continue;
    best = cost_of_bits(bits) - saved;
    left = k + 1;
  }
  for (size_t k = 0; k < left; ++k)
    std::fill_n(covered_.begin() + static_cast<ptrdiff_t>(source.first[columns_[k].source]), columns_[k].bits, 0);
  columns_.erase(columns_.begin(), columns_.begin() + static_cast<ptrdiff_t>(left));
}

// Groups of eight columns of similar height, summed from the highest rank down. Rank 0 is in no sum of a bit that
// varies: its row, the first of the group, takes what nobody reads.
void CellPredictors::lay_out() {
  size_t next = 0;
  for (size_t k = 0; k < columns_.size(); ++k) {
    if (k % kCellLanes == 0) {
      n_rows_ = next;
      next += columns_[k].last_rank + 1;
      for (size_t r = columns_[k].last_rank; r > 0;) {
        const size_t rows = std::min(kChunkRows, r);
        const bool top = r == columns_[k].last_rank;
        r -= rows;
        chunks_.push_back({static_cast<uint32_t>(n_rows_ + r + 1), static_cast<uint32_t>(rows), top});
      }
    }
    columns_[k].first_row = static_cast<uint32_t>(n_rows_);
    columns_[k].lane = static_cast<uint32_t>(k % kCellLanes);
  }
  n_rows_ = next;
}

std::vector<uint32_t> CellPredictors::varying() const {
  std::vector<uint32_t> positions;
  for (const Bit& bit : bits_) positions.push_back(bit.position);
  for (const Interval& interval : intervals_) positions.push_back(interval.position);
  return positions;
}

void CellPredictors::set_numbers(const std::vector<uint32_t>& number) {
  for (Bit& bit : bits_) bit.number = number[bit.position];
  for (Interval& interval : intervals_) interval.number = number[interval.position];
}

void CellPredictors::keep(const uint8_t* kept) {
  int32_t* positions = positions_.data()->lane;
  std::fill(positions, positions + n_rows_ * kCellLanes, -1);
  // What is not kept goes nowhere, which is in the row of rank 0: half of all would be branches that nobody can
  // predict. Of a column's bits the first is the last here, so it stays.
  const uint32_t nowhere = position_index(columns_[0].slot(0));
  for (const Bit& bit : bits_) {
    const uint32_t mask = kept ? 0u - kept[bit.number] : ~0u;
    positions[choose(mask, bit.at, nowhere)] = static_cast<int32_t>(bit.position);
  }
  positions[nowhere] = -1;
  for (Interval& interval : intervals_) interval.kept = !kept || kept[interval.number];
  if (total_slot() <= INT16_MAX) number_kept_cells();
}

void CellPredictors::number_kept_cells() {
  const int32_t* positions = positions_.data()->lane;
  kept_cell_.resize(n_rows_ * kCellLanes);
  const auto nowhere = static_cast<uint32_t>(n_rows_ * kCellLanes);
  kept_position_.resize(nowhere + 1);
  uint32_t next = 0;
  for (const Column& column : columns_) {
    uint32_t number = next;
    for (size_t rank = 0; rank <= column.last_rank; ++rank) {
      const uint32_t slot = column.slot(rank);
      const int32_t position = positions[position_index(slot)];
      const auto mask = static_cast<uint32_t>(~(position >> 31));
      number -= mask;
      kept_cell_[slot] = static_cast<int16_t>(number);
      kept_position_[choose(mask, number, nowhere)] = position;
    }
    next = number + 1;
  }
}

void CellPredictors::add(const Kernels& kernels, const uint32_t* index, size_t count, const uint64_t* values,
                         CellRow* sums) const {
  if (slots32_.empty())
    kernels.add_cells16(slots16_.data(), columns_.size(), index, count, values, sums->sum);
  else
    kernels.add_cells32(slots32_.data(), columns_.size(), index, count, values, sums->sum);
}

namespace {

CellNode node_of(const CellPredictors::Node& node, double l2) {
  return {static_cast<int32_t>(node.g), static_cast<int32_t>(node.h), static_cast<float>(std::min(l2, kLargestL2))};
}

}  // namespace

void CellPredictors::add_totals(const Node& node) const {
  node.sums[n_rows_] = CellRow{};
  node.sums->sum[total_slot()] = packed_sum(static_cast<int32_t>(node.g), static_cast<int32_t>(node.h));
}

void CellPredictors::sum(const Kernels& kernels, CellRow* fresh, const Node& own, double l2, CellScores* scores) const {
  kernels.sum_cells(chunks_.data(), chunks_.size(), positions_.data(), fresh, own.sums, node_of(own, l2), scores);
  add_totals(own);
}

void CellPredictors::divide(const Kernels& kernels, CellRow* fresh, const Node& own, const Node& rest, double l2,
                            CellScores* own_scores, CellScores* rest_scores) const {
  kernels.divide_cells(chunks_.data(), chunks_.size(), positions_.data(), fresh, own.sums, rest.sums, node_of(own, l2),
                       node_of(rest, l2), own_scores, rest_scores);
  add_totals(own);
  add_totals(rest);
}

void CellPredictors::subtract(const Kernels& kernels, CellRow* fresh, const Node& rest, double l2,
                              CellScores* scores) const {
  kernels.subtract_cells(chunks_.data(), chunks_.size(), positions_.data(), fresh, rest.sums, node_of(rest, l2),
                         scores);
  add_totals(rest);
}

namespace {

// Whatever is as good as the best in double precision is at least this in single precision.
int32_t nearly_as_good(int32_t largest, double l2) {
  float score;
  std::memcpy(&score, &largest, sizeof score);
  score *= kNearlyOne;
  int32_t nearly;
  std::memcpy(&nearly, &score, sizeof nearly);
  return l2 > kLargestL2 ? 0 : nearly;
}

// The best of the splits that it is shown; of equals, that with the lowest position.
class Search {
 public:
  Search(const CellPredictors::Node& node, double l2) : node_(node), l2_(l2) {}

  void show(uint64_t sum, uint32_t position) {
    if (sum == best_.sum) {  // the same score, and most ties are that: no need to divide
      best_.position = std::min(best_.position, position);
      return;
    }
    if (sum != last_) {
      last_ = sum;
      last_score_ = split_score(g_of(sum), h_of(sum), node_.g, node_.h, l2_);
    }
    if (last_score_ > best_.score || (last_score_ == best_.score && position < best_.position))
      best_ = {last_score_, position, sum};
  }

  const CellSplit& found() const { return best_; }

 private:
  const CellPredictors::Node& node_;
  double l2_;
  CellSplit best_;
  uint64_t last_ = 0;  // neighbours have equal sums where no row of the node lies between them
  double last_score_ = 0.0;
};

}  // namespace

CellSplit CellPredictors::best_of_few(const Kernels& kernels, const Node& node, const uint32_t* index, size_t count,
                                      const uint64_t* values, double l2, Few& few) const {
  const size_t n = columns_.size(), width = (n + 15) / 16 * 16, rows = (count + 3) / 4 * 4;
  if (few.cells.empty()) {
    few.cells.resize(kFewRows * width);  // columns that are none have one cell
    few.g_sums.resize(kFewRows * width);
    few.h_sums.resize(kFewRows * width);
    few.scores.resize(kFewRows * width);
    few.g.resize(kFewRows);
    few.h.resize(kFewRows);
  }
  for (size_t i = 0; i < rows; ++i) {  // those that are too many repeat the last, and add nothing
    const size_t row = index[std::min(i, count - 1)];
    for (size_t c = 0; c < n; ++c) few.cells[i * width + c] = kept_cell_[slots16_[row * n + c]];
    few.g[i] = static_cast<int16_t>(i < count ? g_of(values[row]) : 0);
    few.h[i] = static_cast<int16_t>(i < count ? h_of(values[row]) : 0);
  }
  const int32_t largest = kernels.score_few({rows, width, few.cells.data(), few.g.data(), few.h.data(),
                                             few.g_sums.data(), few.h_sums.data(), few.scores.data()},
                                            node_of(node, l2));
  const int32_t nearly = std::max(nearly_as_good(largest, l2), 1);

  Search search(node, l2);
  for (size_t e = 0; e < count * width && largest > 0; ++e) {
    if (e % 16 == 0) {  // most runs have none
      int any = 0;
      for (size_t k = e; k < e + 16; ++k) any |= few.scores[k] >= nearly;
      if (!any) {
        e += 15;
        continue;
      }
    }
    if (few.scores[e] < nearly) continue;
    const size_t c = e % width;
    const uint64_t sum = packed_sum(few.g_sums[e], few.h_sums[e]);
    if (sum == search.found().sum && columns_[c].lowest > search.found().position) continue;
    // All bits that start after the next lower row's cell and up to this one's are equal here.
    int16_t below = -1;
    for (size_t i = 0; i < count; ++i) {
      const int16_t cell = few.cells[i * width + c];
      below = cell < few.cells[e] ? std::max(below, cell) : below;
    }
    int32_t position = INT32_MAX;
    for (int16_t cell = few.cells[e]; cell > below; --cell)
      position = std::min(position, kept_position_[static_cast<size_t>(cell)]);
    search.show(sum, static_cast<uint32_t>(position));
  }
  for (const Interval& interval : intervals_) {
    if (!interval.kept) continue;
    int32_t g = 0, h = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t slot = slots16_[index[i] * n + interval.column];
      const bool inside = (interval.lo == total_slot() || slot >= interval.lo) && slot < interval.hi;
      g += inside ? few.g[i] : 0;
      h += inside ? few.h[i] : 0;
    }
    search.show(packed_sum(g, h), interval.position);
  }
  return search.found();
}

CellSplit CellPredictors::best(const Node& node, const CellScores* scores, double l2) const {
  int32_t largest = 0;
  for (const int32_t score : scores[chunks_.size()].lane) largest = std::max(largest, score);
  const int32_t nearly = nearly_as_good(largest, l2);
  Search search(node, l2);
  const uint64_t* sums = node.sums->sum;
  for (size_t c = 0; c < chunks_.size() && largest > 0; ++c)
    for (size_t lane = 0; lane < kCellLanes; ++lane) {
      if (scores[c].lane[lane] < nearly) continue;
      for (size_t r = chunks_[c].first; r < chunks_[c].first + chunks_[c].rows; ++r) {
        const int32_t position = positions_[r].lane[lane];
        if (position >= 0) search.show(sums[r * kCellLanes + kColumnOfLane[lane]], static_cast<uint32_t>(position));
      }
    }
  for (const Interval& interval : intervals_)
    if (interval.kept) search.show(sums[interval.lo] - sums[interval.hi], interval.position);
  return search.found();
}

}  // namespace lbarn
