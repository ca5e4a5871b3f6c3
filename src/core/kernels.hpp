// The loops over rows and features that cost time, one table of them per SIMD path. All paths give the same integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bits.hpp"
#include "inline.hpp"
#include "random.hpp"
#include "trees.hpp"

namespace lbarn {

constexpr int kMaxDigits = 9;
constexpr size_t kIndexRoom = 16;  // entries that a list of rows has room for behind its end

// A row's quantised g and h are `digits` digits of 6 bits, least significant first; plane k holds digit k of g in the
// low byte and of h in the high byte of one uint16 per row. The top digit of g is signed, all others are unsigned.
struct DigitPlanes {
  const uint16_t* plane[kMaxDigits] = {};
  int digits = 0;
  int largest = 63;  // of h where there is one digit; g is at most half of it
};

struct HistogramScratch {
  std::vector<uint8_t> nibbles;
  std::vector<uint8_t> g_tables, h_tables;
  std::vector<uint16_t> picked;
  std::vector<uint32_t> sums;
};

// The histogram's order. Slot 128 c + 32 k + 16 half + b is bit 128 c + 8 b + 4 half + k of the rows.
constexpr size_t scan_slots(const Rows& rows) { return 8 * rows.width; }
constexpr size_t feature_of_slot(size_t slot) {
  return slot / 128 * 128 + slot % 16 * 8 + slot / 16 % 2 * 4 + slot / 32 % 4;
}
constexpr size_t slot_of_feature(size_t feature) {
  return feature / 128 * 128 + feature % 4 * 32 + feature / 4 % 2 * 16 + feature / 8 % 16;
}

// 64 rows of four words each. Transposed, bit r of word[c][lane] is what bit c of word[r][lane] was.
constexpr size_t kBlockLanes = 4;
struct BitBlock {
  alignas(64) uint64_t word[64][kBlockLanes];
};

// What a split of a node with totals G, H into ones with sums g1, h1 and the rest is worth; 0 where a side is empty.
LBARN_INLINE double split_score(double g1, double h1, double G, double H, double l2) {
  const double g0 = G - g1, h0 = H - h1;
  const double a = h0 + l2, b = h1 + l2;
  const double score = (g0 * g0 * b + g1 * g1 * a) / (a * b);
  return ((h0 > 0.0) & (h1 > 0.0)) ? score : 0.0;
}

struct BestSplit {
  double score = 0.0;
  uint32_t feature = 0;
};

// Sums over cells. Those of g and h are one number, g 2^32 + h, while both fit 31 bits: added and subtracted as one.
// Eight columns lie side by side, so that they are summed side by side.
constexpr size_t kCellLanes = 8;
struct alignas(64) CellRow {
  uint64_t sum[kCellLanes];
};
constexpr uint64_t packed_sum(int32_t g, int32_t h) {
  return (static_cast<uint64_t>(static_cast<int64_t>(g)) << 32) + static_cast<uint32_t>(h);
}
constexpr int32_t g_of(uint64_t sum) { return static_cast<int32_t>(sum >> 32); }
constexpr int32_t h_of(uint64_t sum) { return static_cast<int32_t>(sum & 0xFFFFFFFFu); }

// Up to 16 rows of cells that are scored together; `top` where the sums start anew.
constexpr size_t kChunkRows = 16;
struct CellChunk {
  uint32_t first;
  uint32_t rows : 31;
  uint32_t top : 1;
};

// The totals of a node, and the best score in each lane of each chunk: a float, as the integer of the same bits.
struct CellNode {
  int32_t g, h;
  float l2;
};
struct alignas(32) CellScores {
  int32_t lane[kCellLanes];
};
// A few rows, whose splits are found without sums over cells: a bit that starts at a row's cell has a sum over the rows
// with cells that are no lower. `columns` is a multiple of 16 and `rows` of 4. Numbers stand for cells, in their order;
// they and all sums fit 16 bits.
constexpr size_t kFewRows = 32;
struct FewRows {
  size_t rows, columns;
  const int16_t* cells;  // rows x columns
  const int16_t *g, *h;
  int16_t *g_sums, *h_sums;  // rows x columns
  int32_t* scores;           // as above
};

// The column in a row of cells that each lane of the scores belongs to.
constexpr size_t kColumnOfLane[kCellLanes] = {0, 1, 4, 5, 2, 3, 6, 7};

struct LeafSum {
  int64_t g = 0;
  int64_t h = 0;
};

// What a pass over the rows reads and writes. Arrays are padded to whole blocks; weight and count are null where all
// are
// 1. A row of count n stands for n equal ones: g and h are those of each, sums are over all of them.
struct RowState {
  size_t rows;
  const uint64_t* target;
  const float* weight;
  const uint32_t* count;
  int32_t* log_odds;
  int32_t* g;
  int32_t* h;
  int32_t limit = kNoLimit;  // what is computed from log-odds beyond it is computed from the limit
};

struct RoundSummary {
  int64_t log_likelihood = 0;
  int32_t max_g = 0;
  int32_t max_h = 0;
  int64_t most_g = 0;  // of a row's g times its count, where rows have counts
  int64_t most_h = 0;
};

struct Quantiser {
  int digits;
  int32_t g_levels, h_levels;
  bool stochastic;
  RoundKey key;
};

struct QuantisedTotals {
  int64_t g = 0;
  int64_t h = 0;
};

struct Light {
  double weight;  // of those that are not too heavy
  size_t heavy;   // as many are
};

struct Kernels {
  const char* name;

  // Sums of the quantised g and h over the listed rows with a 1, for every bit of the rows: integers, in scan order.
  // `index` has `kIndexRoom` more entries than `count`, which are written.
  void (*histogram)(const Rows& rows, uint32_t* index, size_t count, const DigitPlanes& planes,
                    HistogramScratch& scratch, double* g, double* h);

  // The same of all rows, whatever their digits, from the rows `interleaved` by the other function. Digits have room
  // for 15 rows more than there are, which are zero.
  void (*interleave_rows)(const Rows& rows, std::vector<uint8_t>& interleaved);
  void (*histogram_of_all)(const Rows& rows, const std::vector<uint8_t>& interleaved, const DigitPlanes& planes,
                           HistogramScratch& scratch, double* g, double* h);

  // The split of a node with totals G, H of greatest score, the lowest feature among equals; score 0 where none exists.
  // `g`, `h` and `scratch` have `slots` entries, in scan order.
  BestSplit (*best_split)(const double* g, const double* h, size_t slots, double G, double H, double l2,
                          float* scratch);

  // Adds the values of the listed rows to sums[slot] for each of the row's slots; a row has `columns` of them.
  void (*add_cells16)(const uint16_t* slots, size_t columns, const uint32_t* index, size_t count,
                      const uint64_t* values, uint64_t* sums);
  void (*add_cells32)(const uint32_t* slots, size_t columns, const uint32_t* index, size_t count,
                      const uint64_t* values, uint64_t* sums);

  // Turns the sums of single cells, `fresh`, into those of all cells from each one up, `own`, and zeroes `fresh`.
  // `scores` gets the best of each lane and chunk among the cells whose position is not negative (in the order of the
  // lanes), and then those over all chunks. In `divide_cells`, `rest` becomes what is left of it without `own`, and is
  // scored too.
  void (*sum_cells)(const CellChunk* chunks, size_t count, const CellScores* positions, CellRow* fresh, CellRow* own,
                    const CellNode& node, CellScores* scores);
  void (*divide_cells)(const CellChunk* chunks, size_t count, const CellScores* positions, CellRow* fresh, CellRow* own,
                       CellRow* rest, const CellNode& own_node, const CellNode& rest_node, CellScores* own_scores,
                       CellScores* rest_scores);

  // The same with no `own`: nobody asks for it.
  void (*subtract_cells)(const CellChunk* chunks, size_t count, const CellScores* positions, CellRow* fresh,
                         CellRow* rest, const CellNode& node, CellScores* scores);

  // Sums and scores of a few rows, and the best score.
  int32_t (*score_few)(const FewRows& few, const CellNode& node);

  // zeros = mask & ~column in place, ones = mask & column; the number of rows in `ones`.
  size_t (*split_mask)(uint64_t* mask, const uint64_t* column, uint64_t* ones, size_t words);

  // The rows of a mask in ascending order. `out` has room for 64 more than there are.
  size_t (*list_rows)(const uint64_t* mask, size_t words, uint32_t* out);

  // The leaf of every row, padding included.
  void (*assign_leaves)(const Columns& columns, const Tree& tree, uint16_t* leaf);

  // Sums of the true g and h per leaf.
  void (*sum_leaves)(const RowState& state, const uint16_t* leaf, size_t leaves, LeafSum* sums);

  // log_odds += values[leaf]; then g, h, their maxima and the log-likelihood. Padding gets g = h = 0.
  RoundSummary (*advance)(const RowState& state, const uint16_t* leaf, size_t leaves, const int32_t* values);

  // The same without g and h.
  int64_t (*advance_score)(const RowState& state, const uint16_t* leaf, size_t leaves, const int32_t* values);

  // Digits of all rows, the mask of rows with any digit set, and totals. `h` is what the objective divides by.
  QuantisedTotals (*quantise)(size_t rows, const int32_t* g, const int32_t* h, int32_t max_g, int32_t max_h,
                              const Quantiser& how, uint16_t* const* planes, uint64_t* active);

  // The same for rows with counts. Rounded at random, the product of g and count is; else g is, as if by itself, and
  // then multiplied: the sums are those of all rows that it stands for.
  QuantisedTotals (*quantise_counted)(size_t rows, const int32_t* g, const int32_t* h, const uint32_t* count,
                                      double max_g, double max_h, const Quantiser& how, uint16_t* const* planes,
                                      uint64_t* active);

  // Marks a random share of features: those whose random number is not above the threshold.
  void (*draw_features)(RoundKey key, size_t count, uint32_t threshold, uint8_t* kept);

  // Adds the trees' values to the log-odds of all rows, and of what fills up their last word; their limit is not
  // looked at. Columns may have any number of words here.
  void (*add_trees)(const Columns& columns, const TreesView& trees, int32_t* log_odds);

  // P(0) and P(1), to the last digits that log-likelihoods have; 0 where it is below e^-707. `count` is a multiple
  // of 64.
  void (*chances)(const int32_t* log_odds, size_t count, double* zero, double* one);

  // Transposes the four 64 x 64 bit matrices, in place.
  void (*transpose_block)(BitBlock& block);

  // Of weights, those that are not heavier than c.
  Light (*light_of)(const double* weight, size_t count, double c);
};

// The path in use: the fastest that this machine has, or the one named by LBARN_SIMD (avx2, neon, portable).
const Kernels& kernels();
void choose_kernels(const std::string& name);
std::vector<std::string> available_kernels();

}  // namespace lbarn
