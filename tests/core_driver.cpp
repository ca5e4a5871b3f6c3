// Runs the core without Python: a problem on standard input, every number of the result on standard output. Built for
// another architecture it shows whether that one computes the same bits.
//
// Input: twelve 64-bit integers (rows, validation rows, columns, position, leaves, thousandths of the learning rate,
// rounds, exact, split bits, gradient, cap, seed), then one byte per value of the rows and of the validation rows.
#include <cstdio>
#include <cstring>
#include <vector>

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

template <class T>
void write(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

}  // namespace

int main() {
  int64_t head[12];
  if (std::fread(head, sizeof head, 1, stdin) != 1) return 2;
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
  const auto seed = static_cast<uint64_t>(head[11]);
  lbarn::Boosted boosted;
  lbarn::boost({train.column_view}, {valid.column_view}, position, parameters, seed, [] {}, boosted);
  std::fprintf(stderr, "%s", lbarn::kernels().name);
  write(boosted.trees.splits);
  write(boosted.trees.gains);
  write(boosted.trees.values);
  write(boosted.trees.offsets);
  write(boosted.train_curve);
  write(boosted.valid_curve);
  return 0;
}
