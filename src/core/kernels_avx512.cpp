// The AVX-512 path: 32 features x 4 rows x 4 groups per byte shuffle, and rows listed 16 at a time.
#include "inline.hpp"

#if LBARN_AVX2

#if defined(__clang__)  // which knows no preferred width here
#define LBARN_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,popcnt")))
#else
// GCC takes what its own intrinsics leave undefined for a mistake (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#define LBARN_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,popcnt,prefer-vector-width=512")))
#endif

#include "isa_avx2.hpp"

namespace lbarn {
namespace {

// Sums of 64 bytes in 16-bit lanes, as in Lanes.
struct WideLanes {
  __m512i all, odd;

  LBARN_TARGET LBARN_INLINE WideLanes() : all(_mm512_setzero_si512()), odd(_mm512_setzero_si512()) {}

  LBARN_TARGET LBARN_INLINE void add(__m512i bytes) {
    all = _mm512_add_epi16(all, bytes);
    odd = _mm512_add_epi16(odd, _mm512_srli_epi16(bytes, 8));
  }

  // Adds the sums of bytes b, 16 + b, 32 + b and 48 + b to sums[b].
  LBARN_TARGET LBARN_INLINE void flush(uint32_t* sums) const {
    const __m512i even = _mm512_sub_epi16(all, _mm512_slli_epi16(odd, 8));
    const __m256i e = four_groups(even), o = four_groups(odd);
    const __m256i low = _mm256_unpacklo_epi32(e, o), high = _mm256_unpackhi_epi32(e, o);
    auto* out = reinterpret_cast<__m256i*>(sums);
    _mm256_storeu_si256(out, _mm256_add_epi32(_mm256_loadu_si256(out), _mm256_permute2x128_si256(low, high, 0x20)));
    ++out;
    _mm256_storeu_si256(out, _mm256_add_epi32(_mm256_loadu_si256(out), _mm256_permute2x128_si256(low, high, 0x31)));
  }

 private:
  LBARN_TARGET LBARN_INLINE static __m256i four_groups(__m512i x) {
    const __m512i sum = _mm512_add_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(x)),
                                         _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1)));
    return _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
  }
};

// Up to 64 values are four registers, and 16 rows look theirs up at once.
class WideLeafValues {
 public:
  static constexpr size_t kMasked = 32;

  LBARN_TARGET WideLeafValues(const int32_t* values, size_t leaves) : any_(values, leaves), few_(leaves <= 64) {
    for (size_t k = 0; few_ && k < 4; ++k) {
      const size_t left = leaves > 16 * k ? std::min<size_t>(16, leaves - 16 * k) : 0;
      tables_[k] = _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << left) - 1u), values + 16 * k);
    }
  }

  LBARN_TARGET LBARN_INLINE void add(const uint16_t* leaf, int32_t* log_odds) const {
    if (!few_) return any_.add(leaf, log_odds);
    for (size_t r = 0; r < 64; r += 16) {
      const __m512i own = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(leaf + r)));
      const __m512i first = _mm512_permutex2var_epi32(tables_[0], own, tables_[1]);
      const __m512i rest = _mm512_permutex2var_epi32(tables_[2], own, tables_[3]);
      const __mmask16 high = _mm512_test_epi32_mask(own, _mm512_set1_epi32(32));
      const __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(log_odds + r), _mm512_mask_mov_epi32(first, high, rest));
      _mm512_storeu_si512(log_odds + r, sum);
    }
  }

  LBARN_TARGET LBARN_INLINE static void add_masked(const uint64_t* masks, size_t stride, const int32_t* values,
                                                   size_t leaves, int32_t* log_odds) {
    // The leaf of 64 rows in a byte each, and then 16 of them look up its value.
    const __m512i one = _mm512_set1_epi8(1);
    __m512i number = one, leaf = _mm512_setzero_si512();
    for (size_t l = 1; l < leaves; ++l) {
      leaf = _mm512_mask_mov_epi8(leaf, static_cast<__mmask64>(masks[l * stride]), number);
      number = _mm512_add_epi8(number, one);
    }
    const Tables tables{_mm512_maskz_loadu_epi32(first_of(leaves), values),
                        leaves > 16 ? _mm512_maskz_loadu_epi32(first_of(leaves - 16), values + 16) : one};
    add_looked_up(tables, _mm512_castsi512_si128(leaf), log_odds);
    add_looked_up(tables, _mm512_extracti32x4_epi32(leaf, 1), log_odds + 16);
    add_looked_up(tables, _mm512_extracti32x4_epi32(leaf, 2), log_odds + 32);
    add_looked_up(tables, _mm512_extracti32x4_epi32(leaf, 3), log_odds + 48);
  }

 private:
  struct Tables {
    __m512i low, high;
  };

  LBARN_TARGET LBARN_INLINE static __mmask16 first_of(size_t count) {
    return static_cast<__mmask16>((uint64_t{1} << std::min<size_t>(count, 16)) - 1u);
  }

  LBARN_TARGET LBARN_INLINE static void add_looked_up(const Tables& tables, __m128i leaf, int32_t* log_odds) {
    const __m512i value = _mm512_permutex2var_epi32(tables.low, _mm512_cvtepu8_epi32(leaf), tables.high);
    _mm512_storeu_si512(log_odds, _mm512_add_epi32(_mm512_loadu_si512(log_odds), value));
  }

  LeafValues any_;
  bool few_;
  __m512i tables_[4];
};

struct Isa : Avx2 {
  using LeafValues = WideLeafValues;
  static constexpr const char* kName = "avx512";
  static constexpr size_t kGroups = 4;

  LBARN_TARGET LBARN_INLINE static __m512i four_rows(const uint8_t* const* row, size_t r, size_t byte) {
    __m512i rows = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row[r] + byte)));
    rows = _mm512_inserti32x4(rows, _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[r + 4] + byte)), 1);
    rows = _mm512_inserti32x4(rows, _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[r + 8] + byte)), 2);
    return _mm512_inserti32x4(rows, _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[r + 12] + byte)), 3);
  }

  template <int kShift>
  LBARN_TARGET LBARN_INLINE static void swap_wide(__m512i& a, __m512i& b, __m512i keep) {
    // (a >> shift ^ b) & keep
    const __m512i t = _mm512_ternarylogic_epi64(_mm512_srli_epi16(a, kShift), b, keep, 0x28);
    b = _mm512_xor_si512(b, t);
    a = _mm512_xor_si512(a, _mm512_slli_epi16(t, kShift));
  }

  LBARN_TARGET LBARN_INLINE static void interleave(const uint8_t* const* row, size_t byte, uint8_t* out,
                                                   size_t stride) {
    __m512i r0 = four_rows(row, 0, byte), r1 = four_rows(row, 1, byte);
    __m512i r2 = four_rows(row, 2, byte), r3 = four_rows(row, 3, byte);
    const __m512i m1 = _mm512_set1_epi8(0x55), m2 = _mm512_set1_epi8(0x33);
    swap_wide<1>(r0, r1, m1);
    swap_wide<1>(r2, r3, m1);
    swap_wide<2>(r0, r2, m2);
    swap_wide<2>(r1, r3, m2);
    _mm512_storeu_si512(out, r0);
    _mm512_storeu_si512(out + stride, r1);
    _mm512_storeu_si512(out + 2 * stride, r2);
    _mm512_storeu_si512(out + 3 * stride, r3);
  }

  // Byte 2 row + byte of each group's digits in the entries whose subset has that row, else zero.
  LBARN_TARGET LBARN_INLINE static __m512i chosen_wide(__m512i digits, int row, int byte) {
    const auto subsets = static_cast<uint64_t>(row == 0 ? 0xAAAA : row == 1 ? 0xCCCC : row == 2 ? 0xF0F0 : 0xFF00);
    const __mmask64 has = subsets * 0x0001000100010001ULL;
    return _mm512_maskz_shuffle_epi8(has, digits, _mm512_set1_epi8(static_cast<char>(2 * row + byte)));
  }

  LBARN_TARGET LBARN_INLINE static void tables(const uint16_t* digits, int bias, uint8_t* g, uint8_t* h) {
    // Each group's four digits, eight bytes, in a lane of its own.
    const __m256i packed = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(digits));
    const __m512i d =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), _mm512_castsi256_si512(packed));
    const __m512i g_sum = _mm512_add_epi8(_mm512_add_epi8(chosen_wide(d, 0, 0), chosen_wide(d, 1, 0)),
                                          _mm512_add_epi8(chosen_wide(d, 2, 0), chosen_wide(d, 3, 0)));
    const __m512i h_sum = _mm512_add_epi8(_mm512_add_epi8(chosen_wide(d, 0, 1), chosen_wide(d, 1, 1)),
                                          _mm512_add_epi8(chosen_wide(d, 2, 1), chosen_wide(d, 3, 1)));
    _mm512_storeu_si512(g, _mm512_add_epi8(g_sum, _mm512_set1_epi8(static_cast<char>(bias))));
    _mm512_storeu_si512(h, h_sum);
  }

  LBARN_TARGET LBARN_INLINE static void accumulate(const uint8_t* nibbles, const uint8_t* g, const uint8_t* h,
                                                   size_t count, size_t burst, uint32_t* g_sums, uint32_t* h_sums) {
    const __m512i low_nibble = _mm512_set1_epi8(0x0F);
    WideLanes g_low, g_high, h_low, h_high;
    for (size_t first = 0; first < count; first += burst) {
      __m512i gl = _mm512_setzero_si512(), gh = gl, hl = gl, hh = gl;
      const size_t end = std::min(count, first + burst);
#pragma GCC unroll 4
      for (size_t p = first; p < end; ++p) {
        const __m512i v = _mm512_loadu_si512(nibbles + 64 * p);
        const __m512i low = _mm512_and_si512(v, low_nibble);
        const __m512i high = _mm512_and_si512(_mm512_srli_epi16(v, 4), low_nibble);
        const __m512i gt = _mm512_loadu_si512(g + 64 * p);
        gl = _mm512_add_epi8(gl, _mm512_shuffle_epi8(gt, low));
        gh = _mm512_add_epi8(gh, _mm512_shuffle_epi8(gt, high));
        const __m512i ht = _mm512_loadu_si512(h + 64 * p);
        hl = _mm512_add_epi8(hl, _mm512_shuffle_epi8(ht, low));
        hh = _mm512_add_epi8(hh, _mm512_shuffle_epi8(ht, high));
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

  // The set bits of a word; writes up to 15 more than there are.
  LBARN_TARGET LBARN_INLINE static void list_bits(uint64_t bits, size_t, uint32_t base, uint32_t* out) {
    __m512i numbers = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                       _mm512_set1_epi32(static_cast<int32_t>(base)));
    for (int quarter = 0; quarter < 4; ++quarter, bits >>= 16) {
      const auto mask = static_cast<__mmask16>(bits);
      _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(mask, numbers));
      out += popcount(mask);
      numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
    }
  }
};

}  // namespace
}  // namespace lbarn

#include "kernels_body.hpp"

namespace lbarn {
const Kernels& avx512_kernels() { return kKernels; }
}  // namespace lbarn

#endif
