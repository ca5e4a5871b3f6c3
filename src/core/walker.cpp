#include "walker.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fixed_point.hpp"

namespace lbarn {

Walker::Walker(const Kernels& kernels, const WeightedRows& rows, size_t position, bool gradients,
               std::vector<int32_t> log_odds)
    : kernels_(kernels),
      columns_(rows.columns),
      target_(rows.columns.column(position)),
      log_odds_(std::move(log_odds)),
      leaf_(columns_.padded_rows()),
      g_(gradients ? columns_.padded_rows() : 0),
      h_(gradients ? columns_.padded_rows() : 0) {
  log_odds_.resize(columns_.padded_rows());
  const size_t n = columns_.rows;
  kept_ = n;
  total_weight_ = static_cast<double>(n);
  if (rows.count && n) {
    count_.assign(columns_.padded_rows(), 0);
    std::copy(rows.count, rows.count + n, count_.begin());
    largest_count_ = *std::max_element(count_.begin(), count_.end());
    kept_ = std::accumulate(count_.begin(), count_.end(), size_t{0});
    total_weight_ = static_cast<double>(kept_);
    return;
  }
  if (!rows.weight || n == 0) return;
  double largest = 0.0, sum = 0.0;  // the sum in units of the largest: it cannot overflow
  kept_ = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, rows.weight[i]);
  for (size_t i = 0; i < n && largest > 0.0; ++i) {
    sum += rows.weight[i] / largest;
    kept_ += rows.weight[i] > 0.0;
    unequal_ = unequal_ || (rows.weight[i] > 0.0 && rows.weight[i] != largest);
  }
  if (!unequal_ && kept_ == n) return;
  weight_.assign(columns_.padded_rows(), 0.0f);
  if (unequal_) {
    int exponent;
    const double fraction = std::frexp(largest, &exponent);
    for (size_t i = 0; i < n; ++i) weight_[i] = static_cast<float>(std::ldexp(rows.weight[i], -exponent));
    scale_ = static_cast<double>(kept_) / (sum * fraction);
  } else {
    for (size_t i = 0; i < n; ++i) weight_[i] = rows.weight[i] > 0.0 ? 1.0f : 0.0f;
  }
  total_weight_ = 0.0;
  for (size_t i = 0; i < n; ++i) total_weight_ += static_cast<double>(weight_[i]);
}

double Walker::mean(int64_t score) const {
  return total_weight_ > 0.0 ? static_cast<double>(score) * kUnit / total_weight_ : 0.0;
}

std::vector<int32_t> Walker::weights_as_hessian() const {
  std::vector<int32_t> h(columns_.padded_rows(), 0);
  for (size_t i = 0; i < columns_.rows; ++i)  // of each, where a row stands for several
    h[i] = static_cast<int32_t>((weight_.empty() ? 1.0 : static_cast<double>(weight_[i])) * kPerUnit + 0.5);
  return h;
}

}  // namespace lbarn
