// Trains, continues and refits one conditional P(x_d | x_1..x_{d-1}) by LogitBoost, on one thread.
#pragma once

#include <functional>
#include <vector>

#include "round.hpp"

namespace lbarn {

// Called between trees; throws to stop.
using Interrupt = std::function<void()>;

// Mean log-likelihood per row (nats, weighted) after t = 0, 1, ... trees.
using Curve = std::vector<double>;

struct Boosted {
  Trees trees;
  Curve train_curve;
  Curve valid_curve;
};

// Adds rounds to `boosted` up to parameters.max_iter. Curves grow with the trees; if they are empty they begin at t =
// 0, with the trees that are there. Patience begins after the first `n_start` trees. `valid` may have no rows.
void boost(const WeightedRows& train, const WeightedRows& valid, size_t position, const BoostingParameters& parameters,
           uint64_t seed, size_t n_start, const Interrupt& interrupt, Boosted& boosted);

// New leaf values for the same splits, round by round, into `values`, and the limit that goes with them. The first
// `n_start` trees have a learning rate of their own, or keep their values if there is none.
int32_t refit(const WeightedRows& rows, size_t position, const TreesView& trees, const BoostingParameters& parameters,
              size_t n_start, std::optional<double> start_rate, const Interrupt& interrupt, int32_t* values);

// The curve of any rows under trained trees.
Curve curve(const WeightedRows& rows, size_t position, const TreesView& trees, const Interrupt& interrupt);

}  // namespace lbarn
