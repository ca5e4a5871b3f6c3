#include "entropy.hpp"

#include <algorithm>
#include <utility>

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
  Walker training(kernels_, {train_}, column, true), validation(kernels_, {valid_}, column, false);
  std::vector<LeafSum> sums;
  int32_t value = 0, total = 0;
  for (size_t round = 0; round < kBaseRounds; ++round) {
    training.advance(&value);
    training.sum_leaves(1, sums);
    value = leaf_value(sums[0], {1.0, 0.0, kL2 * kPerUnit});
    total += value;
  }
  training.advance(&value);
  state.log_likelihood = validation.advance_score(&total);
  state.train_log_odds = training.take_log_odds();
  state.valid_log_odds = validation.take_log_odds();
}

double ConditionalEntropies::update(size_t column) const {
  require_waiting(column);
  State& state = states_[column];
  Walker training(kernels_, {train_}, column, true, std::move(state.train_log_odds));
  Walker validation(kernels_, {valid_}, column, false, std::move(state.valid_log_odds));
  BoostingParameters parameters;
  parameters.max_leaf_nodes = kLeaves;
  Round round(kernels_, training, picked_, parameters);
  const int32_t none = 0;
  RoundSummary summary = training.advance(&none);
  std::vector<int32_t> values;

  for (size_t i = 0; i < kRounds; ++i, ++state.round) {
    round.grow(training, summary, round_key(seed_, column, state.round));
    values.clear();
    for (const LeafSum& sum : round.sums()) values.push_back(leaf_value(sum, {kRate, 0.0, kL2 * kPerUnit}));
    validation.assign({round.splits().data(), round.splits().size(), nullptr});
    const int64_t log_likelihood = validation.advance_score(values.data());
    if (log_likelihood > state.log_likelihood) {
      state.log_likelihood = log_likelihood;
    } else {
      for (int32_t& value : values) value = -value;
      validation.advance_score(values.data());
      std::fill(values.begin(), values.end(), 0);
    }
    summary = training.advance(values.data());
  }
  state.train_log_odds = training.take_log_odds();
  state.valid_log_odds = validation.take_log_odds();
  return validation.mean(-state.log_likelihood);
}

}  // namespace lbarn
