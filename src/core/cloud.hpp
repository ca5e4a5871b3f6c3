// The particles of one row: different beginnings of it, each with a weight.
//
// Only bits in which particles differ are kept for each of them. At an unknown bit every particle has two children, and
// if there are more than a limit, some are kept by the resampling of Fearnhead and Clifford (2003), the least noise
// there is without bias: a child heavier than a threshold stays as it is, and each lighter one stays with a chance in
// proportion to its weight and then weighs as much as the threshold. That leaves the total weight as it was.
//
// At the first thinning the particles may part into two islands, each thinned by itself from then on: how far their
// answers are apart tells the error. The weights of an island sum to 1.
#pragma once

#include <cstdint>
#include <vector>

#include "narrow.hpp"
#include "random.hpp"

namespace lbarn {

// A number in (0, 1).
inline double uniform(RoundKey key, uint32_t number) { return (row_bits(key, number) + 0.5) * 0x1p-32; }

// In a fixed order, whatever the machine.
double sum_of(const double* values, size_t count);

// Where the particles come from that were left after a branching.
struct Generation {
  std::vector<uint32_t> parent;
  std::vector<float> chance;  // with which each was kept; empty if all were
};

// What thinning has added to the relative variance of the weights that particles have in the end: one that was kept
// with chance q adds 1 - q times the square of the weight that its descendants have.
double added_variance(const std::vector<Generation>& generations, std::vector<double> weight);

class Cloud {
 public:
  // One particle, no bit of which is set.
  Cloud(size_t n_features, uint64_t key, bool parts)
      : slots_(n_features, kAllZero), weight_(1, 1.0), parts_(parts), key_(key) {}

  size_t size() const { return weight_.size(); }
  size_t islands() const { return end_.size(); }
  size_t begin(size_t island) const { return island ? end_[island - 1] : 0; }
  size_t end(size_t island) const { return end_[island]; }
  double log_marginal(size_t island) const { return log_marginal_[island]; }
  double log_marginal() const;  // of both together
  std::vector<double> weights_together() const;
  const std::vector<double>& weight() const { return weight_; }
  ParticleBits bits() const { return {bits_.data(), words_}; }
  std::vector<Slot>& slots() { return slots_; }
  size_t words() const { return words_; }
  bool bit(size_t particle, size_t feature) const {
    const Slot slot = slots_[feature];
    if (slot < 0) return slot == kAllOne;
    return bits_[particle * words_ + static_cast<size_t>(slot) / 64] >> slot % 64 & 1;
  }

  double share_of_ones(size_t island, size_t feature) const;

  // What comes next: the log-odds of a 1 for each particle, and how likely either side makes what was seen, for each or
  // for all. One that does not fall stays as it is.
  struct Ahead {
    const int32_t* log_odds;  // room for whole words
    double seen[2];
    const double* seen_by[2] = {nullptr, nullptr};  // null: it is the same for all
    const uint8_t* falls = nullptr;                 // null: all
  };

  // Weighs the two children of every particle; the marginal is multiplied by what they weigh together.
  void divide(const Ahead& ahead);
  double share(size_t island, size_t side) const { return share_[island][side]; }  // of the children on that side

  // Then: no particle has more than one child that counts. Or up to `limit` of an island's children are kept: which
  // side each one took; if there is a new generation, it tells where they come from, and otherwise each has one child.
  void join();
  bool branch(size_t limit, std::vector<uint8_t>& side);

  // Both at once, where all particles go to the same side.
  void pass(const int32_t* log_odds, bool side);

  // Bit `feature` of every particle, or of all.
  void set(size_t feature, const std::vector<uint8_t>& ones);
  void set_all(size_t feature, bool one) { slots_[feature] = one ? kAllOne : kAllZero; }

  double threshold() const { return threshold_; }               // of the last thinning, 0 before
  double added(size_t island) const { return added_[island]; }  // relative variance by thinnings, each when it happened
  const std::vector<Generation>& generations() const { return generations_; }

  // Numbers in (0, 1) that this row's particles have not used.
  RoundKey key_for(uint64_t purpose) const { return round_key(key_, purpose, ~uint64_t{0}); }

 private:
  bool divide_plain(const Ahead& ahead);
  void divide_logarithms(const Ahead& ahead);
  bool pass_plain(const int32_t* log_odds, bool side);
  void take_logarithms();
  void thin(size_t island, size_t from, size_t to, size_t limit);
  bool crowded(size_t island, size_t limit) const;
  int only_side(size_t limit, bool crowded, bool last_crowded);
  void take(const std::vector<uint32_t>& parent);
  void settle();

  std::vector<Slot> slots_;        // by feature
  std::vector<uint16_t> feature_;  // by slot
  std::vector<Slot> free_;         // slots
  size_t words_ = 0;
  std::vector<uint64_t> bits_, spare_bits_;
  std::vector<uint64_t> in_use_;  // slots
  std::vector<double> weight_;
  std::vector<double> log_weight_;                           // empty while doubles are enough
  std::vector<double> child_[2], log_child_[2], chance_[2];  // by side, for every particle
  std::vector<uint32_t> parent_;                             // as a generation has them
  std::vector<float> kept_with_;
  double share_[2][2] = {};  // by island and side
  std::vector<Generation> generations_;
  std::vector<size_t> end_{1};  // of the islands
  double log_marginal_[2] = {0.0, 0.0};
  double threshold_ = 0.0, added_[2] = {0.0, 0.0};
  double rare_chance_[2] = {1.0, 1.0};  // by island, with which the children of one side were kept
  size_t rare_side_[2] = {0, 0};
  size_t n_branchings_ = 0;
  bool parts_;
  uint64_t key_;
};

}  // namespace lbarn
