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

struct Light {
  double weight;  // of those that are not heavier than c
  size_t heavy;   // as many are
};

Light light_of(const double* weight, size_t count, double c) {
  double sum[kLanes] = {};
  uint64_t heavy[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) {
      const double w = weight[i + l];
      sum[l] += w > c ? 0.0 : w;
      heavy[l] += w > c;
    }
  for (; i < count; ++i) {
    sum[0] += weight[i] > c ? 0.0 : weight[i];
    heavy[0] += weight[i] > c;
  }
  size_t all = 0;
  for (const uint64_t each : heavy) all += each;
  return {sum_of(sum, kLanes), all};
}

// The c at which the sum of min(weight / c, 1) is `limit`; more than so many weigh anything. From a guess that is not
// too small, or else from above, c falls while there are more and more that are heavier, and is right when there are
// none.
double threshold_of(const double* weight, size_t count, size_t limit, double guess) {
  Light light = light_of(weight, count, guess);
  if (light.heavy >= limit || light.weight > guess * static_cast<double>(limit - light.heavy))
    light = light_of(weight, count, std::numeric_limits<double>::infinity());
  for (;;) {
    const double c = light.weight / static_cast<double>(limit - light.heavy);
    const Light next = light_of(weight, count, c);
    if (next.heavy == light.heavy || next.heavy >= limit) return std::max(c, std::numeric_limits<double>::denorm_min());
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

void Cloud::divide(const Ahead& ahead) {
  child_.resize(2 * size());
  if (log_weight_.empty()) {
    if (divide_plain(ahead)) return;
    log_weight_.resize(size());
    for (size_t i = 0; i < size(); ++i) log_weight_[i] = std::log(weight_[i]);
  }
  divide_logarithms(ahead);
}

// False where numbers leave the range of doubles.
bool Cloud::divide_plain(const Ahead& ahead) {
  const size_t n = size(), padded = (n + 63) / 64 * 64;
  zero_.resize(padded);
  one_.resize(padded);
  kernels().chances(ahead.log_odds, padded, zero_.data(), one_.data());
  for (size_t i = 0; ahead.falls && i < n; ++i) {
    if (ahead.falls[i]) continue;
    zero_[i] = 1.0;
    one_[i] = 0.0;
  }
  uint32_t lost = 0;
  for (size_t i = 0; i < n; ++i) {
    const double seen0 = ahead.seen[0][i], seen1 = ahead.seen[1][i];
    const double zero = zero_[i] * weight_[i] * seen0, one = one_[i] * weight_[i] * seen1;
    lost |=
        static_cast<uint32_t>((zero < kTiny) & (seen0 > 0.0)) | static_cast<uint32_t>((one < kTiny) & (seen1 > 0.0));
    child_[2 * i] = zero;
    child_[2 * i + 1] = one;
  }
  if (lost) return false;
  double total[2];
  for (size_t island = 0; island < islands(); ++island) {
    total[island] = sum_of(child_.data() + 2 * begin(island), 2 * (end(island) - begin(island)));
    if (!(total[island] > 0.0)) return false;
  }
  for (size_t island = 0; island < islands(); ++island) {
    const double scale = 1.0 / total[island];
    for (size_t j = 2 * begin(island); j < 2 * end(island); ++j) child_[j] *= scale;
    log_marginal_[island] += std::log(total[island]);
  }
  return true;
}

void Cloud::divide_logarithms(const Ahead& ahead) {
  log_child_.resize(2 * size());
  for (size_t island = 0; island < islands(); ++island) {
    const size_t from = begin(island), to = end(island);
    double most = kNever;
    for (size_t i = from; i < to; ++i)
      for (int32_t side = 0; side < 2; ++side) {
        const bool falls = !ahead.falls || ahead.falls[i];
        const double log_p = falls ? static_cast<double>(log_likelihood(ahead.log_odds[i], side)) * kUnit : 0.0;
        const double log_child = log_weight_[i] + log_p + std::log(ahead.seen[side][i]);
        log_child_[2 * i + static_cast<size_t>(side)] = log_child;
        most = std::max(most, log_child);
      }
    if (most == kNever) {  // nothing is possible: whatever follows does not count
      for (size_t i = from; i < to; ++i) {
        log_child_[2 * i] = log_weight_[i];
        child_[2 * i] = weight_[i];
        log_child_[2 * i + 1] = kNever;
        child_[2 * i + 1] = 0.0;
      }
      log_marginal_[island] = kNever;
      continue;
    }
    for (size_t j = 2 * from; j < 2 * to; ++j) child_[j] = std::exp(log_child_[j] - most);
    const double log_total = most + std::log(sum_of(child_.data() + 2 * from, 2 * (to - from)));
    for (size_t j = 2 * from; j < 2 * to; ++j) {
      log_child_[j] -= log_total;
      child_[j] = log_child_[j] == kNever ? 0.0 : std::max(std::exp(log_child_[j]), kFloor);
    }
    log_marginal_[island] += log_total;
  }
}

double Cloud::share(size_t island, size_t side) const {
  double sum = 0.0;
  for (size_t j = 2 * begin(island) + side; j < 2 * end(island); j += 2) sum += child_[j];
  return sum;
}

void Cloud::join() {
  for (size_t i = 0; i < size(); ++i) weight_[i] = child_[2 * i] + child_[2 * i + 1];
  for (size_t i = 0; i < log_weight_.size(); ++i) log_weight_[i] = log_add(log_child_[2 * i], log_child_[2 * i + 1]);
}

bool Cloud::branch(size_t limit, std::vector<uint8_t>& side) {
  ++n_branchings_;
  struct Part {
    size_t from, to;  // of the children
    bool crowded;
    size_t shift = 0;  // of its parents
  };
  const auto crowded = [&](size_t island) {
    size_t n_children = 0;
    for (size_t j = 2 * begin(island); j < 2 * end(island); ++j) n_children += child_[j] > 0.0;
    return n_children > limit;
  };
  if (const int only = only_side(limit, crowded); only >= 0) {
    side.assign(size(), static_cast<uint8_t>(only));
    for (size_t i = 0; i < size(); ++i) weight_[i] = child_[2 * i + static_cast<size_t>(only)];
    return false;
  }
  std::vector<Part> parts;
  for (size_t island = 0; island < islands(); ++island)
    parts.push_back({2 * begin(island), 2 * end(island), crowded(island)});
  if (islands() == 1 && parts_ && parts[0].crowded) {  // two islands from the same parents
    const size_t n = child_.size();
    child_.resize(2 * n);
    std::copy_n(child_.begin(), n, child_.begin() + static_cast<std::ptrdiff_t>(n));
    if (!log_weight_.empty()) {
      log_child_.resize(2 * n);
      std::copy_n(log_child_.begin(), n, log_child_.begin() + static_cast<std::ptrdiff_t>(n));
    }
    parts.push_back({n, 2 * n, true, n / 2});
    log_marginal_[1] = log_marginal_[0];
    added_[1] = added_[0];
  }
  Generation next;
  const bool rare = rare_chance_[0] < 1.0 || rare_chance_[1] < 1.0;
  const bool thinned = rare || std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.crowded; });
  const bool logarithms = !log_weight_.empty();
  chance_.assign(thinned ? child_.size() : 0, 1.0);
  end_.clear();
  const size_t room = child_.size() + 1;
  next.parent.resize(room);
  next.chance.resize(thinned ? room : 0);
  side.resize(room);
  weight_.resize(room);
  log_weight_.resize(logarithms ? room : 0);
  size_t count = 0;
  for (size_t island = 0; island < parts.size(); ++island) {
    const Part& part = parts[island];
    if (part.crowded) thin(island, part.from, part.to, limit);
    if (rare_chance_[island] < 1.0)
      for (size_t j = part.from + rare_side_[island]; j < part.to; j += 2) chance_[j] *= rare_chance_[island];
    for (size_t j = part.from; j < part.to; ++j) {  // without a branch, as above: what is not kept is written over
      next.parent[count] = static_cast<uint32_t>(j / 2 - part.shift);
      side[count] = j % 2;
      weight_[count] = child_[j];
      if (thinned) next.chance[count] = static_cast<float>(chance_[j]);
      if (logarithms) log_weight_[count] = log_child_[j] - (thinned ? std::log(chance_[j]) : 0.0);
      count += child_[j] > 0.0;
    }
    end_.push_back(count);
  }
  next.parent.resize(count);
  next.chance.resize(thinned ? count : 0);
  side.resize(count);
  weight_.resize(count);
  log_weight_.resize(logarithms ? count : 0);
  next.parent.shrink_to_fit();
  take(next.parent);
  generations_.push_back(std::move(next));
  return true;
}

// If all children on one side together weigh less than a particle should, one draw decides about all of them: they are
// left out, or weigh as much as a particle. That leaves the total weight as it was, on average the children's, too. The
// side that is taken if both islands leave out the other one, or -1.
int Cloud::only_side(size_t limit, const std::function<bool(size_t)>& crowded) {
  rare_chance_[0] = rare_chance_[1] = 1.0;
  if (!log_weight_.empty() || (parts_ && islands() == 1)) return -1;
  int only = -1;
  bool same = true;
  for (size_t island = 0; island < islands(); ++island) {
    if (!crowded(island)) {
      same = false;
      continue;
    }
    const double shares[2] = {share(island, 0), share(island, 1)};
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
    for (size_t j = 2 * begin(island); j < 2 * end(island); ++j) child_[j] *= j % 2 == rare ? of_rare : of_others;
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
  double* children = child_.data() + from;
  double* chances = chance_.data() + from;
  const size_t n = (to - from) / 2;
  const double threshold = threshold_of(children, 2 * n, limit, kGuess * threshold_);
  const double per_threshold = 1.0 / threshold;
  for (size_t j = 0; j < 2 * n; ++j) chances[j] = std::min(children[j] * per_threshold, 1.0);
  const double scale = static_cast<double>(limit) / sum_of(chances, 2 * n);
  const RoundKey key = round_key(key_, 2 * n_branchings_ + island, limit);
  const double start = uniform(key, 0);
  double end = 0.0, noise = 0.0;
  int64_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    double* child = children + 2 * i;
    const double a = chances[2 * i], b = chances[2 * i + 1], expected = a + b;
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
      const double is_kept = static_cast<int>(n_kept >= needed) & static_cast<int>(child[s] > 0.0);
      noise += is_kept * (1.0 - chances[2 * i + s]);
      child[s] = is_kept * std::max(child[s], threshold);
    }
  }
  added_[island] += noise * threshold * threshold;
  threshold_ = threshold;
}

void Cloud::take(const std::vector<uint32_t>& parent) {
  spare_bits_.resize(parent.size() * words_);
  for (size_t i = 0; i < parent.size(); ++i)
    std::copy_n(bits_.data() + parent[i] * words_, words_, spare_bits_.data() + i * words_);
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

double added_variance(const std::vector<Generation>& generations, std::vector<double> weight) {
  double variance = 0.0;
  std::vector<double> before;
  for (size_t g = generations.size(); g-- > 0;) {
    const Generation& own = generations[g];
    for (size_t i = 0; i < own.chance.size(); ++i)
      variance += weight[i] * weight[i] * (1.0 - static_cast<double>(own.chance[i]));
    before.assign(g ? generations[g - 1].parent.size() : 1, 0.0);
    for (size_t i = 0; i < weight.size(); ++i) before[own.parent[i]] += weight[i];
    weight.swap(before);
  }
  return variance;
}

}  // namespace lbarn
