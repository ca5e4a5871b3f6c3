// Refuses what must not reach the loops, which check nothing. Python sees a ValueError.
#pragma once

#include <stdexcept>

namespace lbarn {

inline void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

}  // namespace lbarn
