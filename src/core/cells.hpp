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

  bool empty() const { return columns_.empty(); }
  const std::vector<uint8_t>& covered() const { return covered_; }  // by position: what is looked at here

  // The positions of all bits that are not constant, and their numbers by position.
  std::vector<uint32_t> varying() const;
  void set_numbers(const std::vector<uint32_t>& number);

  // Trees may split on the numbers marked in `kept`, or on all.
  void keep(const uint8_t* kept);

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
    std::vector<int16_t> cells, g, h, g_sums, h_sums;
    std::vector<int32_t> scores;
  };
  // Whether nodes of at most kFewRows need no sums, where no value of a row exceeds `largest`.
  bool few_need_no_sums(int32_t largest) const {
    return slots32_.empty() && total_slot() <= INT16_MAX && largest * static_cast<int32_t>(kFewRows) <= INT16_MAX;
  }
  // The best split of such a node, which has no sums.
  CellSplit best_of_few(const Kernels& kernels, const Node& node, const uint32_t* index, size_t count,
                        const uint64_t* values, double l2, Few& few) const;

 private:
  struct Bit {
    uint32_t position, number;
    uint32_t at;  // in positions_
  };
  struct Interval {
    uint32_t lo, hi;  // slots: the sum is that of lo less that of hi
    uint32_t position, number;
    uint32_t column;
    bool kept;
  };
  struct Column {
    size_t source;
    size_t bits;
    size_t last_rank;
    size_t intervals = 0;
    uint32_t first_row = 0, lane = 0;
    uint32_t lowest = 0;  // the position of its first bit

    uint32_t slot(size_t rank) const { return (first_row + static_cast<uint32_t>(rank)) * kCellLanes + lane; }
  };

  void leave_to_bits(const CellColumns& source, size_t plain);
  void lay_out();
  void number_kept_cells();
  void add_totals(const Node& node) const;
  uint32_t zero_slot() const { return static_cast<uint32_t>(n_rows_ * kCellLanes); }
  uint32_t total_slot() const { return zero_slot() + 1; }

  // Positions are in the order of the scores' lanes.
  static uint32_t position_index(uint32_t slot) {
    return slot / kCellLanes * kCellLanes + static_cast<uint32_t>(kColumnOfLane[slot % kCellLanes]);
  }

  std::vector<Column> columns_;
  size_t n_rows_ = 0;  // of cells
  std::vector<uint8_t> covered_;
  std::vector<uint16_t> slots16_;  // row by row, one for each column; or the others, where 16 bits are too few
  std::vector<uint32_t> slots32_;
  std::vector<CellChunk> chunks_;
  std::vector<Bit> bits_;              // of a column from the last position to the first
  std::vector<CellScores> positions_;  // of the first bit that starts at a cell and may be split on; -1: none
  std::vector<int16_t> kept_cell_;     // by slot: numbers for the cells at which such bits start, in their order
  std::vector<int32_t> kept_position_;
  std::vector<Interval> intervals_;  // those that do not reach up to the last cell
};

}  // namespace lbarn
