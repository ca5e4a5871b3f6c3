// The NEON path: the same steps on 16-byte vectors, with the widening add that AVX2 lacks.
#include "inline.hpp"

#if LBARN_NEON

#include <arm_neon.h>

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
  static constexpr const char* kName = "neon";
  static constexpr size_t kGroups = 2;  // of four rows that are looked up at once

  template <int kShift>
  static void butterfly(uint8x16_t a, uint8x16_t b, uint8x16_t keep, uint8x16_t& low, uint8x16_t& high) {
    low = vorrq_u8(vandq_u8(a, keep), vshlq_n_u8(vandq_u8(b, keep), kShift));
    high = vorrq_u8(vandq_u8(vshrq_n_u8(a, kShift), keep), vbicq_u8(b, keep));
  }

  static void interleave(const uint8_t* const* row, size_t byte, uint8_t* out, size_t stride) {
    const uint8x16_t m1 = vdupq_n_u8(0x55), m2 = vdupq_n_u8(0x33);
    for (size_t group = 0; group < 2; ++group, row += 4, out += 16) {
      uint8x16_t even01, odd01, even23, odd23, v0, v1, v2, v3;
      butterfly<1>(vld1q_u8(row[0] + byte), vld1q_u8(row[1] + byte), m1, even01, odd01);
      butterfly<1>(vld1q_u8(row[2] + byte), vld1q_u8(row[3] + byte), m1, even23, odd23);
      butterfly<2>(even01, even23, m2, v0, v2);
      butterfly<2>(odd01, odd23, m2, v1, v3);
      vst1q_u8(out, v0);
      vst1q_u8(out + stride, v1);
      vst1q_u8(out + 2 * stride, v2);
      vst1q_u8(out + 3 * stride, v3);
    }
  }

  static void tables(const uint16_t* digits, int bias, uint8_t* g, uint8_t* h) {
    static const uint8_t kSubset[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const uint8x16_t subset = vld1q_u8(kSubset);
    for (size_t group = 0; group < 2; ++group) {
      uint8x16_t g_sum = vdupq_n_u8(static_cast<uint8_t>(bias)), h_sum = vdupq_n_u8(0);
      for (size_t r = 0; r < 4; ++r) {
        const uint8x16_t has = vtstq_u8(subset, vdupq_n_u8(static_cast<uint8_t>(1u << r)));
        const uint16_t digit = digits[4 * group + r];
        g_sum = vaddq_u8(g_sum, vandq_u8(has, vdupq_n_u8(static_cast<uint8_t>(digit))));
        h_sum = vaddq_u8(h_sum, vandq_u8(has, vdupq_n_u8(static_cast<uint8_t>(digit >> 8))));
      }
      vst1q_u8(g + 16 * group, g_sum);
      vst1q_u8(h + 16 * group, h_sum);
    }
  }

  static void flush(uint16x8_t low, uint16x8_t high, uint32_t* sums) {
    vst1q_u32(sums, vaddw_u16(vld1q_u32(sums), vget_low_u16(low)));
    vst1q_u32(sums + 4, vaddw_high_u16(vld1q_u32(sums + 4), low));
    vst1q_u32(sums + 8, vaddw_u16(vld1q_u32(sums + 8), vget_low_u16(high)));
    vst1q_u32(sums + 12, vaddw_high_u16(vld1q_u32(sums + 12), high));
  }

  static void accumulate(const uint8_t* nibbles, const uint8_t* g, const uint8_t* h, size_t pairs, size_t,
                         uint32_t* g_sums, uint32_t* h_sums) {
    const uint8x16_t low_nibble = vdupq_n_u8(0x0F);
    for (size_t group = 0; group < 2; ++group) {
      uint16x8_t sum[8];
      for (auto& s : sum) s = vdupq_n_u16(0);
      for (size_t p = 0; p < pairs; ++p) {
        const size_t at = 32 * p + 16 * group;
        const uint8x16_t v = vld1q_u8(nibbles + at), gt = vld1q_u8(g + at), ht = vld1q_u8(h + at);
        const uint8x16_t low = vandq_u8(v, low_nibble), high = vshrq_n_u8(v, 4);
        const uint8x16_t looked_up[4] = {vqtbl1q_u8(gt, low), vqtbl1q_u8(gt, high), vqtbl1q_u8(ht, low),
                                         vqtbl1q_u8(ht, high)};
        for (size_t i = 0; i < 4; ++i) {
          sum[2 * i] = vaddw_u8(sum[2 * i], vget_low_u8(looked_up[i]));
          sum[2 * i + 1] = vaddw_high_u8(sum[2 * i + 1], looked_up[i]);
        }
      }
      for (size_t i = 0; i < 4; ++i) flush(sum[2 * i], sum[2 * i + 1], (i < 2 ? g_sums : h_sums) + 16 * (i % 2));
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
const Kernels& neon_kernels() { return kKernels; }
}  // namespace lbarn

#endif
