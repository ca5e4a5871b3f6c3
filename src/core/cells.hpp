// Predictors that come as cells. A column of a table has so many cells, and each of its bits says whether a row's cell
// lies in an interval [lo, hi). One sum per cell then gives the sums of all its bits: the cells from lo up less those
// from hi up. They are the same integers that the bits' own histogram has.
#pragma once

#include <vector>

#include "kernels.hpp"

namespace lbarn {

// Checked by whoever makes it: no position is a bit of two columns, and lo <= hi.
struct CellColumns {
  size_t count = 0;
  size_t rows = 0;
  const uint16_t* cells = nullptr;    // count x rows
  const uint32_t* first = nullptr;    // the position of each column's first bit; the others follow
  const uint32_t* offsets = nullptr;  // column c has the intervals offsets[c] to offsets[c + 1]
  const uint16_t* lo = nullptr;
  const uint16_t* hi = nullptr;
};

// A split by a bit that came from cells.
struct CellSplit {
  double score = 0.0;
  uint32_t position = UINT32_MAX;
  uint64_t sum = 0;  // of the rows with a 1
};

// The bits of one problem that are taken from its cells. Cells that no row has, or that no bit tells from their
// neighbours, are left out: so are bits that are constant, and of equal bits of a column all but the lowest that a
// tree may split on.
class CellPredictors {
 public:
  CellPredictors() = default;

  // Of the bits before `position`.
  CellPredictors(const CellColumns& columns, size_t position);

  bool empty() const { return columns_ == 0; }
  const std::vector<uint8_t>& covered() const { return covered_; }  // by position: what is looked at here

  // The positions of all bits that are not constant.
  std::vector<uint32_t> varying() const;

  // Trees may split on the positions marked in `kept`, or on all.
  void keep(const std::vector<uint8_t>* kept);

  size_t rows_of_cells() const { return n_rows_ + 1; }
  void add(const Kernels& kernels, const uint32_t* index, size_t count, const uint64_t* values, CellRow* sums) const;

  // A node's sums and totals. Its scores, `scores()` of them, are what summing it has found.
  struct Node {
    CellRow* sums;
    double g, h;
  };
  void sum(const Kernels& kernels, CellRow* fresh, const Node& own, double l2, CellScores* scores) const;
  void divide(const Kernels& kernels, CellRow* fresh, const Node& own, const Node& rest, double l2,
              CellScores* own_scores, CellScores* rest_scores) const;
  size_t scores() const { return chunks_.size() + 1; }

  void subtract(const Kernels& kernels, CellRow* fresh, const Node& rest, double l2, CellScores* scores) const;

  // The best split of a node that has been summed.
  CellSplit best(const Node& node, const CellScores* scores, double l2) const;

  // Room for the few rows of a node.
  struct Few {
    std::vector<int16_t> slots, g, h, g_sums, h_sums;
    std::vector<int32_t> scores;
  };
  // Whether nodes of at most kFewRows need no sums, where no value of a row exceeds `largest`.
  bool few_need_no_sums(int32_t largest) const {
    return all_allowed_ && slots32_.empty() && total_slot() <= INT16_MAX &&
           largest * static_cast<int32_t>(kFewRows) <= INT16_MAX;
  }
  // The best split of such a node, which has no sums.
  CellSplit best_of_few(const Kernels& kernels, const Node& node, const uint32_t* index, size_t count,
                        const uint64_t* values, double l2, Few& few) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Bit {
    uint32_t position;
    uint32_t next;  // of the bits that are equal, the one with the next position
  };
  struct Interval {
    uint32_t lo, hi;  // slots: the sum is that of lo less that of hi
    uint32_t position;
    bool kept;
  };
  struct Column {
    size_t source;
    size_t bits;
    size_t last_rank;
    size_t intervals = 0;
    uint32_t first_row = 0, lane = 0;
    uint32_t slot(size_t rank) const { return (first_row + static_cast<uint32_t>(rank)) * kCellLanes + lane; }
  };

  void leave_to_bits(std::vector<Column>& columns, const CellColumns& source, size_t plain);
  void lay_out(std::vector<Column>& columns);
  void add_totals(const Node& node) const;
  uint32_t zero_slot() const { return static_cast<uint32_t>(n_rows_ * kCellLanes); }
  uint32_t total_slot() const { return zero_slot() + 1; }

  size_t columns_ = 0;
  size_t n_rows_ = 0;  // of cells
  std::vector<uint8_t> covered_;
  std::vector<uint16_t> slots16_;  // row by row, one for each column; or the others, where 16 bits are too few
  std::vector<uint32_t> slots32_;
  std::vector<uint32_t> lowest_;  // the position of each column's first bit
  std::vector<CellChunk> chunks_;
  std::vector<Bit> bits_;
  std::vector<uint32_t> head_;      // by slot, the first of its bits
  std::vector<uint32_t> position_;  // by slot, of the bit that a tree may split on
  std::vector<CellScores> allowed_;
  bool all_allowed_ = true;          // every cell but the lowest of a column starts a bit
  std::vector<Interval> intervals_;  // those that do not reach up to the last cell
};

}  // namespace lbarn
