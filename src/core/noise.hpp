// How far two islands of particles are apart in what they say of cells: early, soon after each, and in the end.
#pragma once

#include <algorithm>
#include <cstddef>

namespace lbarn {

// Sums of squares over probabilities, where two cells that are off by d each count as the one that is off by d.
struct Noise {
  double early = 0.0, common = 0.0, in_the_end = 0.0;  // of the means of two islands
  double between = 0.0;                                // those early and those in the end

  void add(const double* early_0, const double* early_1, const double* last_0, const double* last_1, size_t n_cells) {
    for (size_t c = 0; c < n_cells; ++c) {
      const double a = 0.5 * (early_0[c] - early_1[c]), b = 0.5 * (last_0[c] - last_1[c]);
      const double moved = 0.5 * ((last_0[c] - early_0[c]) + (last_1[c] - early_1[c]));
      early += 0.5 * a * a;
      common += 0.5 * a * b;
      in_the_end += 0.5 * b * b;
      between += 0.5 * moved * moved;
    }
  }

  // Early, what comes late is not known yet: how far the two are apart beyond the noise of their difference.
  double lacks() const { return std::max(between - of_difference(), 0.0); }

  // Of what was read early, in the mean with what is said in the end that has the least error.
  double share_of_early() const {
    const double most = of_difference() + lacks();
    return most > 0.0 ? std::min(std::max((in_the_end - common) / most, 0.0), 1.0) : 0.0;
  }

  double error(double share) const {
    const double rest = 1.0 - share;
    const double noise = share * share * early + 2.0 * share * rest * common + rest * rest * in_the_end;
    return std::max(noise, 0.0) + share * share * lacks();  // rounded, it might be less than 0
  }

 private:
  double of_difference() const { return early - 2.0 * common + in_the_end; }
};

}  // namespace lbarn
