#include "texts.hpp"

#include <algorithm>
#include <charconv>

namespace lbarn {
namespace {

size_t n_characters(const uint8_t* letters, int32_t begin, int32_t end) {
  size_t n = 0;
  for (int32_t i = begin; i < end; ++i) n += (letters[i] & 0xC0) != 0x80;  // not in the midst of one
  return n;
}

}  // namespace

std::string with_lengths(const int32_t* begin, const uint8_t* letters, size_t count) {
  constexpr size_t kMostDigits = 10;
  std::string result(static_cast<size_t>(begin[count] - begin[0]) + (kMostDigits + 1) * count, '\0');
  char* end = &result[0];
  for (size_t i = 0; i < count; ++i) {
    end = std::to_chars(end, end + kMostDigits, n_characters(letters, begin[i], begin[i + 1])).ptr;
    *end++ = ':';
    end = std::copy(letters + begin[i], letters + begin[i + 1], end);
  }
  result.resize(static_cast<size_t>(end - result.data()));
  return result;
}

}  // namespace lbarn
