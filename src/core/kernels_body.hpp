// The kernels' bodies. Each SIMD path includes this once, after defining LBARN_TARGET (its function attributes) and
// its `Isa` (the three byte-shuffle steps of the histogram). Everything else is plain C++ that the compiler vectorises.
//
// The histogram, for 8 rows (two groups of 4) and 128 features at a time:
//
//   rows      r0..r3 | r4..r7, 16 bytes each
//   nibbles   4 vectors of 32 bytes: byte b of vector k holds the bits of features 8b + k (low nibble) and 8b + 4 + k
//             (high nibble) of r0..r3 in bytes 0..15, of r4..r7 in bytes 16..31
//   tables    16 bytes per group: entry s is the sum of g (plus 128 for the signed digit) or h over the subset s of its
//   4 rows sums      [g, h][chunk][k][low, high][byte], 32 bits: the scan order
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.hpp"
#include "logistic.hpp"

namespace lbarn {
namespace {

constexpr size_t kPairs = 256;            // pairs of groups per block: 256 x 255 fits 16 bits
constexpr size_t kScanRows = 8 * kPairs;  // rows per block
constexpr size_t kNibbleStride =
    32 * kPairs + 64;           // from vector to vector: not a power of two, so that they do not share cache sets
constexpr size_t kChunk = 128;  // features per chunk
constexpr size_t kAhead = 8;    // pairs of groups from a hint to its use

LBARN_TARGET void histogram(const Rows& rows, uint32_t* index, size_t count, const DigitPlanes& planes,
                            HistogramScratch& scratch, double* g, double* h) {
  const size_t chunks = rows.width / kScanBytes;
  const size_t vectors = 4 * chunks;
  const size_t slots = chunks * kChunk;
  scratch.nibbles.resize(vectors * kNibbleStride);
  scratch.g_tables.resize(kPairs * 32);
  scratch.h_tables.resize(kPairs * 32);
  scratch.picked.resize(kScanRows);
  scratch.sums.assign(planes.digits * 2 * slots, 0);
  std::fill(index + count, index + count + 8, count ? index[count - 1] : 0);  // their digits are made zero below

  for (size_t first = 0; first < count; first += kScanRows) {
    const size_t n = std::min(kScanRows, count - first);
    const size_t pairs = (n + 7) / 8;
    const uint32_t* block = index + first;
    for (size_t p = 0; p < pairs; ++p) {
      const uint8_t* row[8];
      for (size_t r = 0; r < 8; ++r) row[r] = rows.row(block[8 * p + r]);
      // Listed rows lie anywhere: without a hint much time would go into waiting for them.
      if (p + kAhead < pairs)
        for (size_t r = 0; r < 8; ++r) {
          const uint8_t* later = rows.row(block[8 * (p + kAhead) + r]);
          for (size_t byte = 0; byte < rows.width; byte += kCacheLine) __builtin_prefetch(later + byte);
        }
      for (size_t c = 0; c < chunks; ++c)
        Isa::interleave(row, kScanBytes * c, scratch.nibbles.data() + 4 * c * kNibbleStride + 32 * p, kNibbleStride);
    }
    for (int digit = 0; digit < planes.digits; ++digit) {
      const uint16_t* plane = planes.plane[digit];
      for (size_t r = 0; r < n; ++r) scratch.picked[r] = plane[block[r]];
      std::fill(scratch.picked.begin() + n, scratch.picked.begin() + 8 * pairs, uint16_t{0});
      for (size_t p = 0; p < pairs; ++p)
        Isa::tables(scratch.picked.data() + 8 * p, digit == planes.digits - 1 ? 128 : 0,
                    scratch.g_tables.data() + 32 * p, scratch.h_tables.data() + 32 * p);
      uint32_t* g_sums = scratch.sums.data() + digit * 2 * slots;
      for (size_t v = 0; v < vectors; ++v)
        Isa::accumulate(scratch.nibbles.data() + v * kNibbleStride, scratch.g_tables.data(), scratch.h_tables.data(),
                        pairs, g_sums + 32 * v, g_sums + slots + 32 * v);
    }
  }

  // Each group has put the bias of the signed digit, 128, into every one of its sums. Blocks but the last are full.
  const double bias = 128.0 * static_cast<double>((count + 7) / 8 * 2);
  double unit = 1.0;
  for (int digit = 0; digit < planes.digits; ++digit, unit *= 64.0) {
    const uint32_t* g_sums = scratch.sums.data() + digit * 2 * slots;
    const double digit_bias = digit == planes.digits - 1 ? bias : 0.0;
    if (digit == 0) {
      for (size_t s = 0; s < slots; ++s) g[s] = static_cast<double>(static_cast<int32_t>(g_sums[s])) - digit_bias;
      for (size_t s = 0; s < slots; ++s) h[s] = static_cast<double>(static_cast<int32_t>(g_sums[slots + s]));
    } else {
      for (size_t s = 0; s < slots; ++s)
        g[s] += unit * (static_cast<double>(static_cast<int32_t>(g_sums[s])) - digit_bias);
      for (size_t s = 0; s < slots; ++s) h[s] += unit * static_cast<double>(static_cast<int32_t>(g_sums[slots + s]));
    }
  }
}

LBARN_INLINE int64_t bits_of(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

LBARN_TARGET BestSplit best_split(const double* g, const double* h, size_t slots, double G, double H, double l2,
                                  double* scratch) {
  for (size_t j = 0; j < slots; ++j) scratch[j] = split_score(g[j], h[j], G, H, l2);
  int64_t best = 0;  // scores are not negative, so their bits are ordered as they are
  for (size_t j = 0; j < slots; ++j) best = std::max(best, bits_of(scratch[j]));
  BestSplit split;
  if (best == 0) return split;
  split.feature = UINT32_MAX;
  for (size_t j = 0; j < slots; ++j)
    if (bits_of(scratch[j]) == best) split.feature = std::min(split.feature, static_cast<uint32_t>(feature_of_slot(j)));
  std::memcpy(&split.score, &best, sizeof split.score);
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

// Vectors that every compiler in question lowers to what the path has.
typedef uint64_t SumVector __attribute__((vector_size(32)));
typedef int32_t IntVector __attribute__((vector_size(32)));
typedef float FloatVector __attribute__((vector_size(32)));

// Scores in single precision of one row of cells, in two halves: within 2^-19 of what they are.
LBARN_TARGET LBARN_INLINE void score_cells(const SumVector& low, const SumVector& high, const CellNode& node,
                                           const CellScores& position, IntVector& best) {
  IntVector a, b, at;
  std::memcpy(&a, &low, sizeof a);
  std::memcpy(&b, &high, sizeof b);
  std::memcpy(&at, &position, sizeof at);
#if defined(__clang__)
  const IntVector h1 = __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
  const IntVector g1 = __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
#else
  const IntVector h1 = __builtin_shuffle(a, b, IntVector{0, 2, 8, 10, 4, 6, 12, 14});
  const IntVector g1 = __builtin_shuffle(a, b, IntVector{1, 3, 9, 11, 5, 7, 13, 15});
#endif
  const IntVector g0 = node.g - g1, h0 = node.h - h1;
  const FloatVector fg1 = __builtin_convertvector(g1, FloatVector), fg0 = __builtin_convertvector(g0, FloatVector);
  const FloatVector fa = __builtin_convertvector(h0, FloatVector) + node.l2;
  const FloatVector fb = __builtin_convertvector(h1, FloatVector) + node.l2;
  const FloatVector score = (fg0 * fg0 * fb + fg1 * fg1 * fa) / (fa * fb);
  IntVector bits;
  std::memcpy(&bits, &score, sizeof bits);
  bits &= (at > -1) & (h0 > 0) & (h1 > 0);
  best = bits > best ? bits : best;  // scores are not negative, so their bits are ordered as they are
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
      own_all = own_best > own_all ? own_best : own_all;
    }
    if (kRest) {
      std::memcpy(rest_scores + c, &rest_best, sizeof rest_best);
      rest_all = rest_best > rest_all ? rest_best : rest_all;
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

typedef int16_t ShortVector __attribute__((vector_size(32)));

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
    few.scores[e] = (h0 > 0) & (h1 > 0) ? bits : 0;
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
  for (size_t w = 0; w < words; ++w) count += static_cast<size_t>(__builtin_popcountll(ones[w]));
  return count;
}

LBARN_TARGET size_t list_rows(const uint64_t* mask, size_t words, uint32_t* out) {
  size_t count = 0;
  for (size_t w = 0; w < words; ++w) {
    uint64_t bits = mask[w];
    if (bits == 0) continue;
    const auto base = static_cast<uint32_t>(64 * w);
    const auto n = static_cast<size_t>(__builtin_popcountll(bits));
    // Four at a time without asking whether there are so many: what is written past the end is written over.
    for (size_t i = 0; i < n; i += 4)
      for (size_t j = 0; j < 4; ++j) {
        out[count + i + j] = base + static_cast<uint32_t>(__builtin_ctzll(bits | uint64_t{1} << 63));
        bits &= bits - 1;
      }
    count += n;
  }
  return count;
}

constexpr size_t kMaxPlanes = 16;
constexpr size_t kStackLeaves = 256;

// The leaf of each of the rows in kWords words. `masks` has room for so many words per leaf.
template <size_t kWords>
LBARN_TARGET LBARN_INLINE void assign_words(const uint64_t* columns, size_t column_words, const Tree& tree,
                                            uint64_t* masks, uint16_t* leaf) {
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

LBARN_TARGET void sum_leaves(const RowState& state, const uint16_t* leaf, size_t leaves, LeafSum* sums) {
  // Two sets of sums, so that neighbours in the same leaf do not wait for each other.
  std::vector<LeafSum> other(leaves);
  std::fill(sums, sums + leaves, LeafSum{});
  const size_t padded = (state.rows + 1) / 2 * 2;
  for (size_t i = 0; i < padded; i += 2) {
    LeafSum& a = sums[leaf[i]];
    a.g += state.g[i];
    a.h += state.h[i];
    LeafSum& b = other[leaf[i + 1]];
    b.g += state.g[i + 1];
    b.h += state.h[i + 1];
  }
  for (size_t l = 0; l < leaves; ++l) {
    sums[l].g += other[l].g;
    sums[l].h += other[l].h;
  }
}

// One 64-row word of advance.
template <bool kGradients, bool kWeighted>
LBARN_TARGET LBARN_INLINE void advance_word(const RowState& state, size_t base, const uint16_t* leaf,
                                            const int32_t* values, RoundSummary& summary) {
  int32_t* log_odds = state.log_odds + base;
  for (size_t r = 0; r < 64; ++r) log_odds[r] += values[leaf[base + r]];

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
    std::memcpy(state.g + base, g, sizeof g);
    std::memcpy(state.h + base, h, sizeof h);
  }
}

template <bool kGradients>
LBARN_TARGET RoundSummary advance_rows(const RowState& state, const uint16_t* leaf, const int32_t* values) {
  RoundSummary summary;
  if (state.weight)
    for (size_t base = 0; base < state.rows; base += 64)
      advance_word<kGradients, true>(state, base, leaf, values, summary);
  else
    for (size_t base = 0; base < state.rows; base += 64)
      advance_word<kGradients, false>(state, base, leaf, values, summary);
  return summary;
}

LBARN_TARGET RoundSummary advance(const RowState& state, const uint16_t* leaf, const int32_t* values) {
  return advance_rows<true>(state, leaf, values);
}

LBARN_TARGET int64_t advance_score(const RowState& state, const uint16_t* leaf, const int32_t* values) {
  return advance_rows<false>(state, leaf, values).log_likelihood;
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
    for (int k = 0; k < kDigits; ++k) {
      const bool top = k == kDigits - 1;
      uint16_t* plane = planes[k] + base;
      for (size_t r = 0; r < 64; ++r) {
        const int32_t gd = top ? (gq[r] >> (6 * k)) & 0xFF : (gq[r] >> (6 * k)) & 63;
        const int32_t hd = (hq[r] >> (6 * k)) & 63;
        plane[r] = static_cast<uint16_t>(gd | (hd << 8));
      }
    }
    uint64_t word = 0;
    for (size_t r8 = 0; r8 < 8; ++r8) {
      uint64_t bytes;
      std::memcpy(&bytes, any + 8 * r8, 8);
      word |= ((bytes * 0x0102040810204080ULL) >> 56) << (8 * r8);
    }
    active[base / 64] = word;
  }
  return totals;
}

LBARN_TARGET QuantisedTotals quantise(size_t rows, const int32_t* g, const int32_t* h, int32_t max_g, int32_t max_h,
                                      const Quantiser& how, uint16_t* const* planes, uint64_t* active) {
  if (how.digits == 1) return quantise_rows<float, 1>(rows, g, h, max_g, max_h, how, planes, active);
  if (how.digits == 2) return quantise_rows<double, 2>(rows, g, h, max_g, max_h, how, planes, active);
  return quantise_rows<double, 4>(rows, g, h, max_g, max_h, how, planes, active);
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
    assign_words<kWords>(columns, column_words, tree, masks, leaf);
    for (size_t r = 0; r < 64 * kWords; ++r) f[r] += tree.values[leaf[r]];
  }
}

LBARN_TARGET void add_trees(const Columns& columns, const TreesView& trees, int32_t* log_odds) {
  size_t most_leaves = 1;
  for (size_t t = 0; t < trees.count; ++t) most_leaves = std::max(most_leaves, trees.tree(t).n_splits + 1);
  LeafMasks masks(most_leaves);
  size_t w = 0;
  for (; w + 8 <= columns.words; w += 8)
    add_to_words<8>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
  for (; w + 4 <= columns.words; w += 4)
    add_to_words<4>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
  for (; w + 2 <= columns.words; w += 2)
    add_to_words<2>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
  if (w < columns.words) add_to_words<1>(columns.data + w, columns.words, trees, masks.data(), log_odds + 64 * w);
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

constexpr Kernels kKernels = {Isa::kName,          histogram,  best_split,    add_cells<uint16_t>,
                              add_cells<uint32_t>, sum_cells,  divide_cells,  subtract_cells,
                              score_few,           split_mask, list_rows,     assign_leaves,
                              sum_leaves,          advance,    advance_score, quantise,
                              draw_features,       add_trees,  chances,       transpose_block};

}  // namespace
}  // namespace lbarn
