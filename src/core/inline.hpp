// One spelling for functions that must be inlined into every SIMD path's kernels.
#pragma once

#if defined(__GNUC__)
#define LBARN_INLINE inline __attribute__((always_inline))
#else
#define LBARN_INLINE inline
#endif
