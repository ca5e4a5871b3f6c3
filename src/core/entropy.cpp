#include "entropy.hpp"

#include "grower.hpp"
#include "leaves.hpp"
#include "require.hpp"

namespace lbarn {
namespace {

constexpr size_t kLeaves = 8;
constexpr size_t kRounds = 2;  // per pick
constexpr double kRate = 0.3;
constexpr double kL2 = 1.0;
constexpr size_t kBaseRounds = 12;

}  // namespace

ConditionalEntropies::ConditionalEntropies(const Columns& train, const Columns& valid, size_t n_columns, uint64_t seed)
    : kernels_(kernels()),
      train_(train),
      valid_(valid),
      seed_(seed),
      picked_(Predictors::with_room(train, n_columns)),
      states_(n_columns) {
  for (size_t column = 0; column < n_columns; ++column) start_at_base_rate(column, states_[column]);
}

void ConditionalEntropies::require_waiting(size_t column) const {
  require(column < states_.size() && !states_[column].picked, "column: picked, or not there");
}

void ConditionalEntropies::pick(size_t column) {
  require_waiting(column);
  picked_.append(train_, column);
  states_[column] = State{};
  states_[column].picked = true;
}

// Newton's steps for one leaf.
void ConditionalEntropies::start_at_base_rate(size_t column, State& state) const {
  state.train_log_odds.assign(train_.padded_rows(), 0);
  state.valid_log_odds.assign(valid_.padded_rows(), 0);
  std::vector<int32_t> g(train_.padded_rows()), h(train_.padded_rows());
  const std::vector<uint16_t> leaf(std::max(train_.padded_rows(), valid_.padded_rows()), 0);
  const RowState train{train_.rows, train_.column(column), nullptr, state.train_log_odds.data(), g.data(), h.data()};
  const RowState valid{valid_.rows, valid_.column(column), nullptr, state.valid_log_odds.data(), nullptr, nullptr};
  int32_t value = 0, total = 0;
  for (size_t round = 0; round < kBaseRounds; ++round) {
    kernels_.advance(train, leaf.data(), &value);
    LeafSum sum;
    kernels_.sum_leaves(train, leaf.data(), 1, &sum);
    value = leaf_value(sum, {1.0, kL2 * kPerUnit});
    total += value;
  }
  kernels_.advance(train, leaf.data(), &value);
  state.log_likelihood = kernels_.advance_score(valid, leaf.data(), &total);
}

double ConditionalEntropies::update(size_t column) const {
  require_waiting(column);
  State& state = states_[column];
  std::vector<int32_t> g(train_.padded_rows()), h(train_.padded_rows());
  std::vector<uint16_t> leaf(train_.padded_rows()), valid_leaf(valid_.padded_rows()), digits(train_.padded_rows());
  std::vector<uint64_t> active(train_.words);
  const RowState train{train_.rows, train_.column(column), nullptr, state.train_log_odds.data(), g.data(), h.data()};
  const RowState valid{valid_.rows, valid_.column(column), nullptr, state.valid_log_odds.data(), nullptr, nullptr};
  DigitPlanes planes;
  planes.digits = 1;
  planes.plane[0] = digits.data();
  uint16_t* const plane_data[1] = {digits.data()};
  Grower grower(kernels_, train_, picked_);
  std::vector<LeafSum> sums;
  std::vector<int32_t> values;
  int32_t none = 0;
  RoundSummary summary = kernels_.advance(train, leaf.data(), &none);

  for (size_t i = 0; i < kRounds; ++i, ++state.round) {
    Quantiser how{1, 31, 63, true, round_key(seed_, column, state.round)};
    const QuantisedTotals totals = kernels_.quantise(train_.rows, g.data(), h.data(), summary.max_g, summary.max_h, how,
                                                     plane_data, active.data());
    const std::vector<Split>& splits = grower.grow(planes, active.data(), totals, {kLeaves, 0.0, 0.0});
    sums.resize(splits.size() + 1);
    values.resize(sums.size());
    const Tree tree{splits.data(), splits.size(), values.data()};
    kernels_.assign_leaves(train_, tree, leaf.data());
    kernels_.sum_leaves(train, leaf.data(), sums.size(), sums.data());
    for (size_t l = 0; l < sums.size(); ++l) values[l] = leaf_value(sums[l], {kRate, kL2 * kPerUnit});
    kernels_.assign_leaves(valid_, tree, valid_leaf.data());
    const int64_t log_likelihood = kernels_.advance_score(valid, valid_leaf.data(), values.data());
    if (log_likelihood > state.log_likelihood) {
      state.log_likelihood = log_likelihood;
    } else {
      for (int32_t& value : values) value = -value;
      kernels_.advance_score(valid, valid_leaf.data(), values.data());
      std::fill(values.begin(), values.end(), 0);
    }
    summary = kernels_.advance(train, leaf.data(), values.data());
  }
  return valid_.rows ? -static_cast<double>(state.log_likelihood) * kUnit / static_cast<double>(valid_.rows) : 0.0;
}

}  // namespace lbarn
