// What bench_histogram.py compares with: the same sums in float32, vectorised as far as one row at a time goes.
//
// A 32-bit word of a row becomes four masks of eight features; g and h, masked, are added to accumulators that stay in
// registers for a block of rows. The block is small enough to stay in the first-level cache while all its words are
// visited.
//
//   rows    n x stride bytes, feature j of a row in bit j % 32 of its word j / 32
//   g_sums  32 x words sums of g over the rows with a 1; h_sums the same for h
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#else
#define AVX2
#endif

namespace {

using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));

constexpr size_t kBlockRows = 256;

inline int32_t load(const void* from) {
  int32_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

}  // namespace

extern "C" AVX2 void float_histogram(const uint8_t* rows, size_t stride, size_t words, size_t n, const float* g,
                                     const float* h, float* g_sums, float* h_sums) {
  Ints selected[4];
  for (int v = 0; v < 4; ++v)
    for (int lane = 0; lane < 8; ++lane) selected[v][lane] = static_cast<int32_t>(1u << (8 * v + lane));
  std::fill(g_sums, g_sums + 32 * words, 0.0f);
  std::fill(h_sums, h_sums + 32 * words, 0.0f);
  for (size_t start = 0; start < n; start += kBlockRows) {
    const size_t end = std::min(start + kBlockRows, n);
    for (size_t word = 0; word < words; ++word) {
      Floats g_sum[4], h_sum[4];
      std::memcpy(g_sum, g_sums + 32 * word, sizeof g_sum);
      std::memcpy(h_sum, h_sums + 32 * word, sizeof h_sum);
      for (size_t i = start; i < end; ++i) {
        const int32_t bits = load(rows + i * stride + 4 * word), g_bits = load(g + i), h_bits = load(h + i);
        for (int v = 0; v < 4; ++v) {
          const Ints mask = (bits & selected[v]) == selected[v];
          g_sum[v] += (Floats)(mask & g_bits);
          h_sum[v] += (Floats)(mask & h_bits);
        }
      }
      std::memcpy(g_sums + 32 * word, g_sum, sizeof g_sum);
      std::memcpy(h_sums + 32 * word, h_sum, sizeof h_sum);
    }
  }
}
