// What compilers spell differently: inlining into every SIMD path's kernels, and a few instructions. GCC and Clang
// (also as clang-cl) have extensions for them; any other compiler takes the plain C++ beside them, and so do these with
// LBARN_PLAIN, by which it is tested.
#pragma once

#include <cstddef>
#include <cstdint>

#if (defined(__GNUC__) || defined(__clang__)) && !defined(LBARN_PLAIN)
#define LBARN_EXTENSIONS 1
#define LBARN_INLINE inline __attribute__((always_inline))
#else
#define LBARN_EXTENSIONS 0
#define LBARN_INLINE inline
#endif

// GCC does not align stacks for AVX on Windows (its bug 54412).
#if LBARN_EXTENSIONS && defined(__x86_64__) && (defined(__clang__) || !defined(_WIN32))
#define LBARN_AVX2 1
#else
#define LBARN_AVX2 0
#endif

#if LBARN_EXTENSIONS && defined(__aarch64__)
#define LBARN_NEON 1
#else
#define LBARN_NEON 0
#endif

namespace lbarn {

// As inlined functions they are compiled with the instructions of the path that calls them.
#if LBARN_EXTENSIONS
LBARN_INLINE size_t popcount(uint64_t word) { return static_cast<size_t>(__builtin_popcountll(word)); }
LBARN_INLINE uint32_t lowest_bit(uint64_t word) { return static_cast<uint32_t>(__builtin_ctzll(word)); }
LBARN_INLINE void prefetch(const void* address) { __builtin_prefetch(address); }
#else
inline size_t popcount(uint64_t word) {
  word -= word >> 1 & 0x5555555555555555ULL;
  word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
  word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0FULL;
  return static_cast<size_t>(word * 0x0101010101010101ULL >> 56);
}
inline uint32_t lowest_bit(uint64_t word) { return static_cast<uint32_t>(popcount(~word & (word - 1))); }
inline void prefetch(const void*) {}
#endif

}  // namespace lbarn
