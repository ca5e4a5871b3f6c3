// The AVX2 path: 32 features x 4 rows x 2 groups per byte shuffle.
#include "inline.hpp"

#if LBARN_AVX2

#define LBARN_TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

#include "isa_avx2.hpp"

namespace lbarn {
namespace {

struct Isa : Avx2 {
  static constexpr const char* kName = "avx2";
};

}  // namespace
}  // namespace lbarn

#include "kernels_body.hpp"

namespace lbarn {
const Kernels& avx2_kernels() { return kKernels; }
}  // namespace lbarn

#endif
