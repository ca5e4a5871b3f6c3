// The Python face of the core: arrays in, arrays out, the GIL released while it works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "bits.hpp"
#include "booster.hpp"
#include "entropy.hpp"
#include "kernels.hpp"
#include "logistic.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace lbarn {
namespace {

template <class T>
using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T>;

template <class T>
struct Owned {
  std::vector<T> data;
};

// Hands a vector to NumPy without copying it.
template <class T, class Element = T>
Out<Element> give(std::vector<T>&& values, std::vector<size_t> shape = {}) {
  auto* owned = new Owned<T>{std::move(values)};
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Owned<T>*>(p); });
  if (shape.empty()) shape = {owned->data.size()};
  return Out<Element>(reinterpret_cast<Element*>(owned->data.data()), shape.size(), shape.data(), owner);
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

void require(bool condition, const char* what) {
  if (!condition) throw nb::value_error(what);
}

Rows rows_of(const In2<uint8_t>& rows) {
  require(rows.shape(1) % kRowAlign == 0, "rows: the stride must be a multiple of 32 bytes");
  return {rows.data(), rows.shape(0), rows.shape(1), rows.shape(1)};
}

Columns columns_of(const In2<uint64_t>& columns, size_t n_rows) {
  require(columns.shape(1) == column_words(n_rows), "columns: wrong number of words for the number of rows");
  return {columns.data(), n_rows, columns.shape(1)};
}

using Weight = std::optional<In1<double>>;

Sample sample_of(const In2<uint64_t>& columns, size_t n_rows, const Weight& weight) {
  require(!weight || weight->shape(0) == n_rows, "weight: one value per row is needed");
  return {columns_of(columns, n_rows), weight ? weight->data() : nullptr};
}

TreesView trees_of(const In2<uint16_t>& splits, const In1<int32_t>& values, const In1<int64_t>& offsets) {
  static_assert(sizeof(Split) == 4, "a split is two uint16");
  require(offsets.shape(0) > 0 && splits.shape(1) == 2, "trees: bad shapes");
  const size_t count = offsets.shape(0) - 1;
  require(static_cast<size_t>(offsets.data()[count]) == splits.shape(0) && values.shape(0) == splits.shape(0) + count,
          "trees: the arrays do not fit each other");
  return {reinterpret_cast<const Split*>(splits.data()), values.data(), offsets.data(), count};
}

nb::tuple boost_conditional(const In2<uint64_t>& columns, size_t n_rows, const Weight& weight,
                            const In2<uint64_t>& valid_columns, size_t n_valid, const Weight& valid_weight,
                            size_t position, size_t max_leaves, double learning_rate, size_t rounds, bool exact,
                            int split_bits, bool gradient, double min_gain, double l2, double max_features,
                            uint64_t seed, size_t patience, const CancelFlag& cancel, const In2<uint16_t>& splits,
                            const In1<float>& gains, const In1<int32_t>& values, const In1<int64_t>& offsets,
                            const In1<double>& train_curve, const In1<double>& valid_curve) {
  const Sample train = sample_of(columns, n_rows, weight), valid = sample_of(valid_columns, n_valid, valid_weight);
  require(position < columns.shape(0) && position < valid_columns.shape(0), "position: no such column");
  const TreesView given = trees_of(splits, values, offsets);
  BoostingResult result;
  result.trees.splits.assign(given.splits, given.splits + splits.shape(0));
  result.trees.gains.assign(gains.data(), gains.data() + gains.shape(0));
  result.trees.values.assign(values.data(), values.data() + values.shape(0));
  result.trees.offsets.assign(offsets.data(), offsets.data() + offsets.shape(0));
  result.train_curve.assign(train_curve.data(), train_curve.data() + train_curve.shape(0));
  result.valid_curve.assign(valid_curve.data(), valid_curve.data() + valid_curve.shape(0));
  const BoostingParams params{max_leaves, learning_rate, rounds, exact,   split_bits, gradient, min_gain,
                              l2,         max_features,  seed,   patience};
  {
    nb::gil_scoped_release released;
    boost(train, valid, position, params, interrupt_for(cancel), result);
  }
  const size_t n_splits = result.trees.splits.size();
  return nb::make_tuple(give<Split, uint16_t>(std::move(result.trees.splits), {n_splits, 2}),
                        give(std::move(result.trees.gains)), give(std::move(result.trees.values)),
                        give(std::move(result.trees.offsets)), give(std::move(result.train_curve)),
                        give(std::move(result.valid_curve)));
}

nb::tuple refit_conditional(const In2<uint64_t>& columns, size_t n_rows, const Weight& weight, size_t position,
                            size_t n_start, double start_rate, double learning_rate, double l2,
                            const CancelFlag& cancel, const In2<uint16_t>& splits, const In1<int32_t>& values,
                            const In1<int64_t>& offsets) {
  const Sample sample = sample_of(columns, n_rows, weight);
  require(position < columns.shape(0), "position: no such column");
  const TreesView trees = trees_of(splits, values, offsets);
  std::vector<int32_t> renewed(values.shape(0));
  Curve result;
  {
    nb::gil_scoped_release released;
    result =
        refit(sample, position, trees, n_start, start_rate, learning_rate, l2, interrupt_for(cancel), renewed.data());
  }
  return nb::make_tuple(give(std::move(renewed)), give(std::move(result)));
}

Out<double> curve_of(const In2<uint64_t>& columns, size_t n_rows, const Weight& weight, size_t position,
                     const CancelFlag& cancel, const In2<uint16_t>& splits, const In1<int32_t>& values,
                     const In1<int64_t>& offsets) {
  const Sample sample = sample_of(columns, n_rows, weight);
  require(position < columns.shape(0), "position: no such column");
  const TreesView trees = trees_of(splits, values, offsets);
  Curve result;
  {
    nb::gil_scoped_release released;
    result = curve(sample, position, trees, interrupt_for(cancel));
  }
  return give(std::move(result));
}

Out<int32_t> log_odds(const In2<uint64_t>& columns, size_t n_rows, const In2<uint16_t>& splits,
                      const In1<int32_t>& values, const In1<int64_t>& offsets) {
  const Columns c = columns_of(columns, n_rows);
  const TreesView trees = trees_of(splits, values, offsets);
  std::vector<int32_t> result(c.padded_rows());
  {
    nb::gil_scoped_release released;
    kernels().add_trees(c, trees, result.data());
  }
  return give(std::move(result), {n_rows});
}

Out<int64_t> log_likelihoods(const In1<int32_t>& log_odds, const In1<uint64_t>& target) {
  const size_t n = log_odds.shape(0);
  require(target.shape(0) * 64 >= n, "target: too few bits");
  std::vector<int64_t> result(n);
  for (size_t i = 0; i < n; ++i)
    result[i] = log_likelihood(log_odds.data()[i], static_cast<int32_t>(target.data()[i / 64] >> (i % 64) & 1));
  return give(std::move(result));
}

Out<int32_t> probabilities(const In1<int32_t>& log_odds) {
  std::vector<int32_t> result(log_odds.shape(0));
  for (size_t i = 0; i < result.size(); ++i) result[i] = probability(log_odds.data()[i]);
  return give(std::move(result));
}

Out<uint64_t> transposed(const In2<uint8_t>& rows, size_t n_columns) {
  const Rows r = rows_of(rows);
  require(n_columns <= 8 * r.stride, "rows: fewer columns than asked for");
  const size_t words = column_words(r.count);
  std::vector<uint64_t> out(n_columns * words);
  {
    nb::gil_scoped_release released;
    transpose(r, n_columns, out.data());
  }
  return give(std::move(out), {n_columns, words});
}

// Keeps the arrays that it looks at.
class Entropies {
 public:
  Entropies(In2<uint64_t> train, size_t n_train, In2<uint64_t> valid, size_t n_valid, uint64_t seed)
      : train_(std::move(train)),
        valid_(std::move(valid)),
        entropies_(columns_of(train_, n_train), columns_of(valid_, n_valid), train_.shape(0), seed) {
    require(train_.shape(0) == valid_.shape(0), "both halves need the same columns");
  }
  void pick(size_t column) { entropies_.pick(column); }
  std::vector<double> update(const std::vector<size_t>& columns) const {
    std::vector<double> result;
    nb::gil_scoped_release released;
    for (const size_t column : columns) result.push_back(entropies_.update(column));
    return result;
  }

 private:
  In2<uint64_t> train_, valid_;
  ConditionalEntropies entropies_;
};

nb::tuple histogram_of(const In2<uint8_t>& rows, const In1<uint32_t>& index, const In2<uint16_t>& digits,
                       std::optional<size_t> n_columns) {
  Rows r = rows_of(rows);
  require(!n_columns || *n_columns <= 8 * r.stride, "rows: fewer columns than asked for");
  if (n_columns) r.width = (*n_columns + 8 * kScanBytes - 1) / (8 * kScanBytes) * kScanBytes;
  require(digits.shape(0) >= 1 && digits.shape(0) <= kMaxDigits && digits.shape(1) == r.count, "histogram: bad shapes");
  for (size_t i = 0; i < index.shape(0); ++i) require(index.data()[i] < r.count, "index: no such row");
  DigitPlanes planes;
  planes.digits = static_cast<int>(digits.shape(0));
  for (int k = 0; k < planes.digits; ++k) planes.plane[k] = digits.data() + static_cast<size_t>(k) * r.count;
  std::vector<uint32_t> list(index.data(), index.data() + index.shape(0));
  list.resize(list.size() + 8);
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
  return nb::make_tuple(give(std::move(g_out)), give(std::move(h_out)));
}

}  // namespace
}  // namespace lbarn

NB_MODULE(_core, m) {
  using namespace lbarn;
  nb::exception<Cancelled>(m, "Cancelled");
  nb::class_<CancelFlag>(m, "CancelFlag")
      .def(nb::init<>())
      .def("set", [](CancelFlag& flag) { flag = true; })
      .def("is_set", [](const CancelFlag& flag) { return flag.load(); });
  nb::class_<Entropies>(m, "ConditionalEntropies")
      .def(nb::init<In2<uint64_t>, size_t, In2<uint64_t>, size_t, uint64_t>(), "train"_a, "n_train"_a, "valid"_a,
           "n_valid"_a, "seed"_a)
      .def("pick", &Entropies::pick, "column"_a)
      .def("update", &Entropies::update, "columns"_a);
  m.def("simd_path", [] { return std::string(kernels().name); });
  m.def("simd_paths", &available_kernels);
  m.def("choose_simd_path", &choose_kernels, "name"_a);
  m.def("column_words", &column_words, "n_rows"_a);
  m.def("transpose", &transposed, "rows"_a, "n_columns"_a);
  m.def("boost", &boost_conditional, "columns"_a, "n_rows"_a, "weight"_a.none(), "valid_columns"_a, "n_valid"_a,
        "valid_weight"_a.none(), "position"_a, "max_leaves"_a, "learning_rate"_a, "rounds"_a, "exact"_a, "split_bits"_a,
        "gradient"_a, "min_gain"_a, "l2"_a, "max_features"_a, "seed"_a, "patience"_a, "cancel"_a, "splits"_a, "gains"_a,
        "values"_a, "offsets"_a, "train_curve"_a, "valid_curve"_a);
  m.def("refit", &refit_conditional, "columns"_a, "n_rows"_a, "weight"_a.none(), "position"_a, "n_start"_a,
        "start_rate"_a, "learning_rate"_a, "l2"_a, "cancel"_a, "splits"_a, "values"_a, "offsets"_a);
  m.def("curve", &curve_of, "columns"_a, "n_rows"_a, "weight"_a.none(), "position"_a, "cancel"_a, "splits"_a,
        "values"_a, "offsets"_a);
  m.def("log_odds", &log_odds, "columns"_a, "n_rows"_a, "splits"_a, "values"_a, "offsets"_a);
  m.def("log_likelihoods", &log_likelihoods, "log_odds"_a, "target"_a);
  m.def("probabilities", &probabilities, "log_odds"_a);
  m.def("histogram", &histogram_of, "rows"_a, "index"_a, "digits"_a, "n_columns"_a = nb::none());
}
