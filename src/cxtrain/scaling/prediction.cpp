#include "cxtrain/scaling/prediction.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/scaling/exchange_model.h"
#include "cxtrain/scaling/statistics.h"
#include "cxtrain/scaling/study.h"

namespace cxtrain {
namespace {

constexpr std::size_t kMinSizes = 3;

// Laws of times as functions of the number of ranks, fitted to measured sizes.

/// A law of the time that ranks cost each other: a function of the number of ranks.
struct CostTerm {
  const char* text;
  double (*at)(double ranks);
};

constexpr CostTerm kMessages{"log2(ranks)", [](double ranks) { return std::log2(ranks); }};
constexpr CostTerm kBytes{"(1 - 1/ranks)", [](double ranks) { return 1 - 1 / ranks; }};
constexpr CostTerm kConstant{"constant", [](double /*ranks*/) { return 1.0; }};
constexpr CostTerm kContention{"ranks", [](double ranks) { return ranks - 1; }};

/// The rounds of a size that were measured.
struct SizeRounds {
  StudySize size;
  std::vector<const Measurement*> rounds;
};

/// The times of a size: medians over rounds.
struct SizeTimes {
  StudySize size;
  double step, usual_work, longest_work, backward, exchanges;
  double bytes;  ///< of a rank's gradients

  /// Ranks of one node work longer; ranks of several nodes wait longer.
  void slow_down(double factor) {
    step *= factor;
    if (size.nodes > 1) return;
    for (double* const time : {&usual_work, &longest_work, &backward}) *time *= factor;
  }
};

SizeTimes times_of(const StudySize& size, std::span<const Measurement* const> rounds) {
  const auto backward = [](const Measurement& each) { return phase_of(each.phases, "backward"); };
  return {
      .size = size,
      .step = median_of_rounds(rounds, &Measurement::step),
      .usual_work = median_of_rounds(rounds, &Measurement::usual_work),
      .longest_work = median_of_rounds(rounds, &Measurement::longest_work),
      .backward = median_of_rounds(rounds, backward),
      .exchanges = median_of_rounds(rounds, [](const Measurement& each) { return each.exchange.seconds; }),
      .bytes = median_of_rounds(rounds, [](const Measurement& each) { return each.exchange.bytes; })};
}

std::vector<SizeRounds> measured_rounds(const StudyResult& result) {
  std::vector<SizeRounds> sizes;
  for (const SizeResult& size : result.sizes) {
    if (size.measured()) sizes.push_back({size.size, good_rounds(result.points, size.size)});
  }
  return sizes;
}

/// The distribution of the delays of single ranks, which a study of few ranks does not show.
enum class Delays {
  rare,    ///< the longest of many is much longer than the others, as of an exponential distribution
  normal,  ///< normally distributed
};

/// How much later the slowest of `ranks` is than the usual one, in an unknown unit.
double lateness_of(Delays delays, double ranks) {
  if (delays == Delays::rare) return std::log2(ranks);
  // The expected largest of normal variates (Blom 1958).
  const double below = (ranks - 0.375) / (ranks + 0.25);
  return ranks < 2 ? 0 : std::numbers::sqrt2 * boost::math::erf_inv(2 * below - 1);
}

/// How steps grow with the ranks.
struct Law {
  const CostTerm* term;           ///< beside the work of a rank
  bool without_smallest = false;  ///< the law is fitted to the other sizes
  /// The term is for the usual work of ranks alone. The lateness of the slowest rank and an `ExchangeModel`
  /// are added.
  bool with_exchanges = false;
  Delays delays = Delays::rare;      ///< which make the slowest rank late
  bool with_messages = false;        ///< of the `ExchangeModel`
  const Network* network = nullptr;  ///< of predicted sizes; null: the study's
  double own_error = 0;              ///< how well the study predicts its own sizes

  bool is_contention() const { return term->at == kContention.at; }
};

/// The sizes of all ranks but the fewest.
std::span<const SizeTimes> without_smallest(std::span<const SizeTimes> sizes) {
  std::size_t first = 0;
  while (first < sizes.size() && sizes[first].size.ranks == sizes.front().size.ranks) ++first;
  return sizes.subspan(first);
}

std::size_t numbers_of_ranks(std::span<const SizeTimes> sizes) {
  std::size_t numbers = 0;
  for (; !sizes.empty(); sizes = without_smallest(sizes)) ++numbers;
  return numbers;
}

/// The time of `ranks` ranks by a sum of two terms with coefficients of at least 0: one for the work of a
/// rank (a constant in the mode `weak`, `1/ranks` in `strong`), and a cost term. Least squares of relative
/// errors.
double fitted(ScalingMode mode, const CostTerm& term, std::span<const SizeTimes> sizes,
              double SizeTimes::*time, int ranks) {
  const auto work = [mode](double n) { return mode == ScalingMode::weak ? 1 : 1 / n; };
  LeastSquares squares;
  for (const SizeTimes& each : sizes) {
    const double n = each.size.ranks, seconds = each.*time;
    squares.add(work(n) / seconds, term.at(n) / seconds, 1);
  }
  double of_work = squares.first_alone(), of_cost = 0;
  if (squares.shows_both()) {
    const auto [first, second] = squares.both();
    if (first < 0) {
      of_work = 0;
      of_cost = squares.second_alone();
    } else if (second > 0) {
      of_work = first;
      of_cost = second;
    }
  }
  return of_work * work(ranks) + of_cost * term.at(ranks);
}

/// How much longer than usual the slowest rank of a step works, where ranks differ by a share of their work.
double lateness(ScalingMode mode, Delays delays, std::span<const SizeTimes> sizes, int ranks) {
  const auto law = [=](double n) { return lateness_of(delays, n) / (mode == ScalingMode::weak ? 1 : n); };
  LeastSquares squares;
  for (const SizeTimes& each : sizes) {
    const double late = std::max(0.0, each.longest_work - each.usual_work);
    squares.add(law(each.size.ranks) / each.step, 0, late / each.step);
  }
  return squares.first_alone() * law(ranks);
}

/// How long ranks wait for each other on `to`. Within a node ranks wait as long as on the largest measured
/// size of one node; over nodes ranks wait for the exchanges that backward does not hide.
double exposed(ScalingMode mode, const Law& law, std::span<const SizeTimes> sizes, const StudySize& to) {
  double within_node = 0;
  for (const SizeTimes& each : sizes) {
    if (each.size.nodes == 1) within_node = each.step - each.longest_work;
  }
  std::vector<ExchangePoint> points;
  for (const SizeTimes& each : sizes) {
    if (each.size.nodes == 1) continue;
    points.push_back({.nodes = static_cast<double>(each.size.nodes),
                      .backward = each.backward,
                      .exchanges = each.exchanges,
                      .exposed = each.step - each.longest_work - within_node});
  }
  ExchangeModel model;
  model.fit(points, law.with_messages);
  if (law.network != nullptr) model.move_to(sizes.back().bytes, law.network->bytes_per_second);
  const double backward = fitted(mode, kConstant, sizes, &SizeTimes::backward, to.ranks);
  return within_node + (to.nodes > 1 ? model.exposed(to.nodes, backward) : 0);
}

/// The step of `to`, by a law that is fitted to these sizes.
double step_by(ScalingMode mode, const Law& law, std::span<const SizeTimes> sizes, const StudySize& to) {
  if (law.with_exchanges) {
    return fitted(mode, *law.term, sizes, &SizeTimes::usual_work, to.ranks) +
           lateness(mode, law.delays, sizes, to.ranks) + exposed(mode, law, sizes, to);
  }
  if (!law.without_smallest) return fitted(mode, *law.term, sizes, &SizeTimes::step, to.ranks);
  const double step = fitted(mode, *law.term, without_smallest(sizes), &SizeTimes::step, to.ranks);
  return mode == ScalingMode::weak ? std::max(step, sizes.front().step) : step;
}

/// The largest relative error when each of the sizes is predicted from the others. The smallest size is never
/// left out: the term for the work stands on it.
double own_error_of(ScalingMode mode, const Law& law, std::span<const SizeTimes> sizes) {
  double worst = 0;
  for (std::size_t left_out = 1; left_out < sizes.size(); ++left_out) {
    std::vector<SizeTimes> others(sizes.begin(), sizes.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    const double step = step_by(mode, law, others, sizes[left_out].size);
    worst = std::max(worst, std::abs(step / sizes[left_out].step - 1));
  }
  return worst;
}

/// Whether the study shows how long exchanges take, on two numbers of nodes at least.
bool shows_exchanges(std::span<const SizeTimes> sizes) {
  std::set<int> numbers;
  for (const SizeTimes& each : sizes) {
    if (each.longest_work <= 0 || (each.size.nodes > 1 && each.exchanges <= 0)) return false;
    if (each.size.nodes > 1) numbers.insert(each.size.nodes);
  }
  return numbers.size() > 1;
}

std::vector<Law> possible_laws(ScalingMode mode, bool with_exchanges) {
  std::vector<Law> laws;
  for (const CostTerm* const term : {&kMessages, &kBytes, &kConstant, &kContention}) {
    // A constant is the work itself in the mode `weak`.
    if (mode == ScalingMode::weak && term == &kConstant) continue;
    if (!with_exchanges) {
      laws.push_back({.term = term});
      continue;
    }
    for (const Delays delays : {Delays::rare, Delays::normal}) {
      for (const bool messages : {false, true})
        laws.push_back({.term = term, .with_exchanges = true, .delays = delays, .with_messages = messages});
    }
  }
  return laws;
}

/// The bytes of gradients, where backward hides them on the smallest size. The cost then grows faster than
/// the bytes between the smallest size and the next one, and as fast as the bytes from there on. Two sizes
/// show no error of their own: `own_error` is taken.
Law hidden_bytes(ScalingMode mode, std::span<const SizeTimes> sizes, double own_error) {
  const Law bytes{.term = &kBytes};
  const std::span<const SizeTimes> others = without_smallest(sizes);
  if (numbers_of_ranks(others) >= kMinSizes) own_error = own_error_of(mode, bytes, others);
  return {.term = &kBytes, .without_smallest = true, .own_error = own_error};
}

/// The laws that the study cannot tell from the best one, which is the first: their errors differ by no more
/// than the medians of its rounds may be off (`noise`).
std::vector<Law> plausible_laws(ScalingMode mode, std::span<const SizeTimes> sizes, double noise) {
  const bool with_exchanges = shows_exchanges(sizes);
  std::vector<Law> laws = possible_laws(mode, with_exchanges);
  for (Law& law : laws) law.own_error = own_error_of(mode, law, sizes);
  std::ranges::stable_sort(laws, {}, &Law::own_error);
  constexpr double kAmplified = 5;  // a prediction from fewer sizes is less certain than a size
  const double limit = laws.front().own_error + kAmplified * noise;
  const auto is_worse = [&](const Law& each) { return each.own_error > limit; };
  std::erase_if(laws, is_worse);
  const bool contention = std::ranges::all_of(laws, [](const Law& each) { return each.is_contention(); });
  if (contention && !with_exchanges) {
    const Law hidden = hidden_bytes(mode, sizes, laws.front().own_error);
    if (!is_worse(hidden)) laws.push_back(hidden);
  }
  return laws;
}

std::string text_of(ScalingMode mode, const std::vector<Law>& laws) {
  const std::string work = mode == ScalingMode::weak ? "a + b " : "a/ranks + b ";
  std::vector<std::string> terms;
  for (const Law& law : laws) {
    std::string term = work + law.term->text + (law.without_smallest ? " without the smallest size" : "");
    if (std::ranges::find(terms, term) == terms.end()) terms.push_back(std::move(term));
  }
  const std::string all = joined(terms, ", or ", [](const std::string& term) { return term; });
  if (!laws.front().with_exchanges) return all;
  return "the work of a rank: " + all +
         "; the lateness of the slowest rank; exchanges over nodes that backward does not hide";
}

std::string refusal_of(int ranks, std::size_t sizes, double own_error, int largest) {
  constexpr int kFurthest = 16;
  constexpr double kWorstOwnError = 0.1;
  if (sizes < kMinSizes)
    return "a prediction needs three measured sizes, and the study has " + std::to_string(sizes) +
           ": measure more with --ranks";
  if (ranks > kFurthest * largest)
    return "is more than 16 times the largest measured size, " + std::to_string(largest) +
           ": measure a larger size first";
  if (own_error > kWorstOwnError)
    return "the study predicts its own sizes with an error of " +
           std::to_string(std::lround(100 * own_error)) +
           " %: measure more rounds or sizes, on a machine that does nothing else";
  return "";
}

/// The relative standard error of a step that was measured once, and does not show its noise.
constexpr double kAssumedNoise = 0.01;

/// The largest relative standard error of the sizes' steps over their rounds.
double noise_of(std::span<const SizeRounds> sizes) {
  double largest = 0;
  for (const SizeRounds& size : sizes) {
    if (size.rounds.size() == 1) largest = std::max(largest, kAssumedNoise);
    const double step = times_of(size.size, size.rounds).step;
    double squares = 0;
    for (const Measurement* const round : size.rounds) squares += std::pow(round->step / step - 1, 2);
    largest = std::max(largest, std::sqrt(squares) / static_cast<double>(size.rounds.size()));
  }
  return largest;
}

/// The sizes by rounds that are drawn with replacement. The noise of a size with one round is drawn.
std::vector<SizeTimes> drawn_times(std::span<const SizeRounds> sizes, std::mt19937_64& random) {
  std::normal_distribution<double> noise(0, kAssumedNoise);
  std::vector<SizeTimes> sample;
  std::vector<const Measurement*> rounds;
  for (const SizeRounds& size : sizes) {
    rounds.clear();
    for (std::size_t i = 0; i < size.rounds.size(); ++i)
      rounds.push_back(size.rounds[random() % size.rounds.size()]);
    sample.push_back(times_of(size.size, rounds));
    if (size.rounds.size() == 1) sample.back().slow_down(1 + noise(random));
  }
  return sample;
}

/// The step of `to`, over draws of rounds and all plausible laws.
Estimate step_of(ScalingMode mode, const StudySize& to, std::span<const SizeRounds> sizes,
                 std::span<const Law> laws) {
  constexpr std::uint64_t kDrawSeed = 17;
  constexpr int kDraws = 2000;
  std::mt19937_64 random(kDrawSeed);
  std::vector<double> drawn, likely;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<SizeTimes> sample = drawn_times(sizes, random);
    for (const Law& law : laws) {
      drawn.push_back(step_by(mode, law, sample, to));
      if (!law.is_contention() && law.with_messages == law.with_exchanges) likely.push_back(drawn.back());
    }
  }
  // No study shows how its law errs beyond its sizes. On networks that are known
  // (tests/scaling/virtual_nodes), laws that predict their own sizes within 0.1 % err by up to 2 % for each
  // doubling.
  constexpr double kLeastError = 0.01, kOtherNetwork = 0.05;
  const double doublings = std::max(1.0, std::log2(static_cast<double>(to.ranks) / sizes.back().size.ranks));
  const double spread = std::max(kLeastError, laws.front().own_error) * doublings +
                        (laws.front().network != nullptr ? kOtherNetwork : 0);
  return {median_of(likely.empty() ? drawn : likely), quantile_of(drawn, 0.025) * std::max(0.0, 1 - spread),
          quantile_of(drawn, 0.975) * (1 + spread)};
}

}  // namespace

Network network_of(const NetworkTimes& times) {
  const auto takes_time = [](const MessageTime& each) {
    return each.bytes > 0 && std::isfinite(each.seconds) && each.seconds > 0;
  };
  if (std::isfinite(times.bytes_per_second) && times.bytes_per_second > 0)
    return {times.name, times.source, times.bytes_per_second};
  if (times.nodes < 2 || times.all_reduce.empty() || !takes_time(times.all_reduce.back()))
    throw ConfigError("--network", "no sums over several nodes were measured",
                      "run `cxtrain_mpi scaling network` on two nodes or more", MessageCode::invalid_value);
  const MessageTime& largest = times.all_reduce.back();
  const double sent = 2 * (1 - 1.0 / times.nodes) * static_cast<double>(largest.bytes);
  return {times.name, times.source, sent / largest.seconds};
}

Forecast predict(const StudyResult& result, const std::vector<int>& ranks,
                 const std::optional<Network>& network) {
  const std::vector<SizeRounds> rounds = measured_rounds(result);
  std::vector<SizeTimes> sizes;
  for (const SizeRounds& each : rounds) sizes.push_back(times_of(each.size, each.rounds));
  const ScalingMode mode = result.study.mode;
  Forecast found;
  std::vector<Law> laws;
  if (numbers_of_ranks(sizes) >= kMinSizes) {
    laws = plausible_laws(mode, sizes, noise_of(rounds));
    found.own_error = laws.front().own_error;
    found.model = text_of(mode, laws);
  }
  const bool knows_bytes = !laws.empty() && laws.front().with_exchanges && sizes.back().bytes > 0;
  if (network) {
    found.network = network->name;
    found.source = network->source;
    for (Law& law : laws) law.network = &*network;
  }
  for (const int to : ranks) {
    SizeForecast& forecast = found.sizes.emplace_back();
    forecast.ranks = to;
    const StudySize largest = sizes.empty() ? StudySize{0, 1} : sizes.back().size;
    forecast.refusal = refusal_of(to, numbers_of_ranks(sizes), found.own_error, largest.ranks);
    if (forecast.refusal.empty() && network && !knows_bytes)
      forecast.refusal =
          "the study does not show how long exchanges between nodes take: measure three sizes, two of them "
          "on "
          "several nodes, with the strategy ddp";
    if (!forecast.refusal.empty()) continue;
    const auto nodes =
        static_cast<int>(divide_up<std::int64_t>(std::int64_t{to} * largest.nodes, largest.ranks));
    forecast.step = step_of(mode, {to, nodes}, rounds, laws);
    const SizeTimes& base = sizes.front();
    const double growth = static_cast<double>(to) / base.size.ranks;
    const double share = mode == ScalingMode::weak ? 1 : 1 / growth;
    forecast.samples_per_second = static_cast<double>(rounds.front().rounds.back()->samples_per_step) *
                                  share * growth / forecast.step.value;
    forecast.efficiency = {share * base.step / forecast.step.value, share * base.step / forecast.step.high,
                           share * base.step / forecast.step.low};
  }
  return found;
}

}  // namespace cxtrain
