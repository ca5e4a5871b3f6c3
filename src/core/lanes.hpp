// Vectors of 32 bytes. GCC and Clang lower theirs to what the path has; for other compilers there is the same in plain
// C++. Included by each SIMD path, after LBARN_TARGET.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "inline.hpp"

namespace lbarn {
namespace {

#if LBARN_EXTENSIONS

typedef uint64_t SumVector __attribute__((vector_size(32)));
typedef int32_t IntVector __attribute__((vector_size(32)));
typedef float FloatVector __attribute__((vector_size(32)));
typedef int16_t ShortVector __attribute__((vector_size(32)));

// Results are parameters: how a vector is returned depends on the path.
LBARN_TARGET LBARN_INLINE void convert(const IntVector& x, FloatVector& result) {
  result = __builtin_convertvector(x, FloatVector);
}
LBARN_TARGET LBARN_INLINE void keep_larger(const IntVector& x, IntVector& best) { best = x > best ? x : best; }

#else

// A comparison gives all ones where it holds; a number stands for as many of itself.
template <class T>
struct Lanes {
  static constexpr size_t kCount = 32 / sizeof(T);
  T lane[kCount];

  Lanes() = default;
  Lanes(T value) {
    for (T& own : lane) own = value;
  }

  template <class Operation>
  static Lanes each(const Lanes& x, const Lanes& y, Operation operation) {
    Lanes result;
    for (size_t i = 0; i < kCount; ++i) result.lane[i] = static_cast<T>(operation(x.lane[i], y.lane[i]));
    return result;
  }

  friend Lanes operator+(const Lanes& x, const Lanes& y) {
    return each(x, y, [](T a, T b) { return a + b; });
  }
  friend Lanes operator-(const Lanes& x, const Lanes& y) {
    return each(x, y, [](T a, T b) { return a - b; });
  }
  friend Lanes operator*(const Lanes& x, const Lanes& y) {
    return each(x, y, [](T a, T b) { return a * b; });
  }
  friend Lanes operator/(const Lanes& x, const Lanes& y) {
    return each(x, y, [](T a, T b) { return a / b; });
  }
  friend Lanes operator&(const Lanes& x, const Lanes& y) {
    return each(x, y, [](T a, T b) { return a & b; });
  }
  friend Lanes operator>(const Lanes& x, const Lanes& y) {
    return each(x, y, [](T a, T b) { return -(a > b); });
  }
  friend Lanes operator>=(const Lanes& x, const Lanes& y) {
    return each(x, y, [](T a, T b) { return -(a >= b); });
  }
  Lanes& operator+=(const Lanes& y) { return *this = *this + y; }
  Lanes& operator-=(const Lanes& y) { return *this = *this - y; }
  Lanes& operator&=(const Lanes& y) { return *this = *this & y; }
};

using SumVector = Lanes<uint64_t>;
using IntVector = Lanes<int32_t>;
using FloatVector = Lanes<float>;
using ShortVector = Lanes<int16_t>;

inline void convert(const IntVector& x, FloatVector& result) {
  for (size_t i = 0; i < IntVector::kCount; ++i) result.lane[i] = static_cast<float>(x.lane[i]);
}
inline void keep_larger(const IntVector& x, IntVector& best) {
  best = IntVector::each(x, best, [](int32_t a, int32_t b) { return a > b ? a : b; });
}

#endif

// The two halves of eight sums, g 2^32 + h each. Their order is that of one instruction per half: 0 1 4 5 2 3 6 7.
LBARN_TARGET LBARN_INLINE void unpack_sums(const SumVector& low, const SumVector& high, IntVector& g, IntVector& h) {
#if LBARN_EXTENSIONS
  IntVector a, b;
  std::memcpy(&a, &low, sizeof a);
  std::memcpy(&b, &high, sizeof b);
#if defined(__clang__)
  h = __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
  g = __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
#else
  h = __builtin_shuffle(a, b, IntVector{0, 2, 8, 10, 4, 6, 12, 14});
  g = __builtin_shuffle(a, b, IntVector{1, 3, 9, 11, 5, 7, 13, 15});
#endif
#else
  for (size_t i = 0; i < 8; ++i) {
    const uint64_t sum = (i % 4 < 2 ? low : high).lane[i / 4 * 2 + i % 2];
    h.lane[i] = static_cast<int32_t>(static_cast<uint32_t>(sum));
    g.lane[i] = static_cast<int32_t>(static_cast<uint32_t>(sum >> 32));
  }
#endif
}

}  // namespace
}  // namespace lbarn
