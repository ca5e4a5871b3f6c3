// The Python face of the core: arrays in, arrays out, the GIL released while it works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "bits.hpp"
#include "booster.hpp"
#include "coder.hpp"
#include "counts.hpp"
#include "distinct.hpp"
#include "entropy.hpp"
#include "evaluate.hpp"
#include "follow.hpp"
#include "kernels.hpp"
#include "nodes.hpp"
#include "require.hpp"
#include "texts.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace lbarn {
namespace {

template <class T>
using Array1 = nb::ndarray<nb::numpy, const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Array2 = nb::ndarray<nb::numpy, const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using New1 = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using New2 = nb::ndarray<nb::numpy, T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Hands a vector to NumPy without copying it.
template <class Array, class T>
Array give(std::vector<T>&& values, std::initializer_list<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array(owned->data(), shape, owner);
}

template <class T>
New1<T> give(std::vector<T>&& values) {
  const size_t n = values.size();
  return give<New1<T>>(std::move(values), {n});
}

// The same, not to be written to.
template <class T>
Array1<T> give_constant(std::vector<T>&& values) {
  const size_t n = values.size();
  return give<Array1<T>>(std::move(values), {n});
}

struct Cancelled : std::runtime_error {
  Cancelled() : std::runtime_error("cancelled") {}
};

using CancelFlag = std::atomic<bool>;

// Stops at a cancel flag, and at a signal where this is the main thread: Python sees signals only when asked to look,
// which takes the GIL, so it is asked ten times a second.
Interrupt interrupt_for(const CancelFlag& cancel) {
  return [&cancel, last = std::chrono::steady_clock::now()]() mutable {
    if (cancel.load(std::memory_order_relaxed)) throw Cancelled();
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::milliseconds(100)) return;
    last = now;
    nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
}

Rows rows_of(const Array2<uint8_t>& rows) {
  require(rows.shape(1) % kRowAlign == 0, "rows: the stride must be a multiple of 32 bytes");
  return {rows.data(), rows.shape(0), rows.shape(1), rows.shape(1)};
}

Columns columns_of(const Array2<uint64_t>& columns, size_t n_rows) {
  require(columns.shape(1) == column_words(n_rows), "columns: wrong number of words for the number of rows");
  return {columns.data(), n_rows, columns.shape(1)};
}

// What crosses the border as one object. Each keeps the arrays that it looks at.
struct BoundCells {
  Array2<uint16_t> cells;
  Array1<uint32_t> first, offsets;
  Array1<uint16_t> lo, hi;
  CellColumns view;

  BoundCells(Array2<uint16_t> cells, Array1<uint32_t> first, Array1<uint32_t> offsets, Array1<uint16_t> lo,
             Array1<uint16_t> hi)
      : BoundCells(std::move(cells), std::move(first), std::move(offsets), std::move(lo), std::move(hi), true) {
    const size_t bits = this->lo.shape(0);
    require(this->first.shape(0) == view.count && this->offsets.shape(0) == view.count + 1 &&
                this->hi.shape(0) == bits && view.offsets[0] == 0 && view.offsets[view.count] == bits,
            "cells: the numbers of columns and intervals do not add up");
    size_t end = 0;
    for (size_t c = 0; c < view.count; ++c) {
      require(view.offsets[c] <= view.offsets[c + 1] && view.offsets[c + 1] <= bits,
              "cells: the numbers of columns and intervals do not add up");
      require(view.first[c] >= end, "cells: columns must follow each other and share no bit");
      end = size_t{view.first[c]} + view.offsets[c + 1] - view.offsets[c];
    }
    for (size_t k = 0; k < bits; ++k)
      require(view.lo[k] <= view.hi[k] && view.hi[k] < UINT16_MAX, "cells: not an interval");
    for (size_t i = 0; i < view.count * view.rows; ++i)
      require(view.cells[i] < UINT16_MAX, "cells: there are at most 65,535 in a column");
  }

  // The same columns of some rows.
  BoundCells take(const Array1<int32_t>& index) const;

 private:
  BoundCells(Array2<uint16_t> cells, Array1<uint32_t> first, Array1<uint32_t> offsets, Array1<uint16_t> lo,
             Array1<uint16_t> hi, bool)
      : cells(std::move(cells)),
        first(std::move(first)),
        offsets(std::move(offsets)),
        lo(std::move(lo)),
        hi(std::move(hi)),
        view{this->cells.shape(0), this->cells.shape(1), this->cells.data(), this->first.data(),
             this->offsets.data(), this->lo.data(),      this->hi.data()} {}
};

struct BoundRows {
  Array2<uint64_t> columns;
  std::optional<Array1<double>> weight;
  std::optional<BoundCells> cells;
  std::optional<Array1<uint32_t>> count;
  WeightedRows rows;

  BoundRows(Array2<uint64_t> columns, size_t n_rows, std::optional<Array1<double>> weight,
            std::optional<BoundCells> cells, std::optional<Array1<uint32_t>> count)
      : columns(std::move(columns)), weight(std::move(weight)), cells(std::move(cells)), count(std::move(count)) {
    require(!this->count || (this->count->shape(0) == n_rows && !this->weight), "count: one per row, and no weights");
    require(!this->weight || this->weight->shape(0) == n_rows, "weight: one value per row is needed");
    require(!this->cells || this->cells->view.rows == n_rows, "cells: one per row and column is needed");
    rows = {columns_of(this->columns, n_rows), this->weight ? this->weight->data() : nullptr,
            this->cells ? &this->cells->view : nullptr, this->count ? this->count->data() : nullptr};
  }
  BoundRows(const BoundRows&) = delete;
  const WeightedRows& with_position(size_t position) const {
    require(position < columns.shape(0), "position: no such column");
    return rows;
  }
};

Array2<uint16_t> give_splits(std::vector<Split>&& splits) {
  static_assert(sizeof(Split) == 2 * sizeof(uint16_t), "a split is two uint16");
  const size_t n = splits.size();
  return give<Array2<uint16_t>>(std::move(splits), {n, 2});
}

struct BoundTrees {
  Array2<uint16_t> splits;
  Array1<float> gains;
  Array1<int32_t> values;
  Array1<int64_t> offsets;
  std::optional<Array1<uint16_t>> closers;
  TreesView view;
  size_t n_features;

  BoundTrees(Array2<uint16_t> splits, Array1<float> gains, Array1<int32_t> values, Array1<int64_t> offsets,
             int32_t limit, std::optional<Array1<uint16_t>> closers = std::nullopt, int32_t closed = 0,
             const std::array<uint8_t, kKnees>& stretch = Stretch().eighths)
      : splits(std::move(splits)),
        gains(std::move(gains)),
        values(std::move(values)),
        offsets(std::move(offsets)),
        closers(std::move(closers)) {
    const size_t n_splits = this->splits.shape(0);
    require(this->offsets.shape(0) > 0 && this->splits.shape(1) == 2, "the arrays of the trees have other shapes");
    const size_t count = this->offsets.shape(0) - 1;
    require(this->gains.shape(0) == n_splits && this->values.shape(0) == n_splits + count,
            "the numbers of splits and leaves do not add up");
    view = {reinterpret_cast<const Split*>(this->splits.data()),
            this->values.data(),
            this->offsets.data(),
            count,
            limit,
            this->closers ? this->closers->data() : nullptr,
            this->closers ? this->closers->shape(0) : 0,
            closed,
            Stretch(stretch)};
    n_features = check_trees(view, n_splits);
  }
  explicit BoundTrees(Trees&& trees)
      : BoundTrees(give_splits(std::move(trees.splits)), give_constant(std::move(trees.gains)),
                   give_constant(std::move(trees.values)), give_constant(std::move(trees.offsets)), trees.limit) {}
};

// Trees may split on the columns before `position` alone.
const TreesView& trees_before(const BoundTrees& trees, size_t position) {
  require(trees.n_features <= position, "a split uses a column at or after the position");
  return trees.view;
}

template <class T>
std::vector<T> copied(const Array1<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}

struct BoundBoosted {
  BoundTrees trees;
  Array1<double> train_curve, valid_curve;
};

BoundBoosted boost_rows(const BoundRows& train, const BoundRows& valid, size_t position,
                        const BoostingParameters& parameters, uint64_t seed, const BoundBoosted& start, size_t n_start,
                        const CancelFlag& cancel) {
  const WeightedRows &train_rows = train.with_position(position), &valid_rows = valid.with_position(position);
  const TreesView& given = trees_before(start.trees, position);
  Boosted boosted;
  boosted.trees.splits.assign(given.splits, given.splits + start.trees.splits.shape(0));
  boosted.trees.gains = copied(start.trees.gains);
  boosted.trees.values = copied(start.trees.values);
  boosted.trees.offsets = copied(start.trees.offsets);
  boosted.train_curve = copied(start.train_curve);
  boosted.valid_curve = copied(start.valid_curve);
  {
    nb::gil_scoped_release released;
    boost(train_rows, valid_rows, position, parameters, seed, n_start, interrupt_for(cancel), boosted);
  }
  return {BoundTrees(std::move(boosted.trees)), give_constant(std::move(boosted.train_curve)),
          give_constant(std::move(boosted.valid_curve))};
}

BoundTrees refit_trees(const BoundRows& rows, size_t position, const BoundTrees& trees,
                       const BoostingParameters& parameters, size_t n_start, std::optional<double> start_rate,
                       const CancelFlag& cancel) {
  const WeightedRows& given = rows.with_position(position);
  const TreesView& view = trees_before(trees, position);
  std::vector<int32_t> values(trees.values.shape(0));
  int32_t limit;
  {
    nb::gil_scoped_release released;
    limit = refit(given, position, view, parameters, n_start, start_rate, interrupt_for(cancel), values.data());
  }
  return {trees.splits, trees.gains, give_constant(std::move(values)), trees.offsets, limit};
}

New1<double> curve_of(const BoundRows& rows, size_t position, const BoundTrees& trees, const CancelFlag& cancel) {
  const WeightedRows& given = rows.with_position(position);
  const TreesView& view = trees_before(trees, position);
  Curve result;
  {
    nb::gil_scoped_release released;
    result = curve(given, position, view, interrupt_for(cancel));
  }
  return give(std::move(result));
}

void check_index(const Array1<int32_t>& index, size_t n_rows) {
  for (size_t i = 0; i < index.shape(0); ++i)
    require(index.data()[i] >= 0 && static_cast<size_t>(index.data()[i]) < n_rows, "index: no such row");
}

BoundCells BoundCells::take(const Array1<int32_t>& index) const {
  check_index(index, view.rows);
  const size_t n = index.shape(0);
  std::vector<uint16_t> taken(view.count * n);
  {
    nb::gil_scoped_release released;
    for (size_t c = 0; c < view.count; ++c)
      for (size_t i = 0; i < n; ++i)
        taken[c * n + i] = view.cells[c * view.rows + static_cast<size_t>(index.data()[i])];
  }
  return {give<Array2<uint16_t>>(std::move(taken), {view.count, n}), first, offsets, lo, hi, true};
}

New2<uint64_t> transposed(const Array2<uint8_t>& rows, size_t n_columns) {
  const Rows r = rows_of(rows);
  require(n_columns <= 8 * r.stride, "rows: fewer columns than asked for");
  const size_t words = column_words(r.count);
  std::vector<uint64_t> out(n_columns * words);
  {
    nb::gil_scoped_release released;
    transpose(r, n_columns, out.data());
  }
  return give<New2<uint64_t>>(std::move(out), {n_columns, words});
}

New2<uint64_t> taken(const Array2<uint8_t>& rows, const Array1<int32_t>& index, size_t n_columns) {
  const Rows r = rows_of(rows);
  require(n_columns <= 8 * r.stride, "rows: fewer columns than asked for");
  check_index(index, r.count);
  const size_t words = column_words(index.shape(0));
  std::vector<uint64_t> out(n_columns * words);
  {
    nb::gil_scoped_release released;
    take_columns(r, index.data(), index.shape(0), n_columns, out.data());
  }
  return give<New2<uint64_t>>(std::move(out), {n_columns, words});
}

struct BoundCounts {
  Array2<uint64_t> masks;
  Array1<uint32_t> first;
  Array1<uint16_t> base, which, at_least;
  std::vector<std::vector<CountsView::Term>> terms;
  CountsView view;

  BoundCounts(size_t position, Array2<uint64_t> masks, Array1<uint32_t> first, Array1<uint16_t> base,
              Array1<uint16_t> which, Array1<uint16_t> at_least)
      : masks(std::move(masks)),
        first(std::move(first)),
        base(std::move(base)),
        which(std::move(which)),
        at_least(std::move(at_least)),
        view{position,
             this->masks.data(),
             this->masks.shape(1),
             this->first.data(),
             this->base.data(),
             this->base.shape(0),
             this->which.data(),
             this->at_least.data(),
             this->which.shape(0),
             nullptr} {
    require(this->which.shape(0) == this->at_least.shape(0), "counts: a threshold for every feature is needed");
    for (size_t f = 0; f < view.n_features; ++f)
      require(view.which[f] < view.n_counts, "counts: there is no such count");
    require(position <= UINT16_MAX && view.words <= UINT16_MAX / 64 + 1, "counts: too many bits");
    require(this->first.shape(0) == view.n_counts + 1 && view.first[0] == 0 &&
                view.first[view.n_counts] == this->masks.shape(0),
            "counts: the numbers of masks do not add up");
    for (size_t c = 0; c < view.n_counts; ++c) {
      require(view.first[c] < view.first[c + 1] && view.first[c + 1] - view.first[c] <= 16,
              "counts: a count has no masks, or too many");
      int32_t least = view.base[c], most = least;
      terms.push_back(terms_of(view, c));
      for (const auto [bit, weight] : terms[c]) {
        require(bit < position, "bits are counted that come later in the order");
        (weight < 0 ? least : most) += weight;
      }
      require(least >= 0 && most <= UINT16_MAX, "counts: a sum leaves its range");
    }
    view.terms = terms.data();
  }
  BoundCounts(const BoundCounts&) = delete;
};

void check_counts(const Rows& rows, const BoundCounts& counts) {
  require(8 * counts.view.words <= rows.stride, "counts: a mask is longer than the rows");
  require(counts.view.position <= 8 * rows.stride, "rows: fewer columns than asked for");
}

// The counts that trees look at, if any; the trees need no more than `n_columns`, and the features behind the position.
const CountsView* counts_for(const BoundTrees& trees, const BoundCounts* counts, size_t n_columns) {
  const size_t n_bits = counts ? counts->view.position : n_columns;
  require(n_bits <= n_columns && trees.n_features <= n_bits + (counts ? counts->view.n_features : 0),
          "a split uses a column that is not there");
  for (size_t i = 0; i < trees.view.n_closers; ++i)
    require(trees.view.closers[i] < n_columns, "a split uses a column that is not there");
  return counts ? &counts->view : nullptr;
}

New1<int32_t> log_odds_of(const Array2<uint64_t>& columns, size_t n_rows, const BoundTrees& trees,
                          const BoundCounts* counts) {
  const Columns given = columns_of(columns, n_rows);
  const CountsView* counted = counts_for(trees, counts, columns.shape(0));
  std::vector<int32_t> result;
  {
    nb::gil_scoped_release released;
    result = log_odds(given, trees.view, counted);
  }
  return give<New1<int32_t>>(std::move(result), {n_rows});
}

New1<int32_t> log_odds_of_some(const Array2<uint8_t>& rows, const Array1<int32_t>& index, const BoundTrees& trees,
                               const BoundCounts* counts) {
  const Rows r = rows_of(rows);
  const CountsView* counted = counts_for(trees, counts, 8 * r.stride);
  if (counts) check_counts(r, *counts);
  check_index(index, r.count);
  std::vector<int32_t> result;
  {
    nb::gil_scoped_release released;
    result = log_odds_at(r, index.data(), index.shape(0), trees.view, counted);
  }
  return give(std::move(result));
}

// The trees of a column's nodes, and what they count (None: nothing).
using ListOfTrees = nb::typed<nb::list, BoundTrees>;
using ListOfCounts = nb::typed<nb::list, std::optional<BoundCounts>>;

std::vector<NodeTrees> nodes_of(const ListOfTrees& trees, const ListOfCounts& counts, const Rows& rows) {
  require(trees.size() == counts.size(), "nodes: counts, or None, are needed for every node");
  std::vector<NodeTrees> nodes;
  for (size_t k = 0; k < trees.size(); ++k) {
    const auto& own = nb::cast<const BoundTrees&>(trees[k]);
    const auto* counted = counts[k].is_none() ? nullptr : &nb::cast<const BoundCounts&>(counts[k]);
    if (counted) check_counts(rows, *counted);
    nodes.push_back({own.view, counts_for(own, counted, 8 * rows.stride)});
  }
  return nodes;
}

New1<int32_t> log_odds_of_nodes(const ListOfTrees& trees, const ListOfCounts& counts, const Array1<int32_t>& at,
                                const Array2<uint8_t>& rows, const Array1<int32_t>& index) {
  const Rows r = rows_of(rows);
  const std::vector<NodeTrees> nodes = nodes_of(trees, counts, r);
  check_index(index, r.count);
  require(at.shape(0) == index.shape(0), "nodes: one for every row is needed");
  for (size_t i = 0; i < at.shape(0); ++i)
    require(at.data()[i] < static_cast<int64_t>(nodes.size()), "nodes: there is no such node");
  std::vector<int32_t> result;
  {
    nb::gil_scoped_release released;
    result = log_odds_by_node(nodes, at.data(), r, index.data(), index.shape(0));
  }
  return give(std::move(result));
}

void check_reached(const Array1<int32_t>& low, const Array1<int32_t>& cut, const Array1<int32_t>& high,
                   size_t n_nodes) {
  require(low.shape(0) == n_nodes && cut.shape(0) == n_nodes && high.shape(0) == n_nodes,
          "nodes: the numbers of nodes do not add up");
  for (size_t k = 0; k < n_nodes; ++k)
    require(0 <= low.data()[k] && low.data()[k] <= cut.data()[k] && cut.data()[k] <= high.data()[k] &&
                high.data()[k] <= UINT16_MAX,
            "nodes: not an interval of cells");
}

New1<int64_t> log_likelihoods_of_cells(const ListOfTrees& trees, const ListOfCounts& counts, const Array1<int32_t>& low,
                                       const Array1<int32_t>& cut, const Array1<int32_t>& high,
                                       const Array1<uint16_t>& cells, const Array2<uint8_t>& rows,
                                       const Array1<int32_t>& index) {
  const Rows r = rows_of(rows);
  const std::vector<NodeTrees> nodes = nodes_of(trees, counts, r);
  check_index(index, r.count);
  require(cells.shape(0) == index.shape(0), "cells: one for every row is needed");
  check_reached(low, cut, high, nodes.size());
  std::vector<int64_t> result;
  {
    nb::gil_scoped_release released;
    result = log_likelihood_of_cells(nodes, {low.data(), cut.data(), high.data()}, cells.data(), r, index.data(),
                                     index.shape(0));
  }
  return give(std::move(result));
}

New2<uint32_t> coded_cells_of(const ListOfTrees& trees, const ListOfCounts& counts, const Array1<int32_t>& low,
                              const Array1<int32_t>& cut, const Array1<int32_t>& high, const Array1<int32_t>& level,
                              const Array1<uint16_t>& cells, const Array2<uint8_t>& rows,
                              const Array1<int32_t>& index) {
  const Rows r = rows_of(rows);
  const std::vector<NodeTrees> nodes = nodes_of(trees, counts, r);
  const size_t n = index.shape(0);
  check_index(index, r.count);
  require(cells.shape(0) == n, "cells: one for every row is needed");
  check_reached(low, cut, high, nodes.size());
  require(level.shape(0) == nodes.size(), "nodes: the numbers of nodes do not add up");
  size_t n_levels = 0;
  for (size_t k = 0; k < nodes.size(); ++k) {
    require(0 <= level.data()[k] && static_cast<size_t>(level.data()[k]) < nodes.size(),
            "nodes: there is no such level");
    n_levels = std::max(n_levels, static_cast<size_t>(level.data()[k]) + 1);
  }
  std::vector<uint32_t> result;
  {
    nb::gil_scoped_release released;
    result = coded_cells(nodes, {low.data(), cut.data(), high.data()}, level.data(), n_levels, cells.data(), r,
                         index.data(), n);
  }
  return give<New2<uint32_t>>(std::move(result), {n_levels, n});
}

New1<int64_t> log_likelihoods_of(const Array1<int32_t>& log_odds, const Array1<uint64_t>& target) {
  require(target.shape(0) * 64 >= log_odds.shape(0), "target: too few bits");
  std::vector<int64_t> result(log_odds.shape(0));
  log_likelihoods(log_odds.data(), target.data(), result.size(), result.data());
  return give(std::move(result));
}

New1<int32_t> stretched(const Array1<int32_t>& sizes, const std::array<uint8_t, kKnees>& eighths) {
  const Stretch stretch(eighths);
  require(stretch.sound(), "the stretch of the log-odds is out of range");
  std::vector<int32_t> result(sizes.shape(0));
  std::transform(sizes.data(), sizes.data() + result.size(), result.begin(),
                 [&](int32_t u) { return static_cast<int32_t>(stretch.of(u)); });
  return give(std::move(result));
}

New1<int32_t> probabilities_of(const Array1<int32_t>& log_odds) {
  std::vector<int32_t> result(log_odds.shape(0));
  probabilities(log_odds.data(), result.size(), result.data());
  return give(std::move(result));
}

New1<uint32_t> boundaries_of(const Array1<int32_t>& log_odds) {
  std::vector<uint32_t> result(log_odds.shape(0));
  {
    nb::gil_scoped_release released;
    boundaries(log_odds.data(), result.size(), result.data());
  }
  return give(std::move(result));
}

Coder coder_of(const Array1<uint32_t>& words) { return {words.data(), words.shape(0)}; }

void check_boundaries(const Array1<uint32_t>& boundaries) {
  for (size_t i = 0; i < boundaries.shape(0); ++i)
    require(0 < boundaries.data()[i] && boundaries.data()[i] < kWhole, "boundaries: not within a whole");
}

void push_bits(Coder& coder, const Array1<uint32_t>& coded) {
  for (size_t i = 0; i < coded.shape(0); ++i) require(coded.data()[i] >> 1 < kWhole, "coded: not within a whole");
  nb::gil_scoped_release released;
  coder.push_bits(coded.data(), coded.shape(0));
}

New1<uint8_t> pop_bits(Coder& coder, const Array1<uint32_t>& boundaries) {
  check_boundaries(boundaries);
  std::vector<uint8_t> bits(boundaries.shape(0));
  {
    nb::gil_scoped_release released;
    coder.pop_bits(boundaries.data(), bits.size(), bits.data());
  }
  return give(std::move(bits));
}

New1<int32_t> descend(Coder& coder, const Array1<uint32_t>& boundaries, const Array1<int32_t>& at,
                      const Array2<int32_t>& children) {
  check_boundaries(boundaries);
  require(at.shape(0) == boundaries.shape(0) && children.shape(1) == 2, "nodes: one for every row is needed");
  for (size_t i = 0; i < at.shape(0); ++i)
    require(at.data()[i] < static_cast<int64_t>(children.shape(0)), "nodes: there is no such node");
  std::vector<int32_t> next = copied(at);
  {
    nb::gil_scoped_release released;
    coder.descend(boundaries.data(), children.data(), next.size(), next.data());
  }
  return give(std::move(next));
}

void push_symbols(Coder& coder, const Array1<uint16_t>& symbols, const Array2<double>& weights) {
  require(symbols.shape(0) == weights.shape(0), "symbols: weights for each are needed");
  coder.push_symbols(symbols.data(), weights.data(), weights.shape(0), weights.shape(1));
}

New1<uint16_t> pop_symbols(Coder& coder, const Array2<double>& weights) {
  std::vector<uint16_t> symbols(weights.shape(0));
  coder.pop_symbols(weights.data(), weights.shape(0), weights.shape(1), symbols.data());
  return give(std::move(symbols));
}

CellSymbols cell_symbols_of(const Array1<double>& weights, const Array1<int64_t>& starts,
                            const Array1<uint64_t>& n_last) {
  const size_t n_cells = n_last.shape(0);
  require(starts.shape(0) == n_cells + 1 && starts.data()[0] == 0 &&
              starts.data()[n_cells] == static_cast<int64_t>(weights.shape(0)),
          "cells: the numbers of symbols do not add up");
  for (size_t k = 0; k < n_cells; ++k)
    require(starts.data()[k] < starts.data()[k + 1], "cells: the numbers of symbols do not add up");
  return {weights.data(), starts.data(), n_last.data(), n_cells};
}

void check_cells(const Array1<uint16_t>& cells, const CellSymbols& laws) {
  for (size_t i = 0; i < cells.shape(0); ++i) require(cells.data()[i] < laws.n_cells(), "cells: there is no such cell");
}

void push_inside(Coder& coder, const CellSymbols& laws, const Array1<uint16_t>& cells, const Array1<int64_t>& symbols,
                 const Array1<uint64_t>& offsets) {
  check_cells(cells, laws);
  require(symbols.shape(0) == cells.shape(0) && offsets.shape(0) == cells.shape(0), "symbols: one for every cell");
  nb::gil_scoped_release released;
  coder.push_inside(laws, cells.data(), symbols.data(), offsets.data(), cells.shape(0));
}

std::pair<New1<int64_t>, New1<uint64_t>> pop_inside(Coder& coder, const CellSymbols& laws,
                                                    const Array1<uint16_t>& cells) {
  check_cells(cells, laws);
  std::vector<int64_t> symbols(cells.shape(0));
  std::vector<uint64_t> offsets(cells.shape(0));
  {
    nb::gil_scoped_release released;
    coder.pop_inside(laws, cells.data(), cells.shape(0), symbols.data(), offsets.data());
  }
  return {give(std::move(symbols)), give(std::move(offsets))};
}

nb::bytes with_lengths_of(const Array1<int32_t>& begin, const Array1<uint8_t>& letters) {
  require(begin.shape(0) > 0 && begin.data()[0] >= 0, "begin: not within the letters");
  const size_t count = begin.shape(0) - 1;
  for (size_t i = 0; i < count; ++i)
    require(begin.data()[i] <= begin.data()[i + 1], "begin: strings do not follow each other");
  require(static_cast<size_t>(begin.data()[count]) <= letters.shape(0), "begin: not within the letters");
  const std::string result = with_lengths(begin.data(), letters.data(), count);
  return nb::bytes(result.data(), result.size());
}

New2<uint16_t> counted(const Array2<uint8_t>& rows, const Array1<int32_t>& index, const BoundCounts& counts) {
  const Rows r = rows_of(rows);
  check_counts(r, counts);
  check_index(index, r.count);
  const size_t n = index.shape(0);
  std::vector<uint16_t> out(n * counts.view.n_counts);
  {
    nb::gil_scoped_release released;
    count_ones(r, index.data(), n, counts.view, out.data());
  }
  return give<New2<uint16_t>>(std::move(out), {n, counts.view.n_counts});
}

New2<uint8_t> with_counts(const Array2<uint8_t>& rows, const Array1<int32_t>& index, const BoundCounts& counts) {
  const Rows r = rows_of(rows);
  check_counts(r, counts);
  check_index(index, r.count);
  require(counts.view.position < 8 * r.stride, "rows: fewer columns than asked for");
  const size_t bits = counts.view.position + counts.view.n_features + 1;
  const size_t stride = (bits + 8 * kRowAlign - 1) / (8 * kRowAlign) * kRowAlign, n = index.shape(0);
  std::vector<uint8_t> out(n * stride);
  {
    nb::gil_scoped_release released;
    append_counts(r, index.data(), n, counts.view, true, out.data(), stride);
  }
  return give<New2<uint8_t>>(std::move(out), {n, stride});
}

// Columns in network order, each with its nodes, and the trees of every node.
struct BoundNetwork {
  using TreesList = nb::typed<nb::list, BoundTrees>;
  using CountsList = nb::typed<nb::list, std::optional<BoundCounts>>;
  Array2<int32_t> sizes;      // cells, nodes and bits of every column
  Array1<int32_t> cut;        // by node
  Array2<int32_t> children;   // by node
  Array1<int32_t> low, high;  // of the cells that have a 1, by bit
  nb::list trees, counts;     // by node
  NetworkView view;

  BoundNetwork(Array2<int32_t> sizes_, Array1<int32_t> cut_, Array2<int32_t> children_, Array1<int32_t> low_,
               Array1<int32_t> high_, TreesList trees_, CountsList counts_)
      : sizes(std::move(sizes_)),
        cut(std::move(cut_)),
        children(std::move(children_)),
        low(std::move(low_)),
        high(std::move(high_)),
        trees(std::move(trees_)),
        counts(std::move(counts_)) {
    const size_t n_nodes = cut.shape(0), n_bits = low.shape(0);
    require(sizes.shape(1) == 3 && children.shape(0) == n_nodes && children.shape(1) == 2 && high.shape(0) == n_bits &&
                trees.size() == n_nodes && counts.size() == n_nodes,
            "network: the numbers of columns, nodes and bits do not add up");
    size_t node = 0, bit = 0;
    view.n_features = n_bits;
    for (size_t k = 0; k < sizes.shape(0); ++k) {
      const int32_t* size = sizes.data() + 3 * k;
      require(size[0] >= 1 && size[0] < kUnknown && size[1] >= 0 && size[2] >= size[1],
              "network: a column has no cells, or too many");
      const ColumnTree column{static_cast<size_t>(size[0]),
                              static_cast<size_t>(size[1]),
                              static_cast<size_t>(size[2]),
                              bit,
                              node,
                              cut.data() + node,
                              children.data() + 2 * node,
                              low.data() + bit,
                              high.data() + bit};
      require(node + column.n_nodes <= n_nodes && bit + column.n_bits <= n_bits,
              "network: the numbers of columns, nodes and bits do not add up");
      for (size_t j = 0; j < column.n_nodes; ++j, ++node) {
        for (size_t side = 0; side < 2; ++side) {
          const int32_t child = column.children[2 * j + side];
          require(child < 0 ? static_cast<size_t>(~child) < column.n_cells
                            : static_cast<size_t>(child) > j && static_cast<size_t>(child) < column.n_nodes,
                  "network: a node leads nowhere");
        }
        add(node, bit + j);
      }
      bit += column.n_bits;
      view.columns.push_back(column);
    }
    require(node == n_nodes && bit == n_bits && bit <= UINT16_MAX,
            "network: the numbers of columns, nodes and bits do not add up");
  }
  BoundNetwork(const BoundNetwork&) = delete;

 private:
  void add(size_t node, size_t position) {
    const auto& own = nb::cast<const BoundTrees&>(trees[node]);
    const nb::handle counted = counts[node];
    const CountsView* count = counted.is_none() ? nullptr : &nb::cast<const BoundCounts&>(counted).view;
    const size_t more = count ? count->n_features : 0;
    require(own.n_features <= position + more, "a split uses a column at or after the position");
    for (size_t i = 0; i < own.view.n_closers; ++i)
      require(own.view.closers[i] < position, "a conditional is closed by a column at or after its own");
    view.n_features = std::max(view.n_features, position + more);
    require(!count || count->position == position, "counts: a column at or after the position is counted");
    view.nodes.push_back({own.view, count, position});
  }
};

// Rows given evidence.
struct BoundEvidence {
  Array2<uint16_t> cells;
  std::vector<std::tuple<size_t, Array2<double>, bool>> likelihood;
  EvidenceView view;

  BoundEvidence(const BoundNetwork& network, Array2<uint16_t> cells_,
                std::vector<std::tuple<size_t, Array2<double>, bool>> likelihood_)
      : cells(std::move(cells_)), likelihood(std::move(likelihood_)) {
    view.rows = cells.shape(0);
    view.n_columns = cells.shape(1);
    view.cells = cells.data();
    require(view.n_columns <= network.view.columns.size(), "evidence: there are more columns than the network has");
    std::vector<uint8_t> told(view.n_columns);
    for (const auto& [column, own, empty] : likelihood) {
      require(column < view.n_columns && (view.unknown.empty() || view.unknown.back().column < column),
              "evidence: columns must be there, and ascend");
      const size_t n_cells = network.view.columns[column].n_cells;
      require(own.shape(1) == n_cells && (own.shape(0) == 1 || own.shape(0) == view.rows),
              "evidence: a likelihood per cell is needed, for every row or for all");
      told[column] = 1;
      view.unknown.push_back({column, own.data(), own.shape(0) != 1, view.n_cells, empty});
      view.n_cells += n_cells;
    }
    for (size_t i = 0; i < view.rows * view.n_columns; ++i) {
      const size_t column = i % view.n_columns;
      require(view.cells[i] == kUnknown ? told[column] != 0 : view.cells[i] < network.view.columns[column].n_cells,
              "evidence: no such cell");
    }
  }
};

struct BoundFollowed {
  New1<double> log_marginal, variance;
  New1<int32_t> unexpected;
  New1<double> log_marginal_there, error, marginal_error;
  New2<double> shares, expected;
  nb::ndarray<nb::numpy, uint16_t, nb::ndim<3>, nb::c_contig, nb::device::cpu> draws;
  New1<double> weight;
  New2<uint16_t> states;
  std::vector<Generation> generations;

  double variance_of(const Array1<double>& own) const {
    require(own.shape(0) == (generations.empty() ? 1 : generations.back().parent.size()),
            "weight: one for every particle is needed");
    return added_variance(generations, {own.data(), own.data() + own.shape(0)});
  }
};

BoundFollowed followed(const BoundNetwork& network, const Array2<uint16_t>& cells,
                       const std::vector<std::tuple<size_t, Array2<double>, bool>>& likelihood, FollowHow how,
                       const Array1<uint64_t>& numbers) {
  const BoundEvidence evidence(network, cells, likelihood);
  const size_t n = evidence.view.rows, n_columns = evidence.view.n_columns, n_cells = evidence.view.n_cells;
  require(how.limit >= 1 && how.limit < UINT32_MAX / 2, "limit: at least one particle is needed");
  require(numbers.shape(0) == n, "numbers: one for every row is needed");
  how.number = numbers.data();
  const CancelFlag never(false);
  Followed found;
  {
    nb::gil_scoped_release released;
    found = follow(network.view, evidence.view, how, interrupt_for(never));
  }
  const size_t kept = found.weight.size();
  return {give(std::move(found.log_marginal)),
          give(std::move(found.variance)),
          give(std::move(found.unexpected)),
          give(std::move(found.log_marginal_there)),
          give(std::move(found.error)),
          give(std::move(found.marginal_error)),
          give<New2<double>>(std::move(found.shares), {n, n_cells}),
          give<New2<double>>(std::move(found.expected), {n, n_cells}),
          give<decltype(BoundFollowed::draws)>(std::move(found.draws), {n, how.n_draws, n_columns}),
          give(std::move(found.weight)),
          give<New2<uint16_t>>(std::move(found.states), {kept, n_columns}),
          std::move(found.generations)};
}

// Keeps the arrays that it looks at.
class Entropies {
 public:
  Entropies(Array2<uint64_t> train, size_t n_train, Array2<uint64_t> valid, size_t n_valid, uint64_t seed)
      : train_(std::move(train)),
        valid_(std::move(valid)),
        entropies_(columns_of(train_, n_train), columns_of(valid_, n_valid), common_columns(), seed) {}
  void pick(size_t column) { entropies_.pick(column); }
  std::vector<double> update(const std::vector<size_t>& columns) const {
    std::vector<double> result;
    nb::gil_scoped_release released;
    for (const size_t column : columns) result.push_back(entropies_.update(column));
    return result;
  }

 private:
  size_t common_columns() const {
    require(train_.shape(0) == valid_.shape(0), "both halves need the same columns");
    return train_.shape(0);
  }

  Array2<uint64_t> train_, valid_;
  ConditionalEntropies entropies_;
};

std::optional<std::pair<New1<int32_t>, New1<uint32_t>>> distinct_rows_of(const Array2<uint8_t>& rows,
                                                                         const Array1<int32_t>& index, size_t n_columns,
                                                                         size_t most) {
  const Rows r = rows_of(rows);
  require(n_columns <= 8 * r.stride, "n_columns: rows have fewer");
  check_index(index, r.count);
  DistinctRows found;
  {
    nb::gil_scoped_release released;
    found = distinct_rows(r, index.data(), index.shape(0), n_columns, most);
  }
  if (found.index.empty()) return std::nullopt;
  return std::make_pair(give(std::move(found.index)), give(std::move(found.count)));
}

std::pair<New1<double>, New1<double>> histogram_of(const Array2<uint8_t>& rows, const Array1<uint32_t>& index,
                                                   const Array2<uint16_t>& digits, std::optional<size_t> n_columns) {
  Rows r = rows_of(rows);
  require(!n_columns || *n_columns <= 8 * r.stride, "rows: fewer columns than asked for");
  if (n_columns) r.width = (*n_columns + 8 * kScanBytes - 1) / (8 * kScanBytes) * kScanBytes;
  require(digits.shape(0) >= 1 && digits.shape(0) <= kMaxDigits && digits.shape(1) == r.count, "histogram: bad shapes");
  for (size_t i = 0; i < index.shape(0); ++i) require(index.data()[i] < r.count, "index: no such row");
  DigitPlanes planes;
  planes.digits = static_cast<int>(digits.shape(0));
  for (int k = 0; k < planes.digits; ++k) planes.plane[k] = digits.data() + static_cast<size_t>(k) * r.count;
  std::vector<uint32_t> list(index.data(), index.data() + index.shape(0));
  list.resize(list.size() + kIndexRoom);
  const size_t slots = scan_slots(r);
  std::vector<double> g(slots), h(slots), g_out(slots), h_out(slots);
  HistogramScratch scratch;
  {
    nb::gil_scoped_release released;
    kernels().histogram(r, list.data(), index.shape(0), planes, scratch, g.data(), h.data());
    for (size_t s = 0; s < slots; ++s) {
      g_out[feature_of_slot(s)] = g[s];
      h_out[feature_of_slot(s)] = h[s];
    }
  }
  return {give(std::move(g_out)), give(std::move(h_out))};
}

}  // namespace
}  // namespace lbarn

NB_MODULE(_core, m) {
  using namespace lbarn;
  nb::set_leak_warnings(false);  // what a caller still holds when the interpreter ends is not his to read about
  constexpr auto kShared = nb::rv_policy::automatic;  // an array has an owner of its own
  nb::exception<Cancelled>(m, "Cancelled");
  nb::class_<CancelFlag>(m, "CancelFlag")
      .def(nb::init<>())
      .def("set", [](CancelFlag& flag) { flag = true; })
      .def("is_set", [](const CancelFlag& flag) { return flag.load(); });
  nb::enum_<BoostingKind>(m, "BoostingKind")
      .value("newton", BoostingKind::newton)
      .value("gradient", BoostingKind::gradient);
  nb::enum_<SplitKind>(m, "SplitKind").value("fast", SplitKind::fast).value("exact", SplitKind::exact);
  nb::class_<BoostingParameters>(m, "BoostingParameters")
      .def(nb::init<>())
      .def_rw("max_leaf_nodes", &BoostingParameters::max_leaf_nodes)
      .def_rw("learning_rate", &BoostingParameters::learning_rate)
      .def_rw("max_iter", &BoostingParameters::max_iter)
      .def_rw("boosting", &BoostingParameters::boosting)
      .def_rw("splits", &BoostingParameters::splits)
      .def_rw("split_bits", &BoostingParameters::split_bits)
      .def_rw("min_gain", &BoostingParameters::min_gain)
      .def_rw("l2_regularization", &BoostingParameters::l2_regularization)
      .def_rw("l1_regularization", &BoostingParameters::l1_regularization)
      .def_rw("cap", &BoostingParameters::cap)
      .def_rw("max_features", &BoostingParameters::max_features)
      .def_rw("n_iter_no_change", &BoostingParameters::n_iter_no_change, nb::arg().none());
  nb::class_<BoundCells>(m, "CellColumns")
      .def(nb::init<Array2<uint16_t>, Array1<uint32_t>, Array1<uint32_t>, Array1<uint16_t>, Array1<uint16_t>>(),
           "cells"_a, "first"_a, "offsets"_a, "lo"_a, "hi"_a)
      .def("take", &BoundCells::take, "index"_a);
  nb::class_<BoundRows>(m, "WeightedRows")
      .def(nb::init<Array2<uint64_t>, size_t, std::optional<Array1<double>>, std::optional<BoundCells>,
                    std::optional<Array1<uint32_t>>>(),
           "columns"_a, "n_rows"_a, "weight"_a.none() = nb::none(), "cells"_a.none() = nb::none(),
           "count"_a.noconvert().none() = nb::none());
  nb::class_<BoundTrees>(m, "Trees")
      .def(nb::init<Array2<uint16_t>, Array1<float>, Array1<int32_t>, Array1<int64_t>, int32_t,
                    std::optional<Array1<uint16_t>>, int32_t, std::array<uint8_t, kKnees>>(),
           "splits"_a.noconvert(), "gains"_a.noconvert(), "values"_a.noconvert(), "offsets"_a.noconvert(),
           "limit"_a = kNoLimit, "closers"_a.noconvert().none() = nb::none(), "closed"_a = 0,
           "stretch"_a = Stretch().eighths)
      .def_prop_ro("limit", [](const BoundTrees& trees) { return trees.view.limit; })
      .def_ro("n_features", &BoundTrees::n_features)
      .def_prop_ro(
          "splits", [](const BoundTrees& trees) { return trees.splits; }, kShared)
      .def_prop_ro(
          "gains", [](const BoundTrees& trees) { return trees.gains; }, kShared)
      .def_prop_ro(
          "values", [](const BoundTrees& trees) { return trees.values; }, kShared)
      .def_prop_ro("offsets", [](const BoundTrees& trees) { return trees.offsets; }, kShared);
  nb::class_<BoundBoosted>(m, "Boosted")
      .def(nb::init<BoundTrees, Array1<double>, Array1<double>>(), "trees"_a, "train_curve"_a, "valid_curve"_a)
      .def_prop_ro("trees", [](const BoundBoosted& boosted) { return boosted.trees; })
      .def_prop_ro(
          "train_curve", [](const BoundBoosted& boosted) { return boosted.train_curve; }, kShared)
      .def_prop_ro("valid_curve", [](const BoundBoosted& boosted) { return boosted.valid_curve; }, kShared);
  nb::class_<BoundCounts>(m, "Counts")
      .def(nb::init<size_t, Array2<uint64_t>, Array1<uint32_t>, Array1<uint16_t>, Array1<uint16_t>, Array1<uint16_t>>(),
           "position"_a, "masks"_a.noconvert(), "first"_a.noconvert(), "base"_a.noconvert(), "which"_a.noconvert(),
           "at_least"_a.noconvert());
  nb::class_<CellSymbols>(m, "CellSymbols").def_static("of", &cell_symbols_of, "weights"_a, "starts"_a, "n_last"_a);
  nb::class_<Coder>(m, "Coder")
      .def(nb::init<>())
      .def_static("of", &coder_of, "words"_a)
      .def("clone", [](const Coder& coder) { return Coder(coder); })
      .def("words", [](const Coder& coder) { return give(coder.words()); })
      .def_prop_ro("n_words", &Coder::n_words)
      .def_prop_ro("n_bits", &Coder::n_bits)
      .def_prop_ro("is_empty", &Coder::empty)
      .def("push_bits", &push_bits, "coded"_a)
      .def("pop_bits", &pop_bits, "boundaries"_a)
      .def("descend", &descend, "boundaries"_a, "at"_a, "children"_a)
      .def("push_symbols", &push_symbols, "symbols"_a, "weights"_a)
      .def("pop_symbols", &pop_symbols, "weights"_a)
      .def("push_inside", &push_inside, "laws"_a, "cells"_a, "symbols"_a, "offsets"_a)
      .def("pop_inside", &pop_inside, "laws"_a, "cells"_a);
  nb::class_<BoundNetwork>(m, "Network")
      .def(nb::init<Array2<int32_t>, Array1<int32_t>, Array2<int32_t>, Array1<int32_t>, Array1<int32_t>,
                    BoundNetwork::TreesList, BoundNetwork::CountsList>(),
           "sizes"_a, "cut"_a, "children"_a, "ones_low"_a, "ones_high"_a, "trees"_a, "counts"_a);
  nb::class_<FollowHow>(m, "FollowHow")
      .def(nb::init<>())
      .def_rw("limit", &FollowHow::limit)
      .def_rw("islands", &FollowHow::islands)
      .def_rw("seed", &FollowHow::seed)
      .def_rw("n_draws", &FollowHow::n_draws)
      .def_rw("keep", &FollowHow::keep)
      .def_rw("unexpected_particles", &FollowHow::unexpected_particles)
      .def_rw("unexpected", &FollowHow::unexpected);
  nb::class_<BoundFollowed>(m, "Followed")
      .def_prop_ro(
          "log_marginal", [](const BoundFollowed& own) { return own.log_marginal; }, kShared)
      .def_prop_ro(
          "variance", [](const BoundFollowed& own) { return own.variance; }, kShared)
      .def_prop_ro(
          "unexpected", [](const BoundFollowed& own) { return own.unexpected; }, kShared)
      .def_prop_ro(
          "log_marginal_there", [](const BoundFollowed& own) { return own.log_marginal_there; }, kShared)
      .def_prop_ro(
          "error", [](const BoundFollowed& own) { return own.error; }, kShared)
      .def_prop_ro(
          "marginal_error", [](const BoundFollowed& own) { return own.marginal_error; }, kShared)
      .def_prop_ro(
          "shares", [](const BoundFollowed& own) { return own.shares; }, kShared)
      .def_prop_ro(
          "expected", [](const BoundFollowed& own) { return own.expected; }, kShared)
      .def_prop_ro(
          "draws", [](const BoundFollowed& own) { return own.draws; }, kShared)
      .def_prop_ro(
          "weight", [](const BoundFollowed& own) { return own.weight; }, kShared)
      .def_prop_ro(
          "states", [](const BoundFollowed& own) { return own.states; }, kShared)
      .def("variance_of", &BoundFollowed::variance_of, "weight"_a);
  nb::class_<Entropies>(m, "ConditionalEntropies")
      .def(nb::init<Array2<uint64_t>, size_t, Array2<uint64_t>, size_t, uint64_t>(), "train"_a, "n_train"_a, "valid"_a,
           "n_valid"_a, "seed"_a)
      .def("pick", &Entropies::pick, "column"_a)
      .def("update", &Entropies::update, "columns"_a);
  m.def("simd_path", [] { return std::string(kernels().name); });
  m.def("simd_paths", &available_kernels);
  m.def("choose_simd_path", &choose_kernels, "name"_a);
  m.def("column_words", &column_words, "n_rows"_a);
  m.def("transpose", &transposed, "rows"_a, "n_columns"_a);
  m.def("distinct_rows", &distinct_rows_of, "rows"_a, "index"_a, "n_columns"_a, "most"_a);
  m.def("take_columns", &taken, "rows"_a, "index"_a, "n_columns"_a);
  m.def("count_ones", &counted, "rows"_a, "index"_a, "counts"_a);
  m.def("with_counts", &with_counts, "rows"_a, "index"_a, "counts"_a);
  m.def("boost", &boost_rows, "train"_a, "valid"_a, "position"_a, "parameters"_a, "seed"_a, "start"_a, "n_start"_a,
        "cancel"_a);
  m.def("refit", &refit_trees, "rows"_a, "position"_a, "trees"_a, "parameters"_a, "n_start"_a, "start_rate"_a.none(),
        "cancel"_a);
  m.def("curve", &curve_of, "rows"_a, "position"_a, "trees"_a, "cancel"_a);
  m.def("log_odds", &log_odds_of, "columns"_a, "n_rows"_a, "trees"_a, "counts"_a.none() = nb::none());
  m.def("log_odds_at", &log_odds_of_some, "rows"_a, "index"_a, "trees"_a, "counts"_a.none() = nb::none());
  m.def("log_odds_by_node", &log_odds_of_nodes, "trees"_a, "counts"_a, "at"_a, "rows"_a, "index"_a);
  m.def("log_likelihoods_of_cells", &log_likelihoods_of_cells, "trees"_a, "counts"_a, "low"_a, "cut"_a, "high"_a,
        "cells"_a, "rows"_a, "index"_a);
  m.def("log_likelihoods", &log_likelihoods_of, "log_odds"_a, "target"_a);
  m.def("stretched", &stretched, "sizes"_a, "stretch"_a);
  m.def("probabilities", &probabilities_of, "log_odds"_a);
  m.def("boundaries", &boundaries_of, "log_odds"_a);
  m.def("with_lengths", &with_lengths_of, "begin"_a, "letters"_a);
  m.def("coded_cells", &coded_cells_of, "trees"_a, "counts"_a, "low"_a, "cut"_a, "high"_a, "level"_a, "cells"_a,
        "rows"_a, "index"_a);
  m.def("follow", &followed, "network"_a, "cells"_a, "likelihood"_a, "how"_a, "numbers"_a);
  m.def("histogram", &histogram_of, "rows"_a, "index"_a, "digits"_a, "n_columns"_a = nb::none());
}
