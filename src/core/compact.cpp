#include "compact.hpp"

#include <algorithm>
#include <cstring>

namespace lbarn {
namespace {

constexpr size_t kPlanes = 18;  // a count fits 16 bits, and a carry may go one further

// How many of some columns are 1 in each row: plane p has bit p of every row's sum. As in any carry-save adder, two
// columns may wait at a place; with a third one, their sum stays there and the carry goes to the place above.
template <size_t kWords>
class ColumnSum {
 public:
  void add(const uint64_t* column) {
    Words one;
    std::memcpy(one.word, column, sizeof one.word);
    add_at(0, one);
  }

  // Every place has one plane at most: nothing waits any more.
  void finish() {
    for (size_t p = 0; p + 1 < kPlanes; ++p)
      if (waiting_[p] == 2) add_at(p, Words{});
  }

  void at_least(uint16_t threshold, uint64_t* out) const {
    Words found;
    std::fill(found.word, found.word + kWords, ~uint64_t{0});
    for (size_t p = 0; p < kPlanes; ++p) {
      const Words plane = waiting_[p] ? plane_[p][0] : Words{};
      const bool is_set = threshold >> p & 1;
      for (size_t w = 0; w < kWords; ++w)
        found.word[w] = is_set ? plane.word[w] & found.word[w] : plane.word[w] | found.word[w];
    }
    std::memcpy(out, found.word, sizeof found.word);
  }

 private:
  struct Words {
    uint64_t word[kWords];
  };

  void add_at(size_t p, Words carry) {
    for (; waiting_[p] == 2; ++p) {
      Words &a = plane_[p][0], &b = plane_[p][1];
      for (size_t w = 0; w < kWords; ++w) {
        const uint64_t either = a.word[w] ^ b.word[w], both = a.word[w] & b.word[w];
        a.word[w] = either ^ carry.word[w];
        carry.word[w] = both | (either & carry.word[w]);
      }
      waiting_[p] = 1;
    }
    plane_[p][waiting_[p]++] = carry;
  }

  Words plane_[kPlanes][2];
  size_t waiting_[kPlanes] = {};
};

// The numbers of the marked entries, and every entry its number among them.
template <class Number>
std::vector<Number> numbered(std::vector<uint16_t>& marks) {
  std::vector<Number> marked;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (!marks[i]) continue;
    marks[i] = static_cast<uint16_t>(marked.size());
    marked.push_back(static_cast<Number>(i));
  }
  return marked;
}

}  // namespace

CompactTrees::CompactTrees(const TreesView& trees, const CountsView* counts) : view_(trees) {
  const auto n_splits = static_cast<size_t>(trees.offsets[trees.count]);
  size_t end = 0;
  for (size_t k = 0; k < n_splits; ++k) end = std::max(end, size_t{trees.splits[k].feature} + 1);
  const size_t position = counts ? counts->position : end;
  std::vector<uint16_t> bit(position), feature(end > position ? end - position : 0);
  for (size_t k = 0; k < n_splits; ++k) {
    const size_t own = trees.splits[k].feature;
    (own < position ? bit[own] : feature[own - position]) = 1;
  }
  std::vector<uint16_t> count(counts ? counts->n_masks : 0);
  const std::vector<uint16_t> features = numbered<uint16_t>(feature);
  for (const uint16_t own : features) count[counts->which[own]] = 1;
  const std::vector<uint16_t> masks = numbered<uint16_t>(count);
  for (const uint16_t own : features) thresholds_.push_back({count[counts->which[own]], counts->at_least[own]});
  for (const uint16_t mask : masks) {
    counted_.push_back(counts->counted(mask));
    for (const uint16_t own : counted_.back()) bit[own] = 1;
  }
  bits_ = numbered<uint16_t>(bit);
  for (std::vector<uint16_t>& own : counted_)
    for (uint16_t& number : own) number = bit[number];
  for (const size_t own : bits_) {
    if (words_.empty() || words_.back() != own / 64) words_.push_back(own / 64);
    places_.push_back({static_cast<uint16_t>(words_.size() - 1), static_cast<uint16_t>(own % 64)});
  }
  splits_.reserve(n_splits);
  for (size_t k = 0; k < n_splits; ++k) {
    const size_t own = trees.splits[k].feature;
    const size_t number = own < position ? bit[own] : bits_.size() + feature[own - position];
    splits_.push_back({trees.splits[k].leaf, static_cast<uint16_t>(number)});
  }
  view_.splits = splits_.data();
}

void CompactTrees::gather(const Kernels& kernels, const Rows& rows, const int32_t* index, size_t count,
                          uint64_t* out) const {
  const size_t words = (count + 63) / 64;
  for (size_t w = 0; w < words; ++w)
    gather_word(kernels, rows, index + 64 * w, std::min<size_t>(64, count - 64 * w), out + w, words);
  append_counts(out, words);
}

void CompactTrees::gather(const Columns& columns, size_t first_word, size_t words, uint64_t* out) const {
  for (size_t i = 0; i < bits_.size(); ++i)
    std::memcpy(out + i * words, columns.column(bits_[i]) + first_word, words * sizeof(uint64_t));
  append_counts(out, words);
}

// One word of every bit, for up to 64 rows.
void CompactTrees::gather_word(const Kernels& kernels, const Rows& rows, const int32_t* index, size_t count,
                               uint64_t* out, size_t stride) const {
  BitBlock block;
  size_t bit = 0;
  for (size_t first = 0; first < words_.size(); first += kBlockLanes) {
    const size_t lanes = std::min(kBlockLanes, words_.size() - first);
    std::memset(&block, 0, sizeof block);
    for (size_t r = 0; r < count; ++r) {
      const uint8_t* row = rows.row(static_cast<size_t>(index[r]));
      for (size_t lane = 0; lane < lanes; ++lane)
        std::memcpy(&block.word[r][lane], row + 8 * words_[first + lane], sizeof(uint64_t));
    }
    kernels.transpose_block(block);
    for (; bit < bits_.size() && places_[bit].word < first + lanes; ++bit)
      out[bit * stride] = block.word[places_[bit].bit][places_[bit].word - first];
  }
}

// Some words of the features that count.
template <size_t kWords>
void CompactTrees::append_words(uint64_t* columns, size_t stride) const {
  for (size_t m = 0; m < counted_.size(); ++m) {
    ColumnSum<kWords> sum;
    for (const size_t own : counted_[m]) sum.add(columns + own * stride);
    sum.finish();
    for (size_t f = 0; f < thresholds_.size(); ++f)
      if (thresholds_[f].count == m) sum.at_least(thresholds_[f].at_least, columns + (bits_.size() + f) * stride);
  }
}

void CompactTrees::append_counts(uint64_t* columns, size_t words) const {
  if (words == kBlockWords) return append_words<kBlockWords>(columns, words);
  for (size_t w = 0; w < words; ++w) append_words<1>(columns + w, words);
}

}  // namespace lbarn
