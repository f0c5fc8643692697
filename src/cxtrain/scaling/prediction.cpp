#include "cxtrain/scaling/prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <utility>

#include "cxtrain/base/joined.h"

namespace cxtrain {
namespace {

constexpr std::size_t kFewestSizes = 3;

struct FitPoint {
  double ranks, step;
};

/// What ranks cost each other, as a function of their number.
struct CostTerm {
  const char* text;
  double (*at)(double ranks);
};

constexpr double always_one(double /*ranks*/) { return 1; }
constexpr double other_ranks(double ranks) { return ranks - 1; }
constexpr double part_sent(double ranks) { return 1 - 1 / ranks; }
constexpr CostTerm kContention{"ranks", &other_ranks}, kBytes{"(1 - 1/ranks)", &part_sent};
constexpr std::array<CostTerm, 4> kCostTerms{{
    {"log2(ranks)", [](double ranks) { return std::log2(ranks); }},
    kBytes,
    {"constant", &always_one},
    kContention,
}};

class StepFit {
 public:
  StepFit(ScalingMode mode, const CostTerm& term) : mode_(mode), term_(&term) {}

  /// Least squares of relative errors, with coefficients of at least 0.
  void fit(std::span<const FitPoint> points) {
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
    for (const FitPoint& point : points) {
      const double u = work(point.ranks) / point.step, v = term_->at(point.ranks) / point.step;
      uu += u * u;
      uv += u * v;
      vv += v * v;
      u1 += u;
      v1 += v;
    }
    const double determinant = uu * vv - uv * uv;
    work_ = uu > 0 ? u1 / uu : 0;
    cost_ = 0;
    if (determinant <= 1e-12 * uu * vv) return;
    const double both_work = (u1 * vv - v1 * uv) / determinant, both_cost = (v1 * uu - u1 * uv) / determinant;
    if (both_work < 0) {
      work_ = 0;
      cost_ = v1 / vv;
    } else if (both_cost > 0) {
      work_ = both_work;
      cost_ = both_cost;
    }
  }

  double at(double ranks) const { return work_ * work(ranks) + cost_ * term_->at(ranks); }

 private:
  double work(double ranks) const { return mode_ == ScalingMode::weak ? 1 : 1 / ranks; }

  ScalingMode mode_;
  const CostTerm* term_;
  double work_ = 0, cost_ = 0;
};

/// The largest relative error when each of the points is predicted from the others. The smallest size is
/// never left out: the term for the work stands on it.
double own_error_of(ScalingMode mode, const CostTerm& term, std::span<const FitPoint> points) {
  double worst = 0;
  for (std::size_t left_out = 1; left_out < points.size(); ++left_out) {
    std::vector<FitPoint> others(points.begin(), points.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    StepFit fit(mode, term);
    fit.fit(others);
    worst = std::max(worst, std::abs(fit.at(points[left_out].ranks) / points[left_out].step - 1));
  }
  return worst;
}

std::string refusal_of(int ranks, std::size_t sizes, double own_error, int largest) {
  constexpr int kFurthest = 16;
  constexpr double kWorstOwnError = 0.1;
  if (sizes < kFewestSizes)
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

/// A term, and how well a study predicts its own sizes with it.
struct RankedTerm {
  const CostTerm* term;
  double own_error;
  bool without_smallest = false;  ///< the term is fitted to the other sizes

  bool is_contention() const { return term->at == kContention.at; }
};

/// The points of all ranks but the fewest.
std::span<const FitPoint> without_smallest(std::span<const FitPoint> points) {
  std::size_t first = 0;
  while (first < points.size() && points[first].ranks == points.front().ranks) ++first;
  return points.subspan(first);
}

std::size_t numbers_of_ranks(std::span<const FitPoint> points) {
  std::size_t numbers = 0;
  for (; !points.empty(); points = without_smallest(points)) ++numbers;
  return numbers;
}

/// The bytes of gradients, where backward hides them on the smallest size. The cost then grows faster than
/// the bytes between the smallest size and the next one, and as fast as the bytes from there on. Two sizes
/// show no error of their own: `own_error` is taken.
RankedTerm hidden_bytes(ScalingMode mode, std::span<const FitPoint> points, double own_error) {
  const std::span<const FitPoint> others = without_smallest(points);
  if (numbers_of_ranks(others) >= kFewestSizes) own_error = own_error_of(mode, kBytes, others);
  return {&kBytes, own_error, /*without_smallest=*/true};
}

/// The terms that the study cannot tell from the best one, which is the first: their errors differ by no more
/// than the medians of its rounds may be off (`noise`).
std::vector<RankedTerm> plausible_terms(ScalingMode mode, std::span<const FitPoint> points, double noise) {
  std::vector<RankedTerm> ranked;
  for (const CostTerm& term : kCostTerms) {
    // A constant is the work itself in the mode `weak`.
    if (mode == ScalingMode::weak && term.at == &always_one) continue;
    ranked.push_back({&term, own_error_of(mode, term, points)});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const RankedTerm& a, const RankedTerm& b) { return a.own_error < b.own_error; });
  constexpr double kAmplified = 5;  // a prediction from fewer sizes is less certain than a size
  const double limit = ranked.front().own_error + kAmplified * noise;
  const auto is_worse = [&](const RankedTerm& each) { return each.own_error > limit; };
  std::erase_if(ranked, is_worse);
  if (std::all_of(ranked.begin(), ranked.end(), std::mem_fn(&RankedTerm::is_contention))) {
    const RankedTerm hidden = hidden_bytes(mode, points, ranked.front().own_error);
    if (!is_worse(hidden)) ranked.push_back(hidden);
  }
  return ranked;
}

/// The largest relative standard error of the sizes' steps over their rounds. A size that was measured once
/// does not show its noise, which is assumed.
double noise_of_sizes(std::span<const SizeResult* const> sizes) {
  constexpr double kAssumed = 0.01;
  double largest = 0;
  for (const SizeResult* const size : sizes) {
    if (size->rounds.size() == 1) largest = std::max(largest, kAssumed);
    double squares = 0;
    for (const double step : size->rounds) squares += std::pow(step / size->step.value - 1, 2);
    const auto rounds = static_cast<double>(size->rounds.size());
    largest = std::max(largest, std::sqrt(squares) / rounds);
  }
  return largest;
}

/// The sizes with steps of rounds that are drawn with replacement.
std::vector<FitPoint> drawn_points(std::span<const SizeResult* const> sizes, std::mt19937_64& random) {
  std::vector<FitPoint> sample;
  for (const SizeResult* const size : sizes) {
    std::vector<double> rounds;
    for (std::size_t i = 0; i < size->rounds.size(); ++i)
      rounds.push_back(size->rounds[random() % size->rounds.size()]);
    sample.push_back({static_cast<double>(size->size.ranks), median_of(std::move(rounds))});
  }
  return sample;
}

/// The step of `ranks`, over draws of rounds and all plausible terms.
Estimate step_of(ScalingMode mode, int ranks, std::span<const SizeResult* const> sizes,
                 std::span<const RankedTerm> terms) {
  constexpr std::uint64_t kDrawSeed = 17;
  constexpr int kDraws = 2000;
  std::mt19937_64 random(kDrawSeed);
  std::vector<double> drawn, likely;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<FitPoint> sample = drawn_points(sizes, random);
    const double least = mode == ScalingMode::weak ? sample.front().step : 0;
    for (const RankedTerm& each : terms) {
      StepFit fit(mode, *each.term);
      fit.fit(each.without_smallest ? without_smallest(sample) : std::span<const FitPoint>(sample));
      drawn.push_back(each.without_smallest ? std::max(fit.at(ranks), least) : fit.at(ranks));
      if (!each.is_contention()) likely.push_back(drawn.back());
    }
  }
  const double doublings = std::max(1.0, std::log2(static_cast<double>(ranks) / sizes.back()->size.ranks));
  const double spread = terms.front().own_error * doublings;
  return {median_of(likely.empty() ? drawn : likely), quantile_of(drawn, 0.025) * std::max(0.0, 1 - spread),
          quantile_of(drawn, 0.975) * (1 + spread)};
}

}  // namespace

Forecast predict(const StudyResult& result, const std::vector<int>& ranks) {
  std::vector<const SizeResult*> sizes;
  std::vector<FitPoint> points;
  for (const SizeResult& size : result.sizes) {
    if (!size.measured()) continue;
    sizes.push_back(&size);
    points.push_back({static_cast<double>(size.size.ranks), size.step.value});
  }
  const ScalingMode mode = result.study.mode;
  const std::string work = mode == ScalingMode::weak ? "a" : "a/ranks";
  Forecast found;
  std::vector<RankedTerm> terms;
  if (numbers_of_ranks(points) >= kFewestSizes) {
    terms = plausible_terms(mode, points, noise_of_sizes(sizes));
    found.own_error = terms.front().own_error;
    found.model =
        work + " + b " + joined(terms, ", or " + work + " + b ", [](const RankedTerm& each) {
          return std::string(each.term->text) + (each.without_smallest ? " without the smallest size" : "");
        });
  }
  for (const int to : ranks) {
    SizeForecast& forecast = found.sizes.emplace_back();
    forecast.ranks = to;
    const int largest = sizes.empty() ? 0 : sizes.back()->size.ranks;
    forecast.refusal = refusal_of(to, numbers_of_ranks(points), found.own_error, largest);
    if (!forecast.refusal.empty()) continue;
    forecast.step = step_of(mode, to, sizes, terms);
    const SizeResult& base = *sizes.front();
    const double growth = static_cast<double>(to) / base.size.ranks;
    const double share = mode == ScalingMode::weak ? 1 : 1 / growth;
    forecast.samples_per_second =
        static_cast<double>(base.samples_per_step) * share * growth / forecast.step.value;
    forecast.efficiency = {share * base.step.value / forecast.step.value,
                           share * base.step.value / forecast.step.high,
                           share * base.step.value / forecast.step.low};
  }
  return found;
}

}  // namespace cxtrain
