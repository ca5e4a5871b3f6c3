// The byte-shuffle steps of the histogram on 32-byte vectors: two groups of four rows and 16 bytes of their bits at
// once. Included by the paths that have AVX2, after LBARN_TARGET.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "leafvalues.hpp"
#include "listing.hpp"

namespace lbarn {
namespace {

// Sums of 32 bytes in 16-bit lanes: `all` holds even + 256 * odd (mod 2^16), `odd` the odd bytes.
struct Lanes {
  __m256i all, odd;

  LBARN_TARGET LBARN_INLINE Lanes() : all(_mm256_setzero_si256()), odd(_mm256_setzero_si256()) {}

  LBARN_TARGET LBARN_INLINE void add(__m256i bytes) {
    all = _mm256_add_epi16(all, bytes);
    odd = _mm256_add_epi16(odd, _mm256_srli_epi16(bytes, 8));
  }

  // Adds the sums of byte b and byte 16 + b to sums[b].
  LBARN_TARGET LBARN_INLINE void flush(uint32_t* sums) const {
    const __m256i even = _mm256_sub_epi16(all, _mm256_slli_epi16(odd, 8));
    const __m256i e = _mm256_add_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(even)),
                                       _mm256_cvtepu16_epi32(_mm256_extracti128_si256(even, 1)));
    const __m256i o = _mm256_add_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(odd)),
                                       _mm256_cvtepu16_epi32(_mm256_extracti128_si256(odd, 1)));
    const __m256i low = _mm256_unpacklo_epi32(e, o), high = _mm256_unpackhi_epi32(e, o);
    auto* out = reinterpret_cast<__m256i*>(sums);
    _mm256_storeu_si256(out, _mm256_add_epi32(_mm256_loadu_si256(out), _mm256_permute2x128_si256(low, high, 0x20)));
    ++out;
    _mm256_storeu_si256(out, _mm256_add_epi32(_mm256_loadu_si256(out), _mm256_permute2x128_si256(low, high, 0x31)));
  }
};

struct Avx2 {
  using LeafValues = lbarn::LeafValues;
  static constexpr size_t kGroups = 2;  // of four rows that are looked up at once

  LBARN_TARGET LBARN_INLINE static __m256i two_rows(const uint8_t* low, const uint8_t* high) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
  }

  // Swaps the bits of a outside `keep` with the bits of b inside: a becomes (a & keep) | ((b & keep) << shift), and b
  // what is left of both.
  template <int kShift>
  LBARN_TARGET LBARN_INLINE static void swap_bits(__m256i& a, __m256i& b, __m256i keep) {
    const __m256i t = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi16(a, kShift), b), keep);
    b = _mm256_xor_si256(b, t);
    a = _mm256_xor_si256(a, _mm256_slli_epi16(t, kShift));
  }

  LBARN_TARGET LBARN_INLINE static void interleave(const uint8_t* const* row, size_t byte, uint8_t* out,
                                                   size_t stride) {
    __m256i r0 = two_rows(row[0] + byte, row[4] + byte), r1 = two_rows(row[1] + byte, row[5] + byte);
    __m256i r2 = two_rows(row[2] + byte, row[6] + byte), r3 = two_rows(row[3] + byte, row[7] + byte);
    const __m256i m1 = _mm256_set1_epi8(0x55), m2 = _mm256_set1_epi8(0x33);
    swap_bits<1>(r0, r1, m1);  // r0: bits 0 2 4 6 of two rows, r1: bits 1 3 5 7
    swap_bits<1>(r2, r3, m1);
    swap_bits<2>(r0, r2, m2);  // r0: bits 0 4 of four rows, r2: bits 2 6
    swap_bits<2>(r1, r3, m2);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), r0);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + stride), r1);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 2 * stride), r2);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 3 * stride), r3);
  }

  // Byte `row_byte` of each entry whose subset has that row, else zero.
  LBARN_TARGET LBARN_INLINE static __m256i chosen(__m256i digits, int row, int byte) {
    const __m256i subset = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6,
                                            7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << row));
    const __m256i absent = _mm256_cmpeq_epi8(_mm256_and_si256(subset, bit), _mm256_setzero_si256());
    const auto low = static_cast<char>(2 * row + byte);
    const __m256i from = _mm256_inserti128_si256(_mm256_set1_epi8(low), _mm_set1_epi8(static_cast<char>(low + 8)), 1);
    return _mm256_shuffle_epi8(digits, _mm256_or_si256(from, absent));
  }

  LBARN_TARGET LBARN_INLINE static void tables(const uint16_t* digits, int bias, uint8_t* g, uint8_t* h) {
    const __m256i d = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(digits)));
    const __m256i g_sum = _mm256_add_epi8(_mm256_add_epi8(chosen(d, 0, 0), chosen(d, 1, 0)),
                                          _mm256_add_epi8(chosen(d, 2, 0), chosen(d, 3, 0)));
    const __m256i h_sum = _mm256_add_epi8(_mm256_add_epi8(chosen(d, 0, 1), chosen(d, 1, 1)),
                                          _mm256_add_epi8(chosen(d, 2, 1), chosen(d, 3, 1)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(g),
                        _mm256_add_epi8(g_sum, _mm256_set1_epi8(static_cast<char>(bias))));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(h), h_sum);
  }

  // Lookups of `burst` vectors fit bytes, and are widened together.
  LBARN_TARGET LBARN_INLINE static void accumulate(const uint8_t* nibbles, const uint8_t* g, const uint8_t* h,
                                                   size_t count, size_t burst, uint32_t* g_sums, uint32_t* h_sums) {
    const __m256i low_nibble = _mm256_set1_epi8(0x0F);
    Lanes g_low, g_high, h_low, h_high;
    for (size_t first = 0; first < count; first += burst) {
      __m256i gl = _mm256_setzero_si256(), gh = gl, hl = gl, hh = gl;
      const size_t end = std::min(count, first + burst);
#pragma GCC unroll 4
      for (size_t p = first; p < end; ++p) {
        const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(nibbles + 32 * p));
        const __m256i low = _mm256_and_si256(v, low_nibble);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), low_nibble);
        const __m256i gt = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(g + 32 * p));
        gl = _mm256_add_epi8(gl, _mm256_shuffle_epi8(gt, low));
        gh = _mm256_add_epi8(gh, _mm256_shuffle_epi8(gt, high));
        const __m256i ht = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(h + 32 * p));
        hl = _mm256_add_epi8(hl, _mm256_shuffle_epi8(ht, low));
        hh = _mm256_add_epi8(hh, _mm256_shuffle_epi8(ht, high));
      }
      g_low.add(gl);
      g_high.add(gh);
      h_low.add(hl);
      h_high.add(hh);
    }
    g_low.flush(g_sums);
    g_high.flush(g_sums + 16);
    h_low.flush(h_sums);
    h_high.flush(h_sums + 16);
  }

  // The set bits of a word; writes up to 3 more than there are.
  LBARN_TARGET LBARN_INLINE static void list_bits(uint64_t bits, size_t n, uint32_t base, uint32_t* out) {
    list_four_at_a_time(bits, n, base, out);
  }

  // Rows r = 0..31 of one word: out[r] has bit p where plane p has bit r.
  LBARN_TARGET LBARN_INLINE static void leaf_indices(const uint32_t* planes, size_t stride, size_t n_planes,
                                                     uint16_t* out) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3,
                                            3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ULL));
    __m256i bytes[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t p = 0; p < n_planes; ++p) {
      const __m256i plane = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(planes[p * stride])), spread);
      const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(plane, bit), bit);
      const __m256i value = _mm256_set1_epi8(static_cast<char>(1u << (p % 8)));
      bytes[p / 8] = _mm256_or_si256(bytes[p / 8], _mm256_and_si256(set, value));
    }
    const __m256i low = _mm256_permute4x64_epi64(bytes[0], 0xD8), high = _mm256_permute4x64_epi64(bytes[1], 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_unpacklo_epi8(low, high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 16), _mm256_unpackhi_epi8(low, high));
  }
};

}  // namespace
}  // namespace lbarn
