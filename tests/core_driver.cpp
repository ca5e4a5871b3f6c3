// Runs the core without Python: problems on standard input, every number of the results on standard output. Built by
// another compiler or for another architecture it shows whether that one computes the same bits.
//
// A problem: thirteen 64-bit integers (rows, validation rows, columns, position, leaves, thousandths of the learning
// rate, rounds, exact, split bits, gradient, cap, bits per cell column, seed), then one byte per value of the rows and
// of the validation rows. If there are bits per cell column, the bits before the position are runs of so many, of which
// the first k are 1 in a row with cell k.
#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(_WIN32)
#include <fcntl.h>
#include <io.h>
#endif

#include "booster.hpp"
#include "kernels.hpp"

namespace {

struct Packed {
  std::vector<uint8_t> rows;
  std::vector<uint64_t> columns;
  lbarn::Rows row_view;
  lbarn::Columns column_view;
};

Packed read_bits(size_t n, size_t d) {
  Packed p;
  const size_t stride = (d + 255) / 256 * lbarn::kRowAlign;
  p.rows.resize(n * stride);
  std::vector<uint8_t> line(d);
  for (size_t i = 0; i < n; ++i) {
    if (std::fread(line.data(), 1, d, stdin) != d) std::exit(2);
    for (size_t j = 0; j < d; ++j) p.rows[i * stride + j / 8] |= static_cast<uint8_t>(line[j] << (j % 8));
  }
  p.row_view = {p.rows.data(), n, stride, stride};
  p.columns.resize(d * lbarn::column_words(n));
  lbarn::transpose(p.row_view, d, p.columns.data());
  p.column_view = {p.columns.data(), n, lbarn::column_words(n)};
  return p;
}

// The runs of thresholds as what they are.
struct Cells {
  std::vector<uint16_t> cells, lo, hi;
  std::vector<uint32_t> first, offsets{0};

  Cells(const Packed& bits, size_t position, size_t run) {
    for (size_t begin = 0; run && begin + run <= position; begin += run) {
      first.push_back(static_cast<uint32_t>(begin));
      offsets.push_back(static_cast<uint32_t>(begin + run));
      for (size_t i = 0; i < bits.column_view.rows; ++i) {
        uint16_t cell = 0;
        for (size_t k = 0; k < run; ++k) cell += bits.column_view.column(begin + k)[i / 64] >> (i % 64) & 1;
        cells.push_back(cell);
      }
      for (size_t k = 0; k < run; ++k) {
        lo.push_back(static_cast<uint16_t>(k + 1));
        hi.push_back(static_cast<uint16_t>(run + 1));
      }
    }
  }

  lbarn::CellColumns view(size_t rows) const {
    return {first.size(), rows, cells.data(), first.data(), offsets.data(), lo.data(), hi.data()};
  }
};

template <class T>
void write(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

void solve(const int64_t (&head)[13]) {
  const auto d = static_cast<size_t>(head[2]), position = static_cast<size_t>(head[3]);
  const Packed train = read_bits(static_cast<size_t>(head[0]), d), valid = read_bits(static_cast<size_t>(head[1]), d);
  lbarn::BoostingParameters parameters;
  parameters.max_leaf_nodes = static_cast<size_t>(head[4]);
  parameters.learning_rate = static_cast<double>(head[5]) / 1000.0;
  parameters.max_iter = static_cast<size_t>(head[6]);
  parameters.splits = head[7] != 0 ? lbarn::SplitKind::exact : lbarn::SplitKind::fast;
  parameters.split_bits = static_cast<int>(head[8]);
  parameters.boosting = head[9] != 0 ? lbarn::BoostingKind::gradient : lbarn::BoostingKind::newton;
  parameters.cap = head[10] != 0;
  const auto seed = static_cast<uint64_t>(head[12]);
  const Cells cells(train, position, static_cast<size_t>(head[11]));
  const lbarn::CellColumns columns = cells.view(train.column_view.rows);
  lbarn::Boosted boosted;
  lbarn::boost(
      {train.column_view, nullptr, columns.count ? &columns : nullptr}, {valid.column_view}, position, parameters, seed,
      0, [] {}, boosted);
  write(boosted.trees.splits);
  write(boosted.trees.gains);
  write(boosted.trees.values);
  write(boosted.trees.offsets);
  write(boosted.train_curve);
  write(boosted.valid_curve);
}

}  // namespace

int main() {
#if defined(_WIN32)
  _setmode(_fileno(stdin), _O_BINARY);
  _setmode(_fileno(stdout), _O_BINARY);
#endif
  std::fprintf(stderr, "%s", lbarn::kernels().name);
  int64_t head[13];
  while (std::fread(head, sizeof head, 1, stdin) == 1) solve(head);
  return 0;
}
