// The kernels' bodies. Each SIMD path includes this once, after defining LBARN_TARGET (its function attributes) and
// its `Isa` (the byte-shuffle steps of the histogram, listing, and looking up leaves). Everything else is plain C++
// that the compiler vectorises.
//
// The histogram, for 8 rows (two groups of 4; a path may take four groups) and 128 features at a time:
//
//   rows      r0..r3 | r4..r7, 16 bytes each
//   nibbles   4 vectors of 32 bytes: byte b of vector k holds the bits of features 8b + k (low nibble) and 8b + 4 + k
//             (high nibble) of r0..r3 in bytes 0..15, of r4..r7 in bytes 16..31
//   tables    16 bytes per group: entry s is the sum of g (plus a bias for the signed digit) or h over the subset s of
//             its 4 rows
//   sums      [g, h][chunk][k][low, high][byte], 32 bits: the scan order
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.hpp"
#include "lanes.hpp"
#include "listing.hpp"
#include "logistic.hpp"

namespace lbarn {
namespace {

constexpr size_t kScanRows = 2048;                         // rows per block
constexpr size_t kPackRows = 4 * Isa::kGroups;             // rows whose groups make one vector, a pack
constexpr size_t kPackBytes = 16 * Isa::kGroups;           // of a vector
constexpr size_t kPacks = kScanRows / kPackRows;           // per block: 256 x 255 fits 16 bits
constexpr size_t kNibbleStride = 16 * kScanRows / 4 + 64;  // from vector to vector: not a power of two, so that they do
                                                           // not share cache sets
constexpr size_t kChunk = 128;                             // features per chunk
constexpr size_t kAhead = 64 / kPackRows;                  // packs from a hint to its use

// Sums over a block of packs for every digit, which starts at digits[k] for its first row.
struct DigitSums {
  const DigitPlanes& planes;
  HistogramScratch& scratch;
  size_t chunks;
  int bias;      // of the top digit of g, so that no sum of a group is negative
  size_t burst;  // so many lookups fit a byte: those of digits that are small

  DigitSums(const DigitPlanes& planes, HistogramScratch& scratch, size_t chunks)
      : planes(planes),
        scratch(scratch),
        chunks(chunks),
        bias(planes.digits == 1 ? 2 * (planes.largest + 1) : 128),
        burst(planes.digits == 1 ? static_cast<size_t>(std::max(1, 255 / (4 * (planes.largest + 1)))) : 1) {
    scratch.g_tables.resize(kPacks * kPackBytes);
    scratch.h_tables.resize(kPacks * kPackBytes);
    scratch.sums.assign(static_cast<size_t>(planes.digits) * 2 * slots(), 0);
  }

  size_t slots() const { return chunks * kChunk; }

  LBARN_TARGET LBARN_INLINE void add(const uint8_t* nibbles, const uint16_t* digits, int digit, size_t packs) {
    uint8_t *g_tables = scratch.g_tables.data(), *h_tables = scratch.h_tables.data();
    for (size_t p = 0; p < packs; ++p)
      Isa::tables(digits + kPackRows * p, digit == planes.digits - 1 ? bias : 0, g_tables + kPackBytes * p,
                  h_tables + kPackBytes * p);
    uint32_t* sums = scratch.sums.data() + static_cast<size_t>(digit) * 2 * slots();
    for (size_t v = 0; v < 4 * chunks; ++v)
      Isa::accumulate(nibbles + v * kNibbleStride, g_tables, h_tables, packs, burst, sums + 32 * v,
                      sums + slots() + 32 * v);
  }

  // The sums as numbers, of so many packs in all. Each group has put the bias of the top digit into every one of them.
  LBARN_TARGET LBARN_INLINE void finish(size_t packs, double* g, double* h) const {
    const size_t n = slots();
    double unit = 1.0;
    for (int digit = 0; digit < planes.digits; ++digit, unit *= 64.0) {
      const uint32_t* sums = scratch.sums.data() + static_cast<size_t>(digit) * 2 * n;
      const double off =
          digit == planes.digits - 1 ? static_cast<double>(bias) * static_cast<double>(packs * Isa::kGroups) : 0.0;
      if (digit == 0) {
        for (size_t s = 0; s < n; ++s) g[s] = static_cast<double>(static_cast<int32_t>(sums[s])) - off;
        for (size_t s = 0; s < n; ++s) h[s] = static_cast<double>(static_cast<int32_t>(sums[n + s]));
      } else {
        for (size_t s = 0; s < n; ++s) g[s] += unit * (static_cast<double>(static_cast<int32_t>(sums[s])) - off);
        for (size_t s = 0; s < n; ++s) h[s] += unit * static_cast<double>(static_cast<int32_t>(sums[n + s]));
      }
    }
  }
};

LBARN_TARGET void histogram(const Rows& rows, uint32_t* index, size_t count, const DigitPlanes& planes,
                            HistogramScratch& scratch, double* g, double* h) {
  DigitSums sums(planes, scratch, rows.width / kScanBytes);
  scratch.nibbles.resize(4 * sums.chunks * kNibbleStride);
  scratch.picked.resize(kScanRows);
  std::fill(index + count, index + count + kPackRows,
            count ? index[count - 1] : 0);  // their digits are made zero below
  size_t all_packs = 0;
  for (size_t first = 0; first < count; first += kScanRows) {
    const size_t n = std::min(kScanRows, count - first);
    const size_t packs = (n + kPackRows - 1) / kPackRows;
    const uint32_t* block = index + first;
    for (size_t p = 0; p < packs; ++p) {
      const uint8_t* row[kPackRows];
      for (size_t r = 0; r < kPackRows; ++r) row[r] = rows.row(block[kPackRows * p + r]);
      // Listed rows lie anywhere: without a hint much time would go into waiting for them.
      if (p + kAhead < packs)
        for (size_t r = 0; r < kPackRows; ++r) {
          const uint8_t* later = rows.row(block[kPackRows * (p + kAhead) + r]);
          for (size_t byte = 0; byte < rows.width; byte += kCacheLine) prefetch(later + byte);
        }
      for (size_t c = 0; c < sums.chunks; ++c)
        Isa::interleave(row, kScanBytes * c, scratch.nibbles.data() + 4 * c * kNibbleStride + kPackBytes * p,
                        kNibbleStride);
    }
    for (int digit = 0; digit < planes.digits; ++digit) {
      const uint16_t* plane = planes.plane[digit];
      for (size_t r = 0; r < n; ++r) scratch.picked[r] = plane[block[r]];
      std::fill(scratch.picked.begin() + static_cast<std::ptrdiff_t>(n),
                scratch.picked.begin() + static_cast<std::ptrdiff_t>(kPackRows * packs), uint16_t{0});
      sums.add(scratch.nibbles.data(), scratch.picked.data(), digit, packs);
    }
    all_packs += packs;
  }
  sums.finish(all_packs, g, h);
}

// All rows, interleaved once and for all. A block is as in the scratch of a histogram.
LBARN_TARGET void interleave_rows(const Rows& rows, std::vector<uint8_t>& out) {
  const size_t chunks = rows.width / kScanBytes;
  const size_t block_bytes = 4 * chunks * kNibbleStride;
  out.assign((rows.count + kScanRows - 1) / kScanRows * block_bytes, 0);
  const std::vector<uint8_t> none(rows.width);
  for (size_t first = 0; first < rows.count; first += kPackRows) {
    const uint8_t* row[kPackRows];
    for (size_t r = 0; r < kPackRows; ++r) row[r] = first + r < rows.count ? rows.row(first + r) : none.data();
    uint8_t* block = out.data() + first / kScanRows * block_bytes + first % kScanRows / kPackRows * kPackBytes;
    for (size_t c = 0; c < chunks; ++c)
      Isa::interleave(row, kScanBytes * c, block + 4 * c * kNibbleStride, kNibbleStride);
  }
}

LBARN_TARGET void histogram_of_all(const Rows& rows, const std::vector<uint8_t>& interleaved, const DigitPlanes& planes,
                                   HistogramScratch& scratch, double* g, double* h) {
  DigitSums sums(planes, scratch, rows.width / kScanBytes);
  size_t all_packs = 0;
  for (size_t first = 0; first < rows.count; first += kScanRows) {
    const size_t packs = (std::min(kScanRows, rows.count - first) + kPackRows - 1) / kPackRows;
    const uint8_t* block = interleaved.data() + first / kScanRows * 4 * sums.chunks * kNibbleStride;
    for (int digit = 0; digit < planes.digits; ++digit) sums.add(block, planes.plane[digit] + first, digit, packs);
    all_packs += packs;
  }
  sums.finish(all_packs, g, h);
}

// Single precision screens: the best is among those within its error, of which double precision decides.
LBARN_TARGET BestSplit best_split(const double* g, const double* h, size_t slots, double G, double H, double l2,
                                  float* scratch) {
  constexpr size_t kTogether = 64;     // slots are a multiple of it
  constexpr double kLargeL2 = 0x1p40;  // beyond, products leave the range of single precision
  const auto single_l2 = static_cast<float>(l2);
  float best = 0.0f;
  for (size_t j = 0; j < slots; ++j) {
    const double g0 = G - g[j], h0 = H - h[j];
    const auto a = static_cast<float>(h0) + single_l2, b = static_cast<float>(h[j]) + single_l2;
    const auto x = static_cast<float>(g0), y = static_cast<float>(g[j]);
    const float score = (x * x * b + y * y * a) / (a * b);
    scratch[j] = ((h0 > 0.0) & (h[j] > 0.0)) ? score : 0.0f;
  }
  for (size_t j = 0; j < slots; ++j) best = std::max(best, scratch[j]);
  BestSplit split;
  if (best == 0.0f && l2 < kLargeL2) return split;
  split.feature = UINT32_MAX;
  const float near = l2 < kLargeL2 ? best * (1.0f - 0x1p-18f) : 0.0f;
  for (size_t first = 0; first < slots; first += kTogether) {
    int32_t any = 0;
    for (size_t j = first; j < first + kTogether; ++j) any |= !(scratch[j] < near);
    if (!any) continue;
    for (size_t j = first; j < first + kTogether; ++j) {
      if (scratch[j] < near) continue;  // what is not a number is looked at
      const double score = split_score(g[j], h[j], G, H, l2);
      const auto feature = static_cast<uint32_t>(feature_of_slot(j));
      if (score > split.score || (score == split.score && score > 0.0 && feature < split.feature))
        split = {score, feature};
    }
  }
  return split;
}

template <class Slot>
LBARN_TARGET void add_cells(const Slot* slots, size_t columns, const uint32_t* index, size_t count,
                            const uint64_t* values, uint64_t* sums) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t value = values[index[i]];
    const Slot* slot = slots + index[i] * columns;
    for (size_t c = 0; c < columns; ++c) sums[slot[c]] += value;
  }
}

// Scores in single precision of one row of cells, in two halves: within 2^-19 of what they are.
LBARN_TARGET LBARN_INLINE void score_cells(const SumVector& low, const SumVector& high, const CellNode& node,
                                           const CellScores& position, IntVector& best) {
  IntVector g1, h1, at;
  unpack_sums(low, high, g1, h1);
  std::memcpy(&at, &position, sizeof at);
  const IntVector g0 = node.g - g1, h0 = node.h - h1;
  FloatVector fg1, fg0, fa, fb;
  convert(g1, fg1);
  convert(g0, fg0);
  convert(h0, fa);
  convert(h1, fb);
  fa += node.l2;
  fb += node.l2;
  const FloatVector score = (fg0 * fg0 * fb + fg1 * fg1 * fa) / (fa * fb);
  IntVector bits;
  std::memcpy(&bits, &score, sizeof bits);
  bits &= (at > -1) & (h0 > 0) & (h1 > 0);
  keep_larger(bits, best);  // scores are not negative, so their bits are ordered as they are
}

template <bool kOwn, bool kRest>
LBARN_TARGET LBARN_INLINE void scan_cells(const CellChunk* chunks, size_t count, const CellScores* positions,
                                          CellRow* fresh, CellRow* own, CellRow* rest, const CellNode& own_node,
                                          const CellNode& rest_node, CellScores* own_scores, CellScores* rest_scores) {
  constexpr size_t kHalf = sizeof(SumVector);
  SumVector low = {}, high = {};
  const SumVector zero = {};
  IntVector own_all = {}, rest_all = {};
  for (size_t c = 0; c < count; ++c) {
    if (chunks[c].top) low = high = zero;
    IntVector own_best = {}, rest_best = {};
    for (size_t r = chunks[c].first + chunks[c].rows; r-- > chunks[c].first;) {
      auto* f = reinterpret_cast<char*>(fresh + r);
      SumVector x, y;
      std::memcpy(&x, f, kHalf);
      std::memcpy(&y, f + kHalf, kHalf);
      low += x;
      high += y;
      std::memcpy(f, &zero, kHalf);
      std::memcpy(f + kHalf, &zero, kHalf);
      if (kOwn) {
        auto* o = reinterpret_cast<char*>(own + r);
        std::memcpy(o, &low, kHalf);
        std::memcpy(o + kHalf, &high, kHalf);
        score_cells(low, high, own_node, positions[r], own_best);
      }
      if (kRest) {
        auto* p = reinterpret_cast<char*>(rest + r);
        std::memcpy(&x, p, kHalf);
        std::memcpy(&y, p + kHalf, kHalf);
        x -= low;
        y -= high;
        std::memcpy(p, &x, kHalf);
        std::memcpy(p + kHalf, &y, kHalf);
        score_cells(x, y, rest_node, positions[r], rest_best);
      }
    }
    if (kOwn) {
      std::memcpy(own_scores + c, &own_best, sizeof own_best);
      keep_larger(own_best, own_all);
    }
    if (kRest) {
      std::memcpy(rest_scores + c, &rest_best, sizeof rest_best);
      keep_larger(rest_best, rest_all);
    }
  }
  if (kOwn) std::memcpy(own_scores + count, &own_all, sizeof own_all);
  if (kRest) std::memcpy(rest_scores + count, &rest_all, sizeof rest_all);
}

LBARN_TARGET void sum_cells(const CellChunk* chunks, size_t count, const CellScores* positions, CellRow* fresh,
                            CellRow* own, const CellNode& node, CellScores* scores) {
  scan_cells<true, false>(chunks, count, positions, fresh, own, nullptr, node, node, scores, nullptr);
}

LBARN_TARGET void divide_cells(const CellChunk* chunks, size_t count, const CellScores* positions, CellRow* fresh,
                               CellRow* own, CellRow* rest, const CellNode& own_node, const CellNode& rest_node,
                               CellScores* own_scores, CellScores* rest_scores) {
  scan_cells<true, true>(chunks, count, positions, fresh, own, rest, own_node, rest_node, own_scores, rest_scores);
}

LBARN_TARGET void subtract_cells(const CellChunk* chunks, size_t count, const CellScores* positions, CellRow* fresh,
                                 CellRow* rest, const CellNode& node, CellScores* scores) {
  scan_cells<false, true>(chunks, count, positions, fresh, nullptr, rest, node, node, nullptr, scores);
}

LBARN_TARGET int32_t score_few(const FewRows& few, const CellNode& node) {
  constexpr size_t kLanes = sizeof(ShortVector) / sizeof(int16_t), kTogether = 4;
  for (size_t column = 0; column < few.columns; column += kLanes)
    for (size_t i = 0; i < few.rows; i += kTogether) {
      const size_t at = i * few.columns + column;
      ShortVector from[kTogether], g[kTogether] = {}, h[kTogether] = {};
      for (size_t k = 0; k < kTogether; ++k) std::memcpy(&from[k], few.cells + at + k * few.columns, sizeof from[k]);
      for (size_t j = 0; j < few.rows; ++j) {
        ShortVector cell;
        std::memcpy(&cell, few.cells + j * few.columns + column, sizeof cell);
        for (size_t k = 0; k < kTogether; ++k) {
          const ShortVector inside = cell >= from[k];
          g[k] += inside & few.g[j];
          h[k] += inside & few.h[j];
        }
      }
      for (size_t k = 0; k < kTogether; ++k) {
        std::memcpy(few.g_sums + at + k * few.columns, &g[k], sizeof g[k]);
        std::memcpy(few.h_sums + at + k * few.columns, &h[k], sizeof h[k]);
      }
    }
  for (size_t e = 0; e < few.rows * few.columns; ++e) {
    const int32_t g1 = few.g_sums[e], h1 = few.h_sums[e], g0 = node.g - g1, h0 = node.h - h1;
    const auto fg0 = static_cast<float>(g0), fg1 = static_cast<float>(g1);
    const float a = static_cast<float>(h0) + node.l2, b = static_cast<float>(h1) + node.l2;
    const float score = (fg0 * fg0 * b + fg1 * fg1 * a) / (a * b);
    int32_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    few.scores[e] = ((h0 > 0) & (h1 > 0)) ? bits : 0;
  }
  int32_t best = 0;
  for (size_t e = 0; e < few.rows * few.columns; ++e) best = std::max(best, few.scores[e]);
  return best;
}

LBARN_TARGET size_t split_mask(uint64_t* mask, const uint64_t* column, uint64_t* ones, size_t words) {
  for (size_t w = 0; w < words; ++w) {
    ones[w] = mask[w] & column[w];
    mask[w] &= ~column[w];
  }
  size_t count = 0;
  for (size_t w = 0; w < words; ++w) count += popcount(ones[w]);
  return count;
}

LBARN_TARGET size_t list_rows(const uint64_t* mask, size_t words, uint32_t* out) {
  size_t count = 0;
  for (size_t first = 0; first < words; first += kBlockWords) {
    uint32_t some = 0;  // words that are not empty
    for (size_t w = 0; w < kBlockWords; ++w) some |= static_cast<uint32_t>(mask[first + w] != 0) << w;
    for (; some; some &= some - 1) {
      const size_t w = first + lowest_bit(some);
      const size_t n = popcount(mask[w]);
      Isa::list_bits(mask[w], n, static_cast<uint32_t>(64 * w), out + count);
      count += n;
    }
  }
  return count;
}

constexpr size_t kMaxPlanes = 16;
constexpr size_t kStackLeaves = 256;

// The rows in kWords words that are in each leaf: so many words per leaf.
template <size_t kWords>
LBARN_TARGET LBARN_INLINE void mask_leaves(const uint64_t* columns, size_t column_words, const Tree& tree,
                                           uint64_t* masks) {
  std::fill(masks, masks + kWords, ~uint64_t{0});
  for (size_t k = 0; k < tree.n_splits; ++k) {
    uint64_t* zeros = masks + tree.splits[k].leaf * kWords;
    uint64_t* ones = masks + (k + 1) * kWords;
    const uint64_t* column = columns + tree.splits[k].feature * column_words;
    for (size_t w = 0; w < kWords; ++w) {
      const uint64_t m = zeros[w], c = column[w];
      ones[w] = m & c;
      zeros[w] = m & ~c;
    }
  }
}

// The leaf of each of these rows.
template <size_t kWords>
LBARN_TARGET LBARN_INLINE void list_leaves(const uint64_t* masks, const Tree& tree, uint16_t* leaf) {
  // Bit p of a row's leaf index is set where the row is in any leaf whose index has that bit.
  alignas(64) uint32_t planes[kMaxPlanes][2 * kWords];
  size_t n_planes = 0;
  for (; (tree.n_splits >> n_planes) != 0; ++n_planes) {
    uint64_t plane[kWords] = {};
    const size_t bit = size_t{1} << n_planes;
    for (size_t l = bit; l <= tree.n_splits; l = (l + 1) | bit)
      for (size_t w = 0; w < kWords; ++w) plane[w] |= masks[l * kWords + w];
    std::memcpy(planes[n_planes], plane, sizeof plane);
  }
  for (size_t i = 0; i < 2 * kWords; ++i) Isa::leaf_indices(planes[0] + i, 2 * kWords, n_planes, leaf + 32 * i);
}

// `masks` has room for kWords words per leaf.
template <size_t kWords>
LBARN_TARGET LBARN_INLINE void assign_words(const uint64_t* columns, size_t column_words, const Tree& tree,
                                            uint64_t* masks, uint16_t* leaf) {
  mask_leaves<kWords>(columns, column_words, tree, masks);
  list_leaves<kWords>(masks, tree, leaf);
}

// Masks for the leaves of one block: on the stack where they fit.
class LeafMasks {
 public:
  explicit LeafMasks(size_t leaves) {
    if (leaves > kStackLeaves) heap_.resize(leaves * kBlockWords);
  }
  uint64_t* data() { return heap_.empty() ? stack_ : heap_.data(); }

 private:
  alignas(64) uint64_t stack_[kStackLeaves * kBlockWords];
  std::vector<uint64_t> heap_;
};

LBARN_TARGET void assign_leaves(const Columns& columns, const Tree& tree, uint16_t* leaf) {
  LeafMasks masks(tree.n_splits + 1);
  for (size_t w = 0; w < columns.words; w += kBlockWords)
    assign_words<kBlockWords>(columns.data + w, columns.words, tree, masks.data(), leaf + 64 * w);
}

template <bool kCounted>
LBARN_TARGET void sum_all_leaves(const RowState& state, const uint16_t* leaf, size_t leaves, LeafSum* sums) {
  // Several sets of sums, so that neighbours in the same leaf do not wait for each other.
  constexpr size_t kSets = 8;
  const size_t padded = (state.rows + kSets - 1) / kSets * kSets;
  std::vector<LeafSum> sets(kSets * leaves);
  for (size_t i = 0; i < padded; i += kSets)
    for (size_t k = 0; k < kSets; ++k) {
      LeafSum& sum = sets[kSets * leaf[i + k] + k];
      const int64_t count = kCounted ? state.count[i + k] : 1;
      sum.g += state.g[i + k] * count;
      sum.h += state.h[i + k] * count;
    }
  for (size_t l = 0; l < leaves; ++l) {
    sums[l] = {};
    for (size_t k = 0; k < kSets; ++k) {
      sums[l].g += sets[kSets * l + k].g;
      sums[l].h += sets[kSets * l + k].h;
    }
  }
}

LBARN_TARGET void sum_leaves(const RowState& state, const uint16_t* leaf, size_t leaves, LeafSum* sums) {
  if (state.count)
    sum_all_leaves<true>(state, leaf, leaves, sums);
  else
    sum_all_leaves<false>(state, leaf, leaves, sums);
}

// One 64-row word of advance.
template <bool kGradients, bool kWeighted, bool kCounted>
LBARN_TARGET LBARN_INLINE void advance_word(const RowState& state, size_t base, const uint16_t* leaf,
                                            const Isa::LeafValues& values, RoundSummary& summary) {
  int32_t* log_odds = state.log_odds + base;
  values.add(leaf + base, log_odds);

  alignas(64) int32_t missed[64];  // |log-odds| where they point the wrong way
  alignas(64) int32_t rest[64];    // log(1 + exp(-|log-odds|))
  alignas(64) int32_t g[64], h[64];
  for (size_t half = 0; half < 64; half += 32) {
    const auto y = static_cast<uint32_t>(state.target[base / 64] >> half);
    for (size_t i = 0; i < 32; ++i) {
      const size_t r = half + i;
      const int32_t f = clamped(log_odds[r], state.limit);
      const auto target = static_cast<int32_t>(y >> i & 1u);
      const int32_t wrong = is_wrong(f, target);
      const Softplus s = softplus(f);
      missed[r] = (f < 0 ? -f : f) & -wrong;
      rest[r] = static_cast<int32_t>(s.log1p_exp * kUnits + 0.5f);
      if (kGradients) {
        const float scale = kWeighted ? state.weight[base + r] * kUnits : kUnits;
        const auto w = static_cast<float>(wrong);
        const float residual = w + (1.0f - 2.0f * w) * s.minor;  // |y - p|
        const auto magnitude = static_cast<int32_t>(residual * scale + 0.5f);
        const int32_t sign = target - 1;
        g[r] = (magnitude ^ sign) - sign;
        h[r] = static_cast<int32_t>(s.minor * (1.0f - s.minor) * scale + 0.5f);
      }
    }
  }
  const size_t n = std::min<size_t>(64, state.rows - base);
  for (size_t r = n; r < 64; ++r) g[r] = h[r] = missed[r] = rest[r] = 0;
  if (kWeighted) {
    double sum = 0.0;  // integers
    for (size_t r = 0; r < n; ++r) {
      const double ll =
          static_cast<double>(missed[r] * kUnitsPerLogOdds + rest[r]) * static_cast<double>(state.weight[base + r]);
      sum += std::nearbyint(ll);
    }
    summary.log_likelihood -= static_cast<int64_t>(sum);
  } else if (kCounted) {
    int64_t sum = 0;
    for (size_t r = 0; r < 64; ++r) sum += (missed[r] * kUnitsPerLogOdds + rest[r]) * state.count[base + r];
    summary.log_likelihood -= sum;
  } else {
    int64_t missed_sum = 0, rest_sum = 0;
    for (size_t r = 0; r < 64; ++r) missed_sum += missed[r];
    for (size_t r = 0; r < 64; ++r) rest_sum += rest[r];
    summary.log_likelihood -= missed_sum * kUnitsPerLogOdds + rest_sum;
  }
  if (kGradients) {
    int32_t max_g = summary.max_g, max_h = summary.max_h;
    for (size_t r = 0; r < 64; ++r) {
      max_g = std::max(max_g, std::max(g[r], -g[r]));
      max_h = std::max(max_h, h[r]);
    }
    summary.max_g = max_g;
    summary.max_h = max_h;
    int64_t most_g = summary.most_g, most_h = summary.most_h;
    for (size_t r = 0; kCounted && r < 64; ++r) {
      const int64_t count = state.count[base + r];
      most_g = std::max(most_g, std::max<int64_t>(g[r], -g[r]) * count);
      most_h = std::max(most_h, h[r] * count);
    }
    summary.most_g = most_g;
    summary.most_h = most_h;
    std::memcpy(state.g + base, g, sizeof g);
    std::memcpy(state.h + base, h, sizeof h);
  }
}

template <bool kGradients, bool kWeighted, bool kCounted>
LBARN_TARGET RoundSummary advance_words(const RowState& state, const uint16_t* leaf, const Isa::LeafValues& values) {
  RoundSummary summary;
  for (size_t base = 0; base < state.rows; base += 64)
    advance_word<kGradients, kWeighted, kCounted>(state, base, leaf, values, summary);
  return summary;
}

template <bool kGradients>
LBARN_TARGET RoundSummary advance_rows(const RowState& state, const uint16_t* leaf, const Isa::LeafValues& values) {
  if (state.weight) return advance_words<kGradients, true, false>(state, leaf, values);
  if (state.count) return advance_words<kGradients, false, true>(state, leaf, values);
  return advance_words<kGradients, false, false>(state, leaf, values);
}

LBARN_TARGET RoundSummary advance(const RowState& state, const uint16_t* leaf, size_t leaves, const int32_t* values) {
  return advance_rows<true>(state, leaf, Isa::LeafValues(values, leaves));
}

LBARN_TARGET int64_t advance_score(const RowState& state, const uint16_t* leaf, size_t leaves, const int32_t* values) {
  return advance_rows<false>(state, leaf, Isa::LeafValues(values, leaves)).log_likelihood;
}

// Digits of whole numbers: of 64 rows.
template <class Integer>
LBARN_TARGET LBARN_INLINE void write_digits(const Integer* g, const Integer* h, int digits, size_t base,
                                            uint16_t* const* planes) {
  for (int k = 0; k < digits; ++k) {
    const int g_mask = k == digits - 1 ? 0xFF : 63;
    uint16_t* plane = planes[k] + base;
    for (size_t r = 0; r < 64; ++r)
      plane[r] = static_cast<uint16_t>(((g[r] >> (6 * k)) & g_mask) | ((h[r] >> (6 * k)) & 63) << 8);
  }
}

// Bit r is set where byte r, 0 or 1, is.
LBARN_INLINE uint64_t word_of_bytes(const uint8_t* bytes) {
  uint64_t word = 0;
  for (size_t r8 = 0; r8 < 8; ++r8) {
    uint64_t eight;
    std::memcpy(&eight, bytes + 8 * r8, 8);
    word |= ((eight * 0x0102040810204080ULL) >> 56) << (8 * r8);
  }
  return word;
}

// The sign of x times floor(|x| * scale + u), u uniform on [0, 1) or 1/2; one digit needs no more than a float holds.
template <class Real, int kDigits>
LBARN_TARGET QuantisedTotals quantise_rows(size_t rows, const int32_t* g, const int32_t* h, int32_t max_g,
                                           int32_t max_h, const Quantiser& how, uint16_t* const* planes,
                                           uint64_t* active) {
  const Real g_scale = max_g ? static_cast<Real>(how.g_levels) / static_cast<Real>(max_g) : Real{0};
  const Real h_scale = max_h ? static_cast<Real>(how.h_levels) / static_cast<Real>(max_h) : Real{0};
  const Real tiny = Real{1} / 65536, half = Real{0.5};
  QuantisedTotals totals;
  for (size_t base = 0; base < rows; base += 64) {
    alignas(64) int32_t gq[64], hq[64];
    alignas(64) uint8_t any[64];
    for (size_t r = 0; r < 64; ++r) {
      // One u for g and h of a row: both are likely to vanish together, and then the row is in no scan.
      const auto random = static_cast<int32_t>(row_bits(how.key, static_cast<uint32_t>(base + r)) >> 16);
      const Real u = how.stochastic ? (static_cast<Real>(random) + half) * tiny : half;
      const int32_t sign = g[base + r] >> 31;
      const int32_t magnitude = (g[base + r] ^ sign) - sign;
      const auto rounded = static_cast<int32_t>(static_cast<Real>(magnitude) * g_scale + u);
      gq[r] = (std::min(rounded, how.g_levels) ^ sign) - sign;
      hq[r] = std::min(static_cast<int32_t>(static_cast<Real>(h[base + r]) * h_scale + u), how.h_levels);
    }
    int32_t g_sum = 0, h_sum = 0;  // 64 values of 24 bits fit
    for (size_t r = 0; r < 64; ++r) {
      g_sum += gq[r];
      h_sum += hq[r];
      any[r] = (gq[r] | hq[r]) != 0;
    }
    totals.g += g_sum;
    totals.h += h_sum;
    write_digits(gq, hq, kDigits, base, planes);
    active[base / 64] = word_of_bytes(any);
  }
  return totals;
}

LBARN_TARGET QuantisedTotals quantise(size_t rows, const int32_t* g, const int32_t* h, int32_t max_g, int32_t max_h,
                                      const Quantiser& how, uint16_t* const* planes, uint64_t* active) {
  if (how.digits == 1) return quantise_rows<float, 1>(rows, g, h, max_g, max_h, how, planes, active);
  if (how.digits == 2) return quantise_rows<double, 2>(rows, g, h, max_g, max_h, how, planes, active);
  return quantise_rows<double, 4>(rows, g, h, max_g, max_h, how, planes, active);
}

template <class Integer, bool kStochastic>
LBARN_TARGET QuantisedTotals quantise_counted_rows(size_t rows, const int32_t* g, const int32_t* h,
                                                   const uint32_t* count, double max_g, double max_h,
                                                   const Quantiser& how, uint16_t* const* planes, uint64_t* active) {
  const double g_scale = max_g > 0.0 ? how.g_levels / max_g : 0.0, h_scale = max_h > 0.0 ? how.h_levels / max_h : 0.0;
  QuantisedTotals totals;
  for (size_t base = 0; base < rows; base += 64) {
    alignas(64) Integer gq[64], hq[64];
    alignas(64) uint8_t any[64];
    for (size_t r = 0; r < 64; ++r) {
      const size_t i = base + r;
      const auto random = static_cast<int32_t>(row_bits(how.key, static_cast<uint32_t>(i)) >> 16);
      const double u = kStochastic ? (static_cast<double>(random) + 0.5) / 65536 : 0.5;
      const auto times = static_cast<int32_t>(count[i]);
      const double before = kStochastic ? static_cast<double>(times) : 1.0;  // or else after rounding
      const Integer after = kStochastic ? 1 : times;
      const int32_t sign = g[i] >> 31;
      const double magnitude = static_cast<double>((g[i] ^ sign) - sign) * before;
      const int32_t g_rounded = std::min(static_cast<int32_t>(magnitude * g_scale + u), how.g_levels);
      const int32_t h_rounded =
          std::min(static_cast<int32_t>(static_cast<double>(h[i]) * before * h_scale + u), how.h_levels);
      gq[r] = static_cast<Integer>((g_rounded ^ sign) - sign) * after;
      hq[r] = static_cast<Integer>(h_rounded) * after;
    }
    for (size_t r = 0; r < 64; ++r) {
      totals.g += gq[r];
      totals.h += hq[r];
      any[r] = (gq[r] | hq[r]) != 0;
    }
    write_digits(gq, hq, how.digits, base, planes);
    active[base / 64] = word_of_bytes(any);
  }
  return totals;
}

LBARN_TARGET QuantisedTotals quantise_counted(size_t rows, const int32_t* g, const int32_t* h, const uint32_t* count,
                                              double max_g, double max_h, const Quantiser& how, uint16_t* const* planes,
                                              uint64_t* active) {
  return how.stochastic ? quantise_counted_rows<int32_t, true>(rows, g, h, count, max_g, max_h, how, planes, active)
                        : quantise_counted_rows<int64_t, false>(rows, g, h, count, max_g, max_h, how, planes, active);
}

// Rows are numbered from 0 and features from the other end, so that no two share a random number.
LBARN_TARGET void draw_features(RoundKey key, size_t count, uint32_t threshold, uint8_t* kept) {
  for (size_t j = 0; j < count; ++j) kept[j] = row_bits(key, ~static_cast<uint32_t>(j)) <= threshold;
}

// Adds all trees to the rows in kWords words.
template <size_t kWords>
LBARN_TARGET LBARN_INLINE void add_to_words(const uint64_t* columns, size_t column_words, const TreesView& trees,
                                            uint64_t* masks, int32_t* f) {
  alignas(64) uint16_t leaf[64 * kWords];
  for (size_t t = 0; t < trees.count; ++t) {
    const Tree tree = trees.tree(t);
    mask_leaves<kWords>(columns, column_words, tree, masks);
    if (tree.n_splits < Isa::LeafValues::kMasked) {
      for (size_t w = 0; w < kWords; ++w)
        Isa::LeafValues::add_masked(masks + w, kWords, tree.values, tree.n_splits + 1, f + 64 * w);
      continue;
    }
    list_leaves<kWords>(masks, tree, leaf);
    const Isa::LeafValues values(tree.values, tree.n_splits + 1);
    for (size_t r = 0; r < 64 * kWords; r += 64) values.add(leaf + r, f + r);
  }
}

LBARN_TARGET void add_trees(const Columns& columns, const TreesView& trees, int32_t* log_odds) {
  size_t most_leaves = 1;
  for (size_t t = 0; t < trees.count; ++t) most_leaves = std::max(most_leaves, trees.tree(t).n_splits + 1);
  LeafMasks masks(most_leaves);
  const size_t words = (columns.rows + 63) / 64;
  size_t w = 0;
  for (; w + 8 <= words; w += 8)
    add_to_words<8>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
  for (; w + 4 <= words; w += 4)
    add_to_words<4>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
  for (; w + 2 <= words; w += 2)
    add_to_words<2>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
  if (w < words) add_to_words<1>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
}

// exp(x) for x <= 0: 2^k exp(r) with |r| <= ln(2) / 2, by its series. 0 below -707.
LBARN_TARGET LBARN_INLINE double exp_of(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: what is added to it is rounded, and in its lowest bits
  const double clipped = x < -707.0 ? -707.0 : x;
  const double shifted = clipped * 1.4426950408889634 + kShift;
  const double k = shifted - kShift;
  const double r = (clipped - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
  double p = 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return x < -707.0 ? 0.0 : p * scale;
}

LBARN_TARGET void chances(const int32_t* log_odds, size_t count, double* zero, double* one) {
  for (size_t base = 0; base < count; base += 64) {
    alignas(64) double likely[64], unlikely[64];
    alignas(64) int32_t rest[64];
    for (size_t r = 0; r < 64; ++r)
      rest[r] = static_cast<int32_t>(softplus(log_odds[base + r]).log1p_exp * kUnits + 0.5f);
    for (size_t r = 0; r < 64; ++r) {
      const double odds = static_cast<double>(log_odds[base + r]) * kLogOddsUnit;
      const double log_likely = static_cast<double>(rest[r]) * -kUnit;
      likely[r] = exp_of(log_likely);
      unlikely[r] = exp_of(log_likely - (odds < 0.0 ? -odds : odds));
    }
    for (size_t r = 0; r < 64; ++r) {
      const bool is_zero = log_odds[base + r] < 0;
      zero[base + r] = is_zero ? likely[r] : unlikely[r];
      one[base + r] = is_zero ? unlikely[r] : likely[r];
    }
  }
}

// In a fixed order: eight sums.
LBARN_TARGET Light light_of(const double* weight, size_t count, double c) {
  constexpr size_t kLanes = 8;
  double sum[kLanes] = {};
  uint64_t heavy[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) {
      const double w = weight[i + l];
      sum[l] += w > c ? 0.0 : w;
      heavy[l] += w > c;
    }
  for (; i < count; ++i) {
    sum[0] += weight[i] > c ? 0.0 : weight[i];
    heavy[0] += weight[i] > c;
  }
  Light light{((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])), 0};
  for (const uint64_t each : heavy) light.heavy += each;
  return light;
}

// Swaps, in every pair of rows kStep apart, the bits of the first that are outside `keep` with those of the second
// that are inside.
template <size_t kStep>
LBARN_TARGET LBARN_INLINE void swap_halves(BitBlock& block, uint64_t keep) {
  constexpr size_t kRun = kStep * kBlockLanes;
  for (size_t first = 0; first < 64; first += 2 * kStep) {
    uint64_t* a = block.word[first];
    uint64_t* b = a + kRun;
    for (size_t i = 0; i < kRun; ++i) {
      const uint64_t t = (a[i] >> kStep ^ b[i]) & keep;
      a[i] ^= t << kStep;
      b[i] ^= t;
    }
  }
}

LBARN_TARGET void transpose_block(BitBlock& block) {
  swap_halves<32>(block, 0x00000000FFFFFFFFULL);
  swap_halves<16>(block, 0x0000FFFF0000FFFFULL);
  swap_halves<8>(block, 0x00FF00FF00FF00FFULL);
  swap_halves<4>(block, 0x0F0F0F0F0F0F0F0FULL);
  swap_halves<2>(block, 0x3333333333333333ULL);
  swap_halves<1>(block, 0x5555555555555555ULL);
}

constexpr Kernels kKernels = {
    Isa::kName,          histogram,     interleave_rows, histogram_of_all, best_split,      add_cells<uint16_t>,
    add_cells<uint32_t>, sum_cells,     divide_cells,    subtract_cells,   score_few,       split_mask,
    list_rows,           assign_leaves, sum_leaves,      advance,          advance_score,   quantise,
    quantise_counted,    draw_features, add_trees,       chances,          transpose_block, light_of};

}  // namespace
}  // namespace lbarn
