// One round of boosting: from g and h of the training rows to a tree, and to the sums that its leaves are made of.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "grower.hpp"
#include "walker.hpp"

namespace lbarn {

enum class BoostingKind { newton, gradient };
enum class SplitKind { fast, exact };

// The words are those of lbarn.LBARN.
struct BoostingParameters {
  size_t max_leaf_nodes = 16;
  double learning_rate = 0.02;
  size_t max_iter = 1000;                        // in all, those of the trees given included
  BoostingKind boosting = BoostingKind::newton;  // gradient: split on the gradient alone
  SplitKind splits = SplitKind::fast;            // exact: round g and h to 24 bits; fast: stochastically to split_bits
  int split_bits = 6;
  double min_gain = 0.0;
  double l1_regularization = 0.0;
  double l2_regularization = 0.0;
  bool cap = false;                        // no probability below 1 / (2 (n + 1)) after n rows
  double max_features = 1.0;               // share of the predictors that a tree may split on
  std::optional<size_t> n_iter_no_change;  // stop when validation has not improved for this many rounds; 0 is never too
};

// Whether the sums of so many rows fit those over cells.
bool fits_cells(const BoostingParameters& parameters, const Walker& training);

// Kept from round to round, with all that a round needs room for.
class Round {
 public:
  // All must outlive it. Of the parameters it looks at those that decide splits.
  Round(const Kernels& kernels, const Walker& training, const Predictors& predictors,
        const BoostingParameters& parameters, CellPredictors cells = {});

  // Grows a tree and assigns the training rows to its leaves. `summary` is what the last `advance` has returned.
  void grow(Walker& training, const RoundSummary& summary, RoundKey key);

  const std::vector<Split>& splits() const { return *splits_; }
  const std::vector<LeafSum>& sums() const { return sums_; }  // of the true g and h, per leaf

 private:
  void combine_digits(size_t rows);
  void draw_features(RoundKey key);

  const Kernels& kernels_;
  const BoostingParameters& parameters_;
  CellPredictors cells_;
  Grower grower_;
  Quantiser quantiser_;
  std::vector<std::vector<uint16_t>> digits_;
  std::vector<uint64_t> active_;
  std::vector<int32_t> weights_;  // what gradient boosting divides by instead of h
  int32_t max_weight_ = 0;
  double most_weight_ = 0.0;       // times a row's count
  std::vector<uint64_t> values_;   // empty where there are no cells
  std::vector<double> keep_;       // empty where all features may be split on
  std::vector<uint8_t> kept_;      // the features that may be, by number
  std::vector<uint32_t> numbers_;  // of the predictors
  const std::vector<Split>* splits_ = nullptr;
  std::vector<LeafSum> sums_;
};

}  // namespace lbarn
