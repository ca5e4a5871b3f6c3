// The path that every machine has.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define LBARN_TARGET

#include "leafvalues.hpp"
#include "listing.hpp"

namespace lbarn {
namespace {

struct Isa {
  using LeafValues = lbarn::LeafValues;
  static constexpr const char* kName = "portable";
  static constexpr size_t kGroups = 2;  // of four rows that are looked up at once

  static void interleave(const uint8_t* const* row, size_t byte, uint8_t* out, size_t stride) {
    for (size_t group = 0; group < 2; ++group)
      for (size_t b = 0; b < 16; ++b) {
        const unsigned r0 = row[4 * group][byte + b], r1 = row[4 * group + 1][byte + b];
        const unsigned r2 = row[4 * group + 2][byte + b], r3 = row[4 * group + 3][byte + b];
        for (size_t k = 0; k < 4; ++k)
          out[k * stride + 16 * group + b] = static_cast<uint8_t>(
              ((r0 >> k) & 0x11) | (((r1 >> k) & 0x11) << 1) | (((r2 >> k) & 0x11) << 2) | (((r3 >> k) & 0x11) << 3));
      }
  }

  static void tables(const uint16_t* digits, int bias, uint8_t* g, uint8_t* h) {
    for (size_t group = 0; group < 2; ++group)
      for (size_t subset = 0; subset < 16; ++subset) {
        unsigned g_sum = static_cast<unsigned>(bias), h_sum = 0;
        for (size_t r = 0; r < 4; ++r)
          if (subset >> r & 1) {
            g_sum += digits[4 * group + r] & 0xFF;
            h_sum += digits[4 * group + r] >> 8;
          }
        g[16 * group + subset] = static_cast<uint8_t>(g_sum);
        h[16 * group + subset] = static_cast<uint8_t>(h_sum);
      }
  }

  static void accumulate(const uint8_t* nibbles, const uint8_t* g, const uint8_t* h, size_t pairs, size_t,
                         uint32_t* g_sums, uint32_t* h_sums) {
    for (size_t half_pair = 0; half_pair < 2 * pairs; ++half_pair) {
      const uint8_t* v = nibbles + 16 * half_pair;
      const uint8_t* gt = g + 16 * half_pair;
      const uint8_t* ht = h + 16 * half_pair;
      for (size_t b = 0; b < 16; ++b) {
        g_sums[b] += gt[v[b] & 15];
        g_sums[16 + b] += gt[v[b] >> 4];
        h_sums[b] += ht[v[b] & 15];
        h_sums[16 + b] += ht[v[b] >> 4];
      }
    }
  }

  // The set bits of a word; writes up to 3 more than there are.
  static void list_bits(uint64_t bits, size_t n, uint32_t base, uint32_t* out) {
    list_four_at_a_time(bits, n, base, out);
  }

  // Rows r = 0..31 of one word: out[r] has bit p where plane p has bit r.
  static void leaf_indices(const uint32_t* planes, size_t stride, size_t n_planes, uint16_t* out) {
    uint16_t index[32] = {};
    for (size_t p = 0; p < n_planes; ++p) {
      const uint32_t plane = planes[p * stride];
      for (size_t r = 0; r < 32; ++r) index[r] = static_cast<uint16_t>(index[r] | ((plane >> r & 1u) << p));
    }
    std::memcpy(out, index, sizeof index);
  }
};

}  // namespace
}  // namespace lbarn

#include "kernels_body.hpp"

namespace lbarn {
const Kernels& portable_kernels() { return kKernels; }
}  // namespace lbarn
