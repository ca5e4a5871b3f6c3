#include "kernels.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace lbarn {

const Kernels& portable_kernels();
#if LBARN_AVX2
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
#endif
#if LBARN_NEON
const Kernels& neon_kernels();
#endif

namespace {

// Fastest first.
std::vector<const Kernels*> paths() {
  std::vector<const Kernels*> found;
#if LBARN_AVX2
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2"))
    found.push_back(&avx512_kernels());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) found.push_back(&avx2_kernels());
#endif
#if LBARN_NEON
  found.push_back(&neon_kernels());
#endif
  found.push_back(&portable_kernels());
  return found;
}

const Kernels* find(const std::string& name) {
  std::string known;
  for (const Kernels* k : paths()) {
    if (name == k->name) return k;
    known += (known.empty() ? "" : ", ") + std::string(k->name);
  }
  throw std::invalid_argument("SIMD path '" + name + "' is not available on this machine; it has: " + known);
}

std::atomic<const Kernels*>& chosen() {
  static std::atomic<const Kernels*> current = [] {
    const char* forced = std::getenv("LBARN_SIMD");
    return forced && *forced ? find(forced) : paths().front();
  }();
  return current;
}

}  // namespace

const Kernels& kernels() { return *chosen(); }

void choose_kernels(const std::string& name) { chosen() = find(name); }

std::vector<std::string> available_kernels() {
  std::vector<std::string> names;
  for (const Kernels* k : paths()) names.emplace_back(k->name);
  return names;
}

}  // namespace lbarn
