// Counter-based randomness: a value is a pure function of (seed, position, round, row), so no result depends on the
// order in which rows, rounds or conditionals are visited.
#pragma once

#include <cstdint>

#include "inline.hpp"

namespace lbarn {

struct RoundKey {
  uint32_t multiplier;  // odd
  uint32_t offset;
};

inline uint64_t mix64(uint64_t x) {  // splitmix64's finaliser
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

inline RoundKey round_key(uint64_t seed, uint64_t position, uint64_t round) {
  const uint64_t key = mix64(mix64(mix64(seed) ^ position) ^ round);
  return {static_cast<uint32_t>(key) | 1u, static_cast<uint32_t>(key >> 32)};
}

// 32 random bits for a row, by a two-multiply finaliser of low bias.
LBARN_INLINE uint32_t row_bits(RoundKey key, uint32_t row) {
  uint32_t x = row * key.multiplier + key.offset;
  x = (x ^ (x >> 16)) * 0x21F0AAADu;
  x = (x ^ (x >> 15)) * 0xD35A2D97u;
  return x ^ (x >> 15);
}

}  // namespace lbarn
