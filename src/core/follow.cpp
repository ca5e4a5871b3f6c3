#include "follow.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "noise.hpp"

namespace lbarn {
namespace {

// Thinning is noise to the probability of a cell, and the later the evidence, the less it may have to say of it. So
// probabilities are read off the particles early as well, when thinning has added this much to the relative variance
// since the cell: with n particles about what one thinning after the other adds for n^(1/4) times as long.
double patience(size_t limit) { return 0.7 * std::pow(static_cast<double>(limit), -0.75); }

constexpr double kPseudocount = 0.5;  // draws that a probability is drawn back by to what was expected of the cell

// Trees as they are needed for one column by rows that are followed together.
class Workshop {
 public:
  explicit Workshop(const NetworkView& network) : network_(network) {}

  void enter(size_t column) {
    column_ = &network_.columns[column];
    if (sets_.size() < column_->n_nodes) sets_.resize(column_->n_nodes);
    ready_.assign(column_->n_nodes, false);
  }
  const ColumnTree& column() const { return *column_; }

  // The next rows that ask are these, one after the other. If they ask once only, what they reach is found together.
  void expect(const std::vector<const Slot*>& slots) {
    next_ = 0;
    together_ = column_->n_nodes == 1 && !conditional(0).counts;
    if (together_) sets_of(0).reach(slots, reached_);
  }

  void log_odds(Cloud& cloud, size_t node, const uint32_t* index, size_t count, int32_t* out) {
    const uint64_t* reached = together_ ? reached_.data() + next_++ * conditional(0).trees.count : nullptr;
    narrow_.narrow(sets_of(node), conditional(node), cloud.slots(), reached, cloud.words(), count);
    narrow_.log_odds(cloud.bits(), index, count, out);
  }

 private:
  const Conditional& conditional(size_t node) const { return network_.nodes[column_->first_node + node]; }
  LeafSets& sets_of(size_t node) {
    if (!ready_[node]) sets_[node].build(conditional(node).trees);
    ready_[node] = true;
    return sets_[node];
  }

  const NetworkView& network_;
  const ColumnTree* column_ = nullptr;
  std::vector<LeafSets> sets_;  // by node of the column
  std::vector<uint8_t> ready_;
  bool together_ = false;
  size_t next_ = 0;
  std::vector<uint64_t> reached_;
  NarrowTrees narrow_;
};

// Buffers that a column needs.
struct Scratch {
  std::vector<int32_t> log_odds, some_odds;
  std::vector<double> seen[2], ahead;
  std::vector<uint8_t> side, falls, ones;
  std::vector<uint16_t> cell;
  std::vector<int32_t> at, next;
  std::vector<uint32_t> index;
};

size_t whole_words(size_t count) { return (count + 63) / 64 * 64; }

class Row {
 public:
  Row(const NetworkView& network, const EvidenceView& evidence, const FollowHow& how, size_t row, Followed& out)
      : evidence_(evidence),
        how_(how),
        cells_(evidence.cells + row * evidence.n_columns),
        row_(row),
        patience_(patience(how.limit)),
        shares_(out.shares.data() + row * evidence.n_cells),
        expected_(out.expected.data() + row * evidence.n_cells),
        second_(how.islands ? evidence.n_cells : 0),
        cloud_(network.n_features, mix64(mix64(how.seed) ^ how.number[row]), how.islands) {}

  const Slot* slots() { return cloud_.slots().data(); }

  void step(size_t k, const EvidenceView::Column* unknown, Workshop& shop, Scratch& scratch) {
    const double before = cloud_.log_marginal();
    const double limit = std::min(how_.unexpected_particles * cloud_.threshold(), how_.unexpected);
    if (cells_[k] == kUnknown)
      fall(k, *unknown, shop, scratch);
    else
      pass(cells_[k], shop, scratch);
    if (!(limit > 0.0)) return;
    const double log_marginal = cloud_.log_marginal(), surprise = log_marginal - before - std::log(limit);
    if (surprise < least_) {
      least_ = surprise;
      unexpected_ = static_cast<int32_t>(k);
      there_ = log_marginal;
    }
  }

  void end(const NetworkView& network, Followed& out) {
    out.log_marginal[row_] = cloud_.log_marginal();
    out.variance[row_] = added_variance(cloud_.generations(), cloud_.weights_together());
    if (cloud_.islands() == 2)
      out.marginal_error[row_] = 0.5 * std::abs(cloud_.log_marginal(0) - cloud_.log_marginal(1));
    out.error[row_] = conclude(network, out.variance[row_]);
    out.unexpected[row_] = unexpected_;
    out.log_marginal_there[row_] = there_;
    draw(out.draws.data() + row_ * how_.n_draws * evidence_.n_columns);
    if (!how_.keep) return;
    out.weight = cloud_.weights_together();
    out.generations = cloud_.generations();
    out.states.resize(cloud_.size() * evidence_.n_columns);
    for (size_t i = 0; i < cloud_.size(); ++i) trace(i, out.states.data() + i * evidence_.n_columns);
  }

  // Reads off early what thinning has begun to blur.
  void read_early(const NetworkView& network) {
    if (cloud_.islands() == 1) return;
    const auto blurred = [&](const Pending& cell) {
      return std::max(cloud_.added(0) - cell.added[0], cloud_.added(1) - cell.added[1]) > patience_;
    };
    while (!pending_.empty() && blurred(pending_.front())) read_oldest(network);
  }

 private:
  struct Mark {  // the cells of an unknown column, by particle
    size_t column;
    size_t generation;  // as many there had been
    std::vector<uint16_t> cell;
  };
  struct Pending {  // a column whose probabilities are not yet read
    const EvidenceView::Column* column;
    double added[2];  // variance, up to there
  };

  // A cell that was seen.
  void pass(size_t cell, Workshop& shop, Scratch& scratch) {
    const ColumnTree& column = shop.column();
    const size_t n = cloud_.size();
    scratch.log_odds.resize(whole_words(n));
    for (int32_t node = column.n_nodes ? 0 : -1; node >= 0;) {
      const bool bit = static_cast<int32_t>(cell) >= column.cut[node];
      shop.log_odds(cloud_, static_cast<size_t>(node), nullptr, n, scratch.log_odds.data());
      cloud_.pass(scratch.log_odds.data(), bit);
      node = column.children[2 * node + bit];
    }
    for (size_t b = 0; b < column.n_bits; ++b) {
      const auto own = static_cast<int32_t>(cell);
      cloud_.set_all(column.first_bit + b, column.is_one(b, own));
    }
  }

  // A cell that is not known.
  void fall(size_t k, const EvidenceView::Column& unknown, Workshop& shop, Scratch& scratch) {
    const ColumnTree& column = shop.column();
    if (column.n_cells == 2)
      fall_once(unknown, shop, scratch);
    else
      fall_to_cell(unknown, shop, scratch);
    if (parted_ != cloud_.islands()) std::copy_n(expected_, unknown.first + column.n_cells, second_.data());
    parted_ = cloud_.islands();
    const std::vector<uint16_t>& cell = scratch.cell;
    scratch.ones.resize(cell.size());
    for (size_t b = 0; b < column.n_bits; ++b) {
      for (size_t i = 0; i < cell.size(); ++i) scratch.ones[i] = column.is_one(b, cell[i]);
      cloud_.set(column.first_bit + b, scratch.ones);
    }
    marks_.push_back({k, cloud_.generations().size(), cell});
    if (how_.islands) pending_.push_back({&unknown, {cloud_.added(0), cloud_.added(1)}});
  }

  void fall_once(const EvidenceView::Column& unknown, Workshop& shop, Scratch& scratch) {
    const double* own = likelihood(unknown, 2);
    const size_t n = cloud_.size();
    scratch.log_odds.resize(whole_words(n));
    shop.log_odds(cloud_, 0, nullptr, n, scratch.log_odds.data());
    cloud_.divide({scratch.log_odds.data(), {own[0], own[1]}});
    for (size_t island = 0; island < cloud_.islands(); ++island)
      for (size_t side = 0; side < 2; ++side) expected(unknown, island)[side] = cloud_.share(island, side);
    cloud_.branch(how_.limit, scratch.side);
    scratch.cell.assign(scratch.side.begin(), scratch.side.end());
  }

  // A node counts with the largest likelihood that is still ahead, relative to what it was: at the cell this comes to
  // the cell's own.
  void fall_to_cell(const EvidenceView::Column& unknown, Workshop& shop, Scratch& scratch) {
    const ColumnTree& column = shop.column();
    look_ahead(unknown, column, scratch.ahead);
    const double* ahead = scratch.ahead.data();
    const auto place = [&](int32_t child) {
      return child < 0 ? column.n_nodes + static_cast<size_t>(~child) : static_cast<size_t>(child);
    };
    std::vector<int32_t>& at = scratch.at;
    at.assign(cloud_.size(), column.n_nodes ? 0 : ~0);
    while (std::any_of(at.begin(), at.end(), [](int32_t node) { return node >= 0; })) {
      const size_t n = cloud_.size();
      scratch.falls.resize(n);
      for (size_t i = 0; i < n; ++i) scratch.falls[i] = at[i] >= 0;
      ask(shop, scratch);
      if (unknown.empty)  // what leads to a value weighs as what was seen
        for (size_t i = 0; i < n; ++i)
          if (at[i] == 0) scratch.log_odds[i] = -scratch.log_odds[i];
      for (size_t side = 0; side < 2; ++side) {
        scratch.seen[side].resize(n);
        for (size_t i = 0; i < n; ++i) {
          const int32_t node = at[i];
          double share = side ? 0.0 : 1.0;
          if (node >= 0) {
            const double most = node == 0 ? 1.0 : ahead[node];
            share = most > 0.0 ? ahead[place(column.children[2 * node + static_cast<int32_t>(side)])] / most : 0.0;
          }
          scratch.seen[side][i] = share;
        }
      }
      cloud_.divide({scratch.log_odds.data(),
                     {1.0, 1.0},
                     {scratch.seen[0].data(), scratch.seen[1].data()},
                     scratch.falls.data()});
      const bool moved = cloud_.branch(how_.limit, scratch.side);
      scratch.next.resize(cloud_.size());
      for (size_t i = 0; i < cloud_.size(); ++i) {
        const int32_t node = at[moved ? cloud_.generations().back().parent[i] : i];
        scratch.next[i] = node >= 0 ? column.children[2 * node + scratch.side[i]] : node;
      }
      at.swap(scratch.next);
    }
    scratch.cell.resize(at.size());
    for (size_t i = 0; i < at.size(); ++i) scratch.cell[i] = static_cast<uint16_t>(~at[i]);
    for (size_t island = 0; island < cloud_.islands(); ++island)
      for (size_t i = cloud_.begin(island); i < cloud_.end(island); ++i)
        expected(unknown, island)[scratch.cell[i]] += cloud_.weight()[i];
  }

  double* expected(const EvidenceView::Column& unknown, size_t island) {
    return (island ? second_.data() : expected_) + unknown.first;
  }
  const double* likelihood(const EvidenceView::Column& unknown, size_t n_cells) const {
    return unknown.likelihood + (unknown.by_row ? row_ * n_cells : 0);
  }

  // The log-odds of all particles, each at its node.
  void ask(Workshop& shop, Scratch& scratch) {
    const std::vector<int32_t>& at = scratch.at;
    const size_t n = at.size();
    scratch.log_odds.assign(whole_words(n), 0);
    if (std::all_of(at.begin(), at.end(), [&](int32_t node) { return node == at[0]; })) {
      shop.log_odds(cloud_, static_cast<size_t>(at[0]), nullptr, n, scratch.log_odds.data());
      return;
    }
    for (size_t node = 0; node < shop.column().n_nodes; ++node) {
      scratch.index.clear();
      for (size_t i = 0; i < n; ++i)
        if (at[i] == static_cast<int32_t>(node)) scratch.index.push_back(static_cast<uint32_t>(i));
      if (scratch.index.empty()) continue;
      scratch.some_odds.resize(whole_words(scratch.index.size()));
      shop.log_odds(cloud_, node, scratch.index.data(), scratch.index.size(), scratch.some_odds.data());
      for (size_t i = 0; i < scratch.index.size(); ++i) scratch.log_odds[scratch.index[i]] = scratch.some_odds[i];
    }
  }

  // The largest likelihood in the subtree of every node and, after the nodes, of every cell.
  void look_ahead(const EvidenceView::Column& unknown, const ColumnTree& column, std::vector<double>& ahead) const {
    const double* own = likelihood(unknown, column.n_cells);
    ahead.assign(column.n_nodes, 0.0);
    ahead.insert(ahead.end(), own, own + column.n_cells);
    for (size_t node = column.n_nodes; node-- > 0;)
      for (size_t side = 0; side < 2; ++side) {
        const int32_t child = column.children[2 * node + side];
        const size_t from = child < 0 ? column.n_nodes + static_cast<size_t>(~child) : static_cast<size_t>(child);
        ahead[node] = std::max(ahead[node], ahead[from]);
      }
  }

  // The shares of the cells of a column among the particles of an island.
  void read(const ColumnTree& column, size_t island, double* shares) const {
    std::fill_n(shares, column.n_cells, 0.0);
    if (column.n_cells == 2) {
      shares[1] = cloud_.share_of_ones(island, column.first_bit);
      shares[0] = 1.0 - shares[1];
      return;
    }
    for (size_t i = cloud_.begin(island); i < cloud_.end(island); ++i) {
      int32_t node = column.n_nodes ? 0 : ~0;
      while (node >= 0) node = column.children[2 * node + cloud_.bit(i, column.first_bit + static_cast<size_t>(node))];
      shares[~node] += cloud_.weight()[i];
    }
    const double total = sum_of(shares, column.n_cells);
    for (size_t c = 0; c < column.n_cells; ++c) shares[c] /= total;
  }

  // They may agree on a cell for want of numbers only, so a share is drawn back to what was expected of the cell.
  static void draw_back(double* shares, const double* expected, size_t n_cells, double doubt) {
    const double total = sum_of(expected, n_cells);
    for (size_t c = 0; c < n_cells; ++c)
      shares[c] = std::min((shares[c] + doubt * (expected[c] / total)) / (1.0 + doubt), 1.0);
  }

  void read_oldest(const NetworkView& network) {
    const Pending oldest = pending_.front();
    pending_.pop_front();
    const ColumnTree& column = network.columns[oldest.column->column];
    for (size_t island = 0; island < 2; ++island) {
      early_[island].resize(evidence_.n_cells);
      double* shares = early_[island].data() + oldest.column->first;
      read(column, island, shares);
      draw_back(shares, expected(*oldest.column, island), column.n_cells,
                kPseudocount * (cloud_.added(island) - oldest.added[island]));
    }
  }

  // The probabilities of all unknown cells, and their error as the islands tell it. What the particles say in the end
  // is right on average, but may be blurred by thinning; what was read early is less so, but lacks what came late: that
  // is how far the two are apart beyond their noise. The row takes the best mean of them.
  double conclude(const NetworkView& network, double variance) {
    while (!pending_.empty() && cloud_.islands() == 2) read_oldest(network);
    Noise noise;
    std::vector<double> other;
    for (const EvidenceView::Column& unknown : evidence_.unknown) {
      if (cells_[unknown.column] != kUnknown) continue;
      const ColumnTree& column = network.columns[unknown.column];
      double* shares = shares_ + unknown.first;
      read(column, 0, shares);
      if (cloud_.islands() == 1) continue;
      other.resize(column.n_cells);
      read(column, 1, other.data());
      noise.add(early_[0].data() + unknown.first, early_[1].data() + unknown.first, shares, other.data(),
                column.n_cells);
      for (size_t c = 0; c < column.n_cells; ++c) shares[c] = 0.5 * (shares[c] + other[c]);
    }
    const double share = noise.share_of_early();
    for (const EvidenceView::Column& unknown : evidence_.unknown) {
      if (cells_[unknown.column] != kUnknown) continue;
      const size_t n_cells = network.columns[unknown.column].n_cells;
      double* shares = shares_ + unknown.first;
      draw_back(shares, expected_ + unknown.first, n_cells, kPseudocount * variance);
      for (size_t c = 0; share > 0.0 && c < n_cells; ++c) {
        const double early = 0.5 * (early_[0][unknown.first + c] + early_[1][unknown.first + c]);
        shares[c] += share * (early - shares[c]);
      }
    }
    return std::sqrt(noise.error(share) / static_cast<double>(std::max<size_t>(marks_.size(), 1)));
  }

  void draw(uint16_t* out) const {
    const RoundKey key = cloud_.key_for(how_.n_draws);
    std::vector<double> edge(cloud_.size());
    double total = 0.0;
    const std::vector<double> weight = cloud_.weights_together();
    for (size_t i = 0; i < edge.size(); ++i) edge[i] = total += weight[i];
    for (size_t j = 0; j < how_.n_draws; ++j, out += evidence_.n_columns) {
      const double point = uniform(key, static_cast<uint32_t>(j)) * total;
      const auto i = static_cast<size_t>(std::upper_bound(edge.begin(), edge.end(), point) - edge.begin());
      trace(std::min(i, edge.size() - 1), out);
    }
  }

  // The cells of a particle.
  void trace(size_t particle, uint16_t* out) const {
    std::copy_n(cells_, evidence_.n_columns, out);
    size_t generation = cloud_.generations().size();
    for (size_t m = marks_.size(); m-- > 0;) {
      while (generation > marks_[m].generation) particle = cloud_.generations()[--generation].parent[particle];
      out[marks_[m].column] = marks_[m].cell[particle];
    }
  }

  const EvidenceView& evidence_;
  const FollowHow& how_;
  const uint16_t* cells_;
  size_t row_;
  double patience_;
  double* shares_;
  double* expected_;
  std::vector<double> second_;    // what the second island expected
  std::vector<double> early_[2];  // by island, what was read early
  size_t parted_ = 1;
  Cloud cloud_;
  double least_ = 0.0, there_ = 0.0;
  int32_t unexpected_ = -1;
  std::vector<Mark> marks_;
  std::deque<Pending> pending_;
};

}  // namespace

Followed follow(const NetworkView& network, const EvidenceView& evidence, const FollowHow& how,
                const std::function<void()>& interrupt) {
  const size_t n = evidence.rows;
  Followed out;
  out.log_marginal.resize(n);
  out.variance.resize(n);
  out.unexpected.resize(n);
  out.log_marginal_there.resize(n);
  out.error.resize(n);
  out.marginal_error.resize(n);
  out.shares.resize(n * evidence.n_cells);
  out.expected.resize(n * evidence.n_cells);
  out.draws.resize(n * how.n_draws * evidence.n_columns);
  std::vector<std::unique_ptr<Row>> rows;
  for (size_t i = 0; i < n; ++i) rows.push_back(std::make_unique<Row>(network, evidence, how, i, out));
  Workshop shop(network);
  Scratch scratch;
  std::vector<const Slot*> slots;
  const EvidenceView::Column* unknown = evidence.unknown.data();
  const EvidenceView::Column* last = unknown + evidence.unknown.size();
  for (size_t k = 0; k < evidence.n_columns; ++k) {
    interrupt();
    while (unknown != last && unknown->column < k) ++unknown;
    shop.enter(k);
    for (size_t first = 0; first < n; first += LeafSets::kRows) {
      const size_t end = std::min(n, first + LeafSets::kRows);
      slots.clear();
      for (size_t i = first; i < end; ++i) slots.push_back(rows[i]->slots());
      shop.expect(slots);
      for (size_t i = first; i < end; ++i) {
        rows[i]->step(k, unknown, shop, scratch);
        rows[i]->read_early(network);
      }
    }
  }
  for (const auto& row : rows) row->end(network, out);
  return out;
}

}  // namespace lbarn
