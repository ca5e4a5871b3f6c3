// Conditional entropies given a growing set of picked variables, for the greedy orders.
//
// Every variable keeps boosted log-odds on two halves of the rows. After each pick it gets a few more trees on the
// picked columns, grown on one half and kept only where they raise the likelihood of the other, which is the estimate.
#pragma once

#include <vector>

#include "round.hpp"

namespace lbarn {

class ConditionalEntropies {
 public:
  ConditionalEntropies(const Columns& train, const Columns& valid, size_t n_columns, uint64_t seed);

  void pick(size_t column);

  // Renews the estimate of one column that is not picked. Calls for different columns may run at the same time.
  double update(size_t column) const;

 private:
  struct State {
    std::vector<int32_t> train_log_odds, valid_log_odds;
    size_t round = 0;
    bool picked = false;
    int64_t log_likelihood = 0;  // of the validation half
  };

  void require_waiting(size_t column) const;
  void start_at_base_rate(size_t column, State& state) const;

  const Kernels& kernels_;
  Columns train_, valid_;
  uint64_t seed_;
  Predictors picked_;
  mutable std::vector<State> states_;
};

}  // namespace lbarn
