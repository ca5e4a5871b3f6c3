#include "compact.hpp"

#include <algorithm>
#include <cstring>

#include "columnsum.hpp"

namespace lbarn {
namespace {

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
  std::vector<uint16_t> count(counts ? counts->n_counts : 0);
  const std::vector<uint16_t> features = numbered<uint16_t>(feature);
  for (const uint16_t own : features) count[counts->which[own]] = 1;
  const std::vector<uint16_t> used = numbered<uint16_t>(count);
  for (const uint16_t own : features) thresholds_.push_back({count[counts->which[own]], counts->at_least[own]});
  for (const uint16_t own : used) {
    sums_.push_back({counts->base[own], counts->terms[own]});
    for (const CountsView::Term& term : sums_.back().terms) bit[term.bit] = 1;
  }
  bits_ = numbered<uint16_t>(bit);
  for (Sum& sum : sums_)
    for (CountsView::Term& term : sum.terms) term.bit = bit[term.bit];
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
  for (size_t c = 0; c < sums_.size(); ++c) {
    const std::vector<CountsView::Term>& terms = sums_[c].terms;
    const ColumnSum<kWords> sum(sums_[c].base, terms.data(), terms.data() + terms.size(),
                                [&](size_t bit) { return columns + bit * stride; });
    for (size_t f = 0; f < thresholds_.size(); ++f)
      if (thresholds_[f].count == c) sum.at_least(thresholds_[f].at_least, columns + (bits_.size() + f) * stride);
  }
}

void CompactTrees::append_counts(uint64_t* columns, size_t words) const {
  if (words == kBlockWords) return append_words<kBlockWords>(columns, words);
  for (size_t w = 0; w < words; ++w) append_words<1>(columns + w, words);
}

}  // namespace lbarn
