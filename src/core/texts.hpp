// Strings as Arrow has them: one after the other, and where each begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lbarn {

// Every string with the number of its characters before it, "5:never", in UTF-8. The strings are begin[0..count].
std::string with_lengths(const int32_t* begin, const uint8_t* letters, size_t count);

}  // namespace lbarn
