#include "texts.hpp"

namespace lbarn {
namespace {

size_t n_characters(const uint8_t* letters, int32_t begin, int32_t end) {
  size_t n = 0;
  for (int32_t i = begin; i < end; ++i) n += (letters[i] & 0xC0) != 0x80;  // not in the midst of one
  return n;
}

}  // namespace

std::string with_lengths(const int32_t* begin, const uint8_t* letters, size_t count) {
  std::string result;
  result.reserve(static_cast<size_t>(begin[count] - begin[0]) + 3 * count);
  for (size_t i = 0; i < count; ++i) {
    result += std::to_string(n_characters(letters, begin[i], begin[i + 1]));
    result += ':';
    result.append(reinterpret_cast<const char*>(letters) + begin[i], static_cast<size_t>(begin[i + 1] - begin[i]));
  }
  return result;
}

}  // namespace lbarn
