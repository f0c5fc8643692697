#include "cxtrain/scaling/analysis.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"

namespace cxtrain {
namespace {

double growth_of(const SizeResult& from, const SizeResult& to) {
  return static_cast<double>(to.size.ranks) / from.size.ranks;
}

/// One round may disturb any rank.
std::optional<SlowRank> slow_rank_of(const std::vector<const Measurement*>& rounds) {
  const Measurement& first = *rounds.front();
  SlowRank slow{.rank = first.slowest_rank, .host = first.slowest_host, .longer = 1e9};
  for (const Measurement* const each : rounds) {
    if (each->slowest_rank != slow.rank || each->usual_work <= 0) return std::nullopt;
    slow.longer = std::min(slow.longer, each->slowest_work / each->usual_work - 1);
  }
  return rounds.size() > 1 && slow.longer >= kShareOfCause ? std::optional(slow) : std::nullopt;
}

std::optional<SlowNode> slow_node_of(const std::vector<const Measurement*>& rounds) {
  std::vector<double> speeds;
  for (const Measurement* const each : rounds) {
    if (!each->slow_node || each->slow_node->host != rounds.front()->slow_node->host) return std::nullopt;
    speeds.push_back(each->slow_node->speed);
  }
  return SlowNode{.host = rounds.front()->slow_node->host, .speed = median_of(std::move(speeds))};
}

/// Bytes and messages are those of every round.
ExchangeTimes median_exchange(const std::vector<const Measurement*>& rounds) {
  ExchangeTimes exchange = rounds.front()->exchange;
  const auto median = [&](double ExchangeTimes::*time) {
    return median_of_rounds(rounds, [time](const Measurement& each) { return each.exchange.*time; });
  };
  exchange.seconds = median(&ExchangeTimes::seconds);
  exchange.seconds_in_few = median(&ExchangeTimes::seconds_in_few);
  return exchange;
}

SizeResult summary_of_size(std::span<const Measurement> all, const StudySize& size) {
  SizeResult result{.size = size};
  std::map<std::string, std::vector<double>> phases;
  std::vector<double> rates;
  const std::vector<const Measurement*> good = good_rounds(all, size);
  for (const Measurement* const each : good) {
    result.rounds.push_back(each->step);
    rates.push_back(static_cast<double>(each->samples_per_step) / each->step);
    result.samples_per_step = each->samples_per_step;
    result.pss_bytes = std::max(result.pss_bytes, each->pss_bytes);
    result.first_step_seconds = std::max(result.first_step_seconds, each->first_step_seconds);
    for (const auto& [name, seconds] : each->phases) phases[name].push_back(seconds);
  }
  for (const Measurement& each : all) {
    if (each.size == size && each.failed())
      result.failures.push_back("round " + std::to_string(each.round) + ": " + each.failure);
  }
  if (!result.measured()) return result;
  result.slow_rank = slow_rank_of(good);
  result.slowest_work = median_of_rounds(good, &Measurement::slowest_work);
  result.usual_work = median_of_rounds(good, &Measurement::usual_work);
  result.longest_work = median_of_rounds(good, &Measurement::longest_work);
  result.loading = median_of_rounds(good, &Measurement::loading);
  result.mean_step = median_of_rounds(good, &Measurement::mean_step);
  result.checkpoints = median_of_rounds(good, &Measurement::checkpoints);
  result.exchange = median_exchange(good);
  result.ranks_without_core = good.front()->ranks_without_core;
  result.cores_suffice = good.front()->cores_suffice;
  result.cores = good.front()->cores;
  result.slow_node = slow_node_of(good);
  for (auto& [name, seconds] : phases) result.phases[name] = median_of(std::move(seconds));
  result.samples_per_second = median_of(std::move(rates));
  result.step = bootstrap_median(result.rounds);
  return result;
}

/// The speedup of a size: the median over the rounds that have both sizes of the ratio within the round,
/// which a slow change of the machine leaves as it is.
Estimate speedup_of(std::span<const Measurement> all, const StudySize& base, const StudySize& size) {
  std::vector<double> ratios;
  for (const Measurement* const smaller : good_rounds(all, base)) {
    for (const Measurement* const larger : good_rounds(all, size)) {
      if (larger->round != smaller->round || smaller->samples_per_step == 0) continue;
      const double work =
          static_cast<double>(larger->samples_per_step) / static_cast<double>(smaller->samples_per_step);
      ratios.push_back(work * smaller->step / larger->step);
    }
  }
  return ratios.empty() ? Estimate() : bootstrap_median(ratios);
}

std::vector<const SizeResult*> measured_sizes(const StudyResult& result) {
  std::vector<const SizeResult*> sizes;
  for (const SizeResult& size : result.sizes) {
    if (size.measured()) sizes.push_back(&size);
  }
  return sizes;
}

// ------------------------------------------------------------------ answers

using Answers = std::vector<std::string>;

void answer_how_much(const StudyResult& result, Answers& answers) {
  const auto sizes = measured_sizes(result);
  if (sizes.size() < 2) return;
  const SizeResult& base = *sizes.front();
  const SizeResult& last = *sizes.back();
  answers.push_back(formatted("%s process %.2f times as many samples a second as %s",
                              name_of(last.size).c_str(), last.speedup.value, name_of(base.size).c_str()) +
                    ": an efficiency of " + percent_text(last.efficiency.value) +
                    (last.rounds.size() == 1 ? "."
                                             : " (" + percent_text(last.efficiency.low) + " to " +
                                                   percent_text(last.efficiency.high) + ")."));
  const SizeResult* const best = recommended_size(result);
  if (best == nullptr || best->size == base.size) {
    answers.push_back("No larger size keeps " + percent_text(kWantedEfficiency) +
                      " efficiency at the lower end of its interval.");
  } else {
    answers.push_back("The largest size that keeps " + percent_text(kWantedEfficiency) +
                      " efficiency at the lower end of its interval is " + name_of(best->size) + ".");
  }
}

/// What another phase costs matters from this part of a step on.
constexpr double kWorthNaming = 0.01;

void answer_what_is_lost(const StudyResult& result, Answers& answers) {
  const auto sizes = measured_sizes(result);
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const SizeResult& smaller = *sizes[i - 1];
    const SizeResult& larger = *sizes[i];
    const double lost =
        larger.step.value - perfect_share(result.study.mode, smaller, larger) * smaller.step.value;
    const std::string from = "From " + std::to_string(smaller.size.ranks) + " to " + name_of(larger.size);
    if (lost < kWorthNaming * larger.step.value) {
      answers.push_back(from + " a step loses nothing.");
      continue;
    }
    std::vector<std::string> parts;
    for (const PhaseLoss& loss : losses(result.study.mode, smaller, larger)) {
      if (loss.seconds < kWorthNaming * larger.step.value || parts.size() == 3) break;
      parts.push_back(milliseconds_text(loss.seconds) + " in " + loss.phase +
                      (is_waiting(loss.phase) ? ", where ranks wait for each other" : ""));
    }
    answers.push_back(from + " a step loses " + milliseconds_text(lost) + " of " +
                      milliseconds_text(larger.step.value) +
                      (parts.empty() ? "" : ": " + joined(parts, "; ")) + ".");
  }
}

void answer_causes(const StudyResult& result, Answers& answers) {
  for (const SizeResult* const size : measured_sizes(result)) {
    std::vector<std::string> sentences = explain_causes(*size);
    std::move(sentences.begin(), sentences.end(), std::back_inserter(answers));
  }
}

void answer_how_sure(const StudyResult& result, Answers& answers) {
  double widest = 0;
  std::size_t rounds = SIZE_MAX;
  for (const SizeResult* const size : measured_sizes(result)) {
    const auto [low, high] = std::ranges::minmax_element(size->rounds);
    widest = std::max(widest, *high / *low - 1);
    rounds = std::min(rounds, size->rounds.size());
  }
  if (rounds == SIZE_MAX) return;
  if (rounds < 3) {
    answers.push_back("A size was measured " + counted(rounds, "time") +
                      " only: the intervals say little. Use --repeats 3 or more.");
  } else {
    answers.push_back("Rounds of one size differ by up to " + percent_text(widest) +
                      ": the study does not show smaller differences.");
  }
}

void answer_same_work(const StudyResult& result, Answers& answers) {
  if (result.study.mode == ScalingMode::weak) return;
  std::set<std::int64_t> works;
  for (const SizeResult* const size : measured_sizes(result)) works.insert(size->samples_per_step);
  if (works.size() > 1)
    answers.push_back(
        "The sizes took different numbers of samples in a step (" +
        joined(works, ", ", [](std::int64_t each) { return std::to_string(each); }) +
        "), so this is no strong scaling: the strategy does not give each rank its own samples.");
}

void answer_failures(const StudyResult& result, Answers& answers) {
  for (const SizeResult& size : result.sizes) {
    if (!size.failures.empty())
      answers.push_back("With " + name_of(size.size) + " " +
                        counted(static_cast<int>(size.failures.size()), "training") +
                        " failed: " + size.failures.front() + ".");
  }
}

}  // namespace

std::vector<const Measurement*> good_rounds(std::span<const Measurement> all, const StudySize& size) {
  std::vector<const Measurement*> found;
  for (const Measurement& each : all) {
    if (each.size == size && !each.failed()) found.push_back(&each);
  }
  std::ranges::sort(found, [](const Measurement* a, const Measurement* b) { return a->round < b->round; });
  return found;
}

double perfect_share(ScalingMode mode, const SizeResult& smaller, const SizeResult& larger) {
  return mode == ScalingMode::strong ? 1 / growth_of(smaller, larger) : 1;
}

std::vector<PhaseLoss> losses(ScalingMode mode, const SizeResult& smaller, const SizeResult& larger) {
  const double share = perfect_share(mode, smaller, larger);
  std::set<std::string> names;
  for (const auto* const phases : {&smaller.phases, &larger.phases}) {
    for (const auto& [name, seconds] : *phases) names.insert(name);
  }
  auto found = transformed(names, [&](const std::string& name) {
    return PhaseLoss{name, larger.phase(name) - share * smaller.phase(name)};
  });
  std::ranges::stable_sort(found, std::greater{}, &PhaseLoss::seconds);
  return found;
}

const SizeResult* recommended_size(const StudyResult& result) {
  const SizeResult* best = nullptr;
  for (const SizeResult* const size : measured_sizes(result)) {
    if (size->efficiency.low >= kWantedEfficiency) best = size;
  }
  return best;
}

StudyResult analyse(StudyResult result, std::vector<Measurement> measurements) {
  std::ranges::sort(measurements, [](const Measurement& a, const Measurement& b) {
    return std::tuple(a.size.ranks, a.size.nodes, a.round) < std::tuple(b.size.ranks, b.size.nodes, b.round);
  });
  result.points = std::move(measurements);
  result.answers.clear();
  const auto summary = [&](const StudySize& size) { return summary_of_size(result.points, size); };
  result.sizes = transformed(result.study.sizes, summary);
  const auto measured = measured_sizes(result);
  for (SizeResult& size : result.sizes) {
    if (!size.measured()) continue;
    const SizeResult& base = *measured.front();
    size.speedup = speedup_of(result.points, base.size, size.size);
    if (size.speedup.value <= 0 && base.samples_per_second > 0) {  // no round has both sizes
      const double ratio = size.samples_per_second / base.samples_per_second;
      size.speedup = {ratio, ratio, ratio};
    }
    const double growth = growth_of(base, size);
    size.efficiency = {size.speedup.value / growth, size.speedup.low / growth, size.speedup.high / growth};
    size.causes = causes_of(result, base, size);
  }
  for (const Measurement& each : result.points) {
    if (each.failed()) continue;
    result.strategy = each.strategy;  // of the largest size; one rank may have trained with `single`
    result.precision = each.precision;
    result.cores = each.cores;
  }
  for (const auto answer : {answer_how_much, answer_what_is_lost, answer_causes, answer_same_work,
                            answer_how_sure, answer_failures})
    answer(result, result.answers);
  return result;
}

}  // namespace cxtrain
