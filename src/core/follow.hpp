// Rows given evidence: particles from the first column of a network to the last, and what they say in the end.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cloud.hpp"

namespace lbarn {

constexpr uint16_t kUnknown = UINT16_MAX;  // stands for the cell of a value that is not known

// A column as a binary tree over its cells. Node k is reached by cells low..high - 1; its bit is 1 from `cut` on.
struct ColumnTree {
  size_t n_cells, n_nodes, n_bits;
  size_t first_bit, first_node;
  const int32_t* cut;
  const int32_t* children;  // two for every node: a node, or ~cell
  const int32_t *ones_low, *ones_high;

  // Whether bit b is 1 in a cell: in an interval of cells, or from one on and before another.
  bool is_one(size_t b, int32_t cell) const {
    const bool above = cell >= ones_low[b], below = cell < ones_high[b];
    return ones_low[b] > ones_high[b] ? above || below : above && below;
  }
};

struct NetworkView {
  std::vector<ColumnTree> columns;
  std::vector<Conditional> nodes;
  size_t n_features = 0;  // bits, and room for counts behind them
};

// What was seen of rows: cells, and how likely that is for each cell of a column where they are unknown.
struct EvidenceView {
  struct Column {
    size_t column;
    const double* likelihood;  // of the cells, for every row or for all
    bool by_row;
    size_t first;  // of its cells among those of all these columns
    bool empty;    // seen to be cell 0, which is no value: that counts, and the value is asked for all the same
  };
  size_t rows, n_columns;
  const uint16_t* cells;
  std::vector<Column> unknown;  // ascending
  size_t n_cells = 0;           // of those
};

struct FollowHow {
  size_t limit = 1000;  // particles of a row, or of each of its two islands
  bool islands = false;
  uint64_t seed = 0;
  const uint64_t* number = nullptr;  // of every row: its random numbers depend on nothing else
  size_t n_draws = 1;
  bool keep = false;  // the particles of the last row
  double unexpected_particles = 0.0, unexpected = 0.0;
};

struct Followed {
  std::vector<double> log_marginal, variance;  // by row
  std::vector<int32_t> unexpected;             // the column that was least expected after a thinning, -1 if none was
  std::vector<double> log_marginal_there;
  std::vector<double> error;           // root mean square over the unknown cells' probabilities, by the islands
  std::vector<double> marginal_error;  // of log_marginal
  std::vector<double> shares;          // P of every cell of the unknown columns, rows x cells
  std::vector<double> expected;        // the same given what was seen up to that column
  std::vector<uint16_t> draws;         // rows x draws x columns
  // Of the last row, if it is kept:
  std::vector<double> weight;    // of its particles
  std::vector<uint16_t> states;  // particles x columns
  std::vector<Generation> generations;
};

// What is seen is unexpected if its probability is less than that of `unexpected_particles` particles, and less than
// `unexpected`.
Followed follow(const NetworkView& network, const EvidenceView& evidence, const FollowHow& how,
                const std::function<void()>& interrupt);

}  // namespace lbarn
