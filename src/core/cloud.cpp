#include "cloud.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixed_point.hpp"
#include "logistic.hpp"

namespace lbarn {
namespace {

constexpr double kTiny = std::numeric_limits<double>::min();  // smaller ones lose digits
constexpr double kFloor = 1e-300;  // the least weight by which a particle is chosen; its logarithm is right
constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr double kGuess = 1.5;  // times the threshold before: seldom too small
constexpr size_t kLanes = 8;

double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == kNever ? kNever : most + std::log1p(std::exp(std::min(a, b) - most));
}

Light light_of(const double* zeros, const double* ones, size_t count, double c) {
  const Light of_zeros = kernels().light_of(zeros, count, c), of_ones = kernels().light_of(ones, count, c);
  return {of_zeros.weight + of_ones.weight, of_zeros.heavy + of_ones.heavy};
}

// The c at which the sum of min(weight / c, 1) is `limit`; more than so many weigh anything. From a guess that is not
// too small, or else from above, c falls while there are more and more that are heavier, and is right when there are
// no more, or if c, rounded, rises again: weights may be the same but for their last digit.
double threshold_of(const double* zeros, const double* ones, size_t count, size_t limit, double guess) {
  Light light = light_of(zeros, ones, count, guess);
  if (light.heavy >= limit || light.weight > guess * static_cast<double>(limit - light.heavy))
    light = light_of(zeros, ones, count, std::numeric_limits<double>::infinity());
  for (;;) {
    const double c = light.weight / static_cast<double>(limit - light.heavy);
    const Light next = light_of(zeros, ones, count, c);
    if (next.heavy <= light.heavy || next.heavy >= limit) return std::max(c, std::numeric_limits<double>::denorm_min());
    light = next;
  }
}

}  // namespace

double sum_of(const double* values, size_t count) {
  double sum[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) sum[l] += values[i + l];
  for (; i < count; ++i) sum[0] += values[i];
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

double Cloud::log_marginal() const {
  return islands() == 1 ? log_marginal_[0] : log_add(log_marginal_[0], log_marginal_[1]) - std::log(2.0);
}

std::vector<double> Cloud::weights_together() const {
  std::vector<double> weight = weight_;
  for (size_t island = 0; islands() > 1 && island < islands(); ++island) {
    const double share = 0.5 * std::exp(log_marginal_[island] - log_marginal());
    for (size_t i = begin(island); i < end(island); ++i) weight[i] *= share;
  }
  return weight;
}

double Cloud::share_of_ones(size_t island, size_t feature) const {
  const Slot slot = slots_[feature];
  if (slot < 0) return slot == kAllOne ? 1.0 : 0.0;
  const uint64_t* word = bits_.data() + static_cast<size_t>(slot) / 64;
  double zeros[kLanes] = {}, ones[kLanes] = {};
  for (size_t i = begin(island), lane = 0; i < end(island); ++i, lane = (lane + 1) % kLanes) {
    const auto bit = static_cast<double>(word[i * words_] >> slot % 64 & 1);
    zeros[lane] += (1.0 - bit) * weight_[i];
    ones[lane] += bit * weight_[i];
  }
  const double one = sum_of(ones, kLanes);
  return one / (sum_of(zeros, kLanes) + one);
}

void Cloud::divide(const Ahead& ahead) {
  for (std::vector<double>& children : child_) children.resize((size() + 63) / 64 * 64);
  if (log_weight_.empty()) {
    if (divide_plain(ahead)) return;
    take_logarithms();
  }
  divide_logarithms(ahead);
}

void Cloud::pass(const int32_t* log_odds, bool side) {
  for (std::vector<double>& children : child_) children.resize((size() + 63) / 64 * 64);
  if (log_weight_.empty()) {
    if (pass_plain(log_odds, side)) return;
    take_logarithms();
  }
  divide_logarithms({log_odds, {side ? 0.0 : 1.0, side ? 1.0 : 0.0}});
  join();
}

void Cloud::take_logarithms() {
  log_weight_.resize(size());
  for (size_t i = 0; i < size(); ++i) log_weight_[i] = std::log(weight_[i]);
}

// False where numbers leave the range of doubles.
bool Cloud::divide_plain(const Ahead& ahead) {
  const size_t n = size();
  kernels().chances(ahead.log_odds, child_[0].size(), child_[0].data(), child_[1].data());
  for (size_t i = 0; ahead.falls && i < n; ++i) {
    if (ahead.falls[i]) continue;
    child_[0][i] = 1.0;
    child_[1][i] = 0.0;
  }
  const double* weight = weight_.data();
  uint32_t lost = 0;
  for (size_t side = 0; side < 2; ++side) {
    double* child = child_[side].data();
    if (const double* seen = ahead.seen_by[side])
      for (size_t i = 0; i < n; ++i) {
        child[i] *= weight[i] * seen[i];
        lost |= static_cast<uint32_t>((child[i] < kTiny) & (seen[i] > 0.0));
      }
    else
      for (size_t i = 0; i < n; ++i) {
        child[i] *= weight[i] * ahead.seen[side];
        lost |= static_cast<uint32_t>(child[i] < kTiny) & static_cast<uint32_t>(ahead.seen[side] > 0.0);
      }
  }
  if (lost) return false;
  for (size_t island = 0; island < islands(); ++island) {
    for (size_t side = 0; side < 2; ++side)
      share_[island][side] = sum_of(child_[side].data() + begin(island), end(island) - begin(island));
    if (!(share_[island][0] + share_[island][1] > 0.0)) return false;
  }
  for (size_t island = 0; island < islands(); ++island) {
    const double total = share_[island][0] + share_[island][1], scale = 1.0 / total;
    for (size_t side = 0; side < 2; ++side) {
      for (size_t i = begin(island); i < end(island); ++i) child_[side][i] *= scale;
      share_[island][side] *= scale;
    }
    log_marginal_[island] += std::log(total);
  }
  return true;
}

bool Cloud::pass_plain(const int32_t* log_odds, bool side) {
  kernels().chances(log_odds, child_[0].size(), child_[0].data(), child_[1].data());
  double* child = child_[side].data();
  uint32_t lost = 0;
  for (size_t i = 0; i < size(); ++i) {
    child[i] *= weight_[i];
    lost |= static_cast<uint32_t>(child[i] < kTiny);
  }
  if (lost) return false;
  for (size_t island = 0; island < islands(); ++island) {
    const double total = sum_of(child + begin(island), end(island) - begin(island)), scale = 1.0 / total;
    for (size_t i = begin(island); i < end(island); ++i) weight_[i] = child[i] * scale;
    log_marginal_[island] += std::log(total);
  }
  return true;
}

void Cloud::divide_logarithms(const Ahead& ahead) {
  for (std::vector<double>& children : log_child_) children.resize(size());
  for (size_t island = 0; island < islands(); ++island) {
    const size_t from = begin(island), to = end(island);
    double most = kNever;
    for (int32_t side = 0; side < 2; ++side)
      for (size_t i = from; i < to; ++i) {
        const bool falls = !ahead.falls || ahead.falls[i];
        const double seen = falls  ? (ahead.seen_by[side] ? ahead.seen_by[side][i] : ahead.seen[side])
                            : side ? 0.0
                                   : 1.0;
        const double log_p = falls ? static_cast<double>(log_likelihood(ahead.log_odds[i], side)) * kUnit : 0.0;
        const double log_child = log_weight_[i] + log_p + std::log(seen);
        log_child_[side][i] = log_child;
        most = std::max(most, log_child);
      }
    if (most == kNever) {  // nothing is possible: whatever follows does not count
      for (size_t i = from; i < to; ++i) {
        log_child_[0][i] = log_weight_[i];
        child_[0][i] = weight_[i];
        log_child_[1][i] = kNever;
        child_[1][i] = 0.0;
      }
      share_[island][0] = 1.0;
      share_[island][1] = 0.0;
      log_marginal_[island] = kNever;
      continue;
    }
    double total = 0.0;
    for (size_t side = 0; side < 2; ++side) {
      for (size_t i = from; i < to; ++i) child_[side][i] = std::exp(log_child_[side][i] - most);
      total += sum_of(child_[side].data() + from, to - from);
    }
    const double log_total = most + std::log(total);
    for (size_t side = 0; side < 2; ++side) {
      for (size_t i = from; i < to; ++i) {
        double& log_child = log_child_[side][i];
        log_child -= log_total;
        child_[side][i] = log_child == kNever ? 0.0 : std::max(std::exp(log_child), kFloor);
      }
      share_[island][side] = sum_of(child_[side].data() + from, to - from);
    }
    log_marginal_[island] += log_total;
  }
}

void Cloud::join() {
  for (size_t i = 0; i < size(); ++i) weight_[i] = child_[0][i] + child_[1][i];
  for (size_t i = 0; i < log_weight_.size(); ++i) log_weight_[i] = log_add(log_child_[0][i], log_child_[1][i]);
}

// More than `limit` children of an island weigh anything.
bool Cloud::crowded(size_t island, size_t limit) const {
  if (2 * (end(island) - begin(island)) <= limit) return false;
  size_t n_children = 0;
  for (const std::vector<double>& children : child_)
    for (size_t i = begin(island); i < end(island); ++i) n_children += children[i] > 0.0;
  return n_children > limit;
}

bool Cloud::branch(size_t limit, std::vector<uint8_t>& side) {
  ++n_branchings_;
  struct Part {
    size_t from, to;  // of the parents
    bool crowded;
    size_t shift = 0;  // of the parents
  };
  std::vector<Part> parts;
  for (size_t island = 0; island < islands(); ++island)
    parts.push_back({begin(island), end(island), crowded(island, limit)});
  if (const int only = only_side(limit, parts[0].crowded, parts.back().crowded); only >= 0) {
    side.assign(size(), static_cast<uint8_t>(only));
    std::copy_n(child_[only].begin(), size(), weight_.begin());
    return false;
  }
  size_t n = size();
  if (islands() == 1 && parts_ && parts[0].crowded) {  // two islands from the same parents
    const bool logarithms = !log_weight_.empty();
    for (size_t s = 0; s < 2; ++s) {
      child_[s].resize(2 * n);
      std::copy_n(child_[s].begin(), n, child_[s].begin() + static_cast<std::ptrdiff_t>(n));
      if (!logarithms) continue;
      log_child_[s].resize(2 * n);
      std::copy_n(log_child_[s].begin(), n, log_child_[s].begin() + static_cast<std::ptrdiff_t>(n));
    }
    parts.push_back({n, 2 * n, true, n});
    n *= 2;
    log_marginal_[1] = log_marginal_[0];
    added_[1] = added_[0];
  }
  const bool rare = rare_chance_[0] < 1.0 || rare_chance_[1] < 1.0;
  const bool thinned = rare || std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.crowded; });
  const bool logarithms = !log_weight_.empty();
  for (std::vector<double>& chances : chance_) chances.assign(thinned ? n : 0, 1.0);
  end_.clear();
  const size_t room = 2 * n + 1;
  if (parent_.size() < room) parent_.resize(room);
  if (kept_with_.size() < room) kept_with_.resize(room);
  if (side.size() < room) side.resize(room);
  weight_.resize(room);
  log_weight_.resize(logarithms ? room : 0);
  size_t count = 0;
  for (size_t island = 0; island < parts.size(); ++island) {
    const Part& part = parts[island];
    if (part.crowded) thin(island, part.from, part.to, limit);
    if (rare_chance_[island] < 1.0)
      for (size_t i = part.from; i < part.to; ++i) chance_[rare_side_[island]][i] *= rare_chance_[island];
    for (size_t i = part.from; i < part.to; ++i)
      for (size_t s = 0; s < 2; ++s) {  // without a branch, as above: what is not kept is written over
        parent_[count] = static_cast<uint32_t>(i - part.shift);
        side[count] = static_cast<uint8_t>(s);
        weight_[count] = child_[s][i];
        if (thinned) kept_with_[count] = static_cast<float>(chance_[s][i]);
        if (logarithms) log_weight_[count] = log_child_[s][i] - (thinned ? std::log(chance_[s][i]) : 0.0);
        count += child_[s][i] > 0.0;
      }
    end_.push_back(count);
  }
  Generation next;
  next.parent.assign(parent_.data(), parent_.data() + count);
  if (thinned) next.chance.assign(kept_with_.data(), kept_with_.data() + count);
  side.resize(count);
  weight_.resize(count);
  log_weight_.resize(logarithms ? count : 0);
  take(next.parent);
  generations_.push_back(std::move(next));
  return true;
}

// If all children on one side together weigh less than a particle should, one draw decides about all of them: they are
// left out, or weigh as much as a particle. That leaves the total weight as it was, on average the children's, too. The
// side that is taken if both islands leave out the other one, or -1.
int Cloud::only_side(size_t limit, bool crowded, bool last_crowded) {
  rare_chance_[0] = rare_chance_[1] = 1.0;
  if (!log_weight_.empty() || (parts_ && islands() == 1)) return -1;
  int only = -1;
  bool same = true;
  for (size_t island = 0; island < islands(); ++island) {
    if (!(island ? last_crowded : crowded)) {
      same = false;
      continue;
    }
    const double* shares = share_[island];
    const size_t rare = shares[1] < shares[0] ? 1 : 0;
    const double chance = shares[rare] * static_cast<double>(limit);
    if (!(chance < 1.0) || !(shares[rare] > 0.0)) {
      same = false;
      continue;
    }
    const RoundKey key = round_key(key_, 2 * n_branchings_ + island, ~uint64_t{0} - limit);
    const bool kept = uniform(key, 0) < chance;
    const double of_rare = kept ? 1.0 / chance : 0.0;
    const double of_others = (1.0 - of_rare * shares[rare]) / (1.0 - shares[rare]);
    for (size_t i = begin(island); i < end(island); ++i) {
      child_[rare][i] *= of_rare;
      child_[1 - rare][i] *= of_others;
    }
    rare_side_[island] = rare;
    rare_chance_[island] = chance;
    if (threshold_ == 0.0) threshold_ = shares[rare];
    same = same && !kept && (only < 0 || only == static_cast<int>(1 - rare));
    only = static_cast<int>(1 - rare);
  }
  return same ? only : -1;
}

// Leaves weight to `limit` of the children. How many a parent keeps is spread evenly over the parents, which are in the
// order of their bits, so seldom does a family die out; which of two children stays is for every parent to draw on its
// own.
void Cloud::thin(size_t island, size_t from, size_t to, size_t limit) {
  double* child[2] = {child_[0].data() + from, child_[1].data() + from};
  double* chance[2] = {chance_[0].data() + from, chance_[1].data() + from};
  const size_t n = to - from;
  const double threshold = threshold_of(child[0], child[1], n, limit, kGuess * threshold_);
  const double per_threshold = 1.0 / threshold;
  double expected_in_all = 0.0;
  for (size_t s = 0; s < 2; ++s) {
    for (size_t i = 0; i < n; ++i) chance[s][i] = std::min(child[s][i] * per_threshold, 1.0);
    expected_in_all += sum_of(chance[s], n);
  }
  const double scale = static_cast<double>(limit) / expected_in_all;
  const RoundKey key = round_key(key_, 2 * n_branchings_ + island, limit);
  const double start = uniform(key, 0);
  double end = 0.0, noise[2] = {};
  int64_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    const double a = chance[0][i], b = chance[1][i], expected = a + b;
    end += expected * scale;
    const auto upto = static_cast<int64_t>(end + start);
    const int64_t n_kept = upto - kept;  // expected, rounded up or down
    kept = upto;
    // Of two children with chances a and b one is kept with probability a + b, or 2 - a - b where that is above 1.
    const bool few = expected <= 1.0;
    const double u = uniform(key, static_cast<uint32_t>(i + 1)) * (few ? expected : 2.0 - expected);
    const bool first = u < (few ? a : 1.0 - b);
    for (size_t s = 0; s < 2; ++s) {  // without a branch, which could not be foreseen
      const int64_t needed = first == (s == 0) ? 1 : 2;
      double& own = child[s][i];
      const double is_kept = static_cast<int>(n_kept >= needed) & static_cast<int>(own > 0.0);
      noise[s] += is_kept * (1.0 - chance[s][i]);
      own = is_kept * std::max(own, threshold);
    }
  }
  added_[island] += (noise[0] + noise[1]) * threshold * threshold;
  threshold_ = threshold;
}

void Cloud::take(const std::vector<uint32_t>& parent) {
  spare_bits_.resize(parent.size() * words_);
  uint64_t* to = spare_bits_.data();
  for (const uint32_t own : parent)
    for (size_t w = 0; w < words_; ++w) *to++ = bits_[own * words_ + w];
  bits_.swap(spare_bits_);
  settle();
}

// Bits that are now the same in all particles are kept for none.
void Cloud::settle() {
  for (size_t w = 0; w < words_; ++w) {
    uint64_t any = 0, all = ~uint64_t{0};
    for (size_t at = w; at < bits_.size(); at += words_) {
      any |= bits_[at];
      all &= bits_[at];
    }
    for (uint64_t left = in_use_[w] & (all | ~any); left; left &= left - 1) {
      const auto b = static_cast<size_t>(__builtin_ctzll(left));
      set_all(feature_[64 * w + b], all >> b & 1);
      in_use_[w] &= ~(uint64_t{1} << b);
      free_.push_back(static_cast<Slot>(64 * w + b));
    }
  }
}

void Cloud::set(size_t feature, const std::vector<uint8_t>& ones) {
  const auto count = static_cast<size_t>(std::count(ones.begin(), ones.end(), uint8_t{1}));
  if (count == 0 || count == ones.size()) {
    set_all(feature, count != 0);
    return;
  }
  if (free_.empty()) {
    std::vector<uint64_t> wider(size() * (words_ + 1));
    for (size_t i = 0; i < size(); ++i) std::copy_n(bits_.data() + i * words_, words_, wider.data() + i * (words_ + 1));
    bits_ = std::move(wider);
    for (size_t b = 64; b-- > 0;) free_.push_back(static_cast<Slot>(64 * words_ + b));
    ++words_;
    feature_.resize(64 * words_);
    in_use_.resize(words_);
  }
  const Slot slot = free_.back();
  free_.pop_back();
  slots_[feature] = slot;
  const size_t word = static_cast<size_t>(slot) / 64, shift = static_cast<size_t>(slot) % 64;
  feature_[static_cast<size_t>(slot)] = static_cast<uint16_t>(feature);
  in_use_[word] |= uint64_t{1} << shift;
  for (size_t i = 0; i < size(); ++i) {
    uint64_t& own = bits_[i * words_ + word];
    own = (own & ~(uint64_t{1} << shift)) | uint64_t{ones[i]} << shift;
  }
}

// Particles soon have few ancestors, so only these are looked at.
double added_variance(const std::vector<Generation>& generations, std::vector<double> weight) {
  double variance = 0.0;
  std::vector<double> before;
  std::vector<uint32_t> own(weight.size()), parents;
  for (uint32_t i = 0; i < own.size(); ++i) own[i] = i;
  for (size_t g = generations.size(); g-- > 0;) {
    const Generation& generation = generations[g];
    before.resize(g ? generations[g - 1].parent.size() : 1);
    for (const uint32_t i : own) before[generation.parent[i]] = 0.0;
    parents.clear();
    for (const uint32_t i : own) {
      if (!generation.chance.empty())
        variance += weight[i] * weight[i] * (1.0 - static_cast<double>(generation.chance[i]));
      const uint32_t parent = generation.parent[i];
      if (parents.empty() || parents.back() != parent) parents.push_back(parent);
      before[parent] += weight[i];
    }
    // Two islands may have the same parents.
    if (!std::is_sorted(parents.begin(), parents.end())) {
      std::sort(parents.begin(), parents.end());
      parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
    }
    own.swap(parents);
    weight.swap(before);
  }
  return variance;
}

}  // namespace lbarn
