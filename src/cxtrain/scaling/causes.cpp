#include "cxtrain/scaling/causes.h"

#include <algorithm>
#include <utility>

#include "cxtrain/base/text.h"
#include "cxtrain/scaling/analysis.h"
#include "cxtrain/scaling/exchange_model.h"

namespace cxtrain {
namespace {

int ranks_of_node(const SizeResult& size) { return size.size.ranks / size.size.nodes; }

bool shares_cores(const StudyResult& study, const SizeResult& size) {
  return size.ranks_without_core > 0 ||
         (size.cores > 0 && ranks_of_node(size) * std::max(1, study.study.threads) > size.cores);
}

using Found = std::vector<std::pair<CauseKind, double>>;  ///< causes, and seconds of a step

/// The share of exchanges that begins when backward has ended (`exposed_exchanges`).
double tail_of(const ExchangeTimes& exchange) {
  return exchange.waits_for_backward ? 1 : exchange.last_message;
}

/// Returns how much of the exchanges of a size backward does not hide, by the times of exchanges alone; 0:
/// not measured.
double exposed_exchanges_of(const SizeResult& size) {
  return exposed_exchanges(size.exchange.seconds, size.phase("backward"), tail_of(size.exchange));
}

/// Exchanges that no work hides, and what would hide a part of them, one cure after the other.
Found causes_of_exchanges(const SizeResult& size) {
  constexpr double kMaxSteps = 1.5;
  const ExchangeTimes& exchange = size.exchange;
  const double backward = size.phase("backward"), alone = exposed_exchanges_of(size);
  double left = std::max(0.0, size.step.value - size.longest_work);  // seconds that no cure hides
  double seconds = exchange.seconds, tail = tail_of(exchange);       // as `exposed_exchanges` takes them
  // How much longer ranks wait in steps than by the times of exchanges alone.
  const double in_steps = alone > 0 ? std::min(kMaxSteps, left / alone) : 1;
  Found found;
  // Notes what is gained if exchanges take so long alone, with such a tail (`exposed_exchanges`).
  const auto cure = [&](CauseKind kind, double new_seconds, double new_tail) {
    const double less =
        exposed_exchanges(seconds, backward, tail) - exposed_exchanges(new_seconds, backward, new_tail);
    const double gain = std::min(left, in_steps * less);
    if (gain < kShareOfCause * size.step.value) return;
    found.emplace_back(kind, gain);
    left -= gain;
    seconds = new_seconds;
    tail = new_tail;
  };
  if (exchange.seconds > 0) {
    const bool waits = exchange.waits_for_backward;
    if (exchange.seconds_in_few > 0)
      cure(CauseKind::small_messages, exchange.seconds_in_few, waits ? 1 : exchange.last_of_few);
    if (size.slow_node && size.slow_node->speed < kSlowNode)
      cure(CauseKind::slow_link, seconds * size.slow_node->speed, tail);
    if (waits) cure(CauseKind::no_overlap, seconds, exchange.last_message);
  }
  found.emplace_back(CauseKind::communication, left);
  return found;
}

std::string slow_rank_text(const SlowRank& slow, const std::string& time) {
  return "rank " + std::to_string(slow.rank) + (slow.host.empty() ? "" : " on " + slow.host) + " works " +
         time +
         " longer than the others in each round, and they wait for it: compare its phases in "
         "profile.json, and its host with the others (cxtrain_mpi doctor)";
}

std::string small_messages_text(const ExchangeTimes& exchange, const std::string& time) {
  return "gradients travel in " + counted(static_cast<int>(exchange.messages), "message") + ", which take " +
         milliseconds_text(exchange.seconds) + "; in few messages they would take " +
         milliseconds_text(exchange.seconds_in_few) + ", and " + time +
         " less would be left after the work: leave --strategy.bucket_bytes and "
         "--strategy.first_bucket_bytes out";
}

std::string communication_text(const SizeResult& size, const std::string& time) {
  const double alone = size.exchange.seconds;
  return "exchanges between ranks take " + time + " that no work hides" +
         (alone > 0 ? " (alone they take " + milliseconds_text(alone) + ")" : "") + ": " +
         (size.size.nodes > 1 ? "a faster network, --strategy.comm_hook bf16 (half of the bytes), or "
                                "--accumulate_grad_batches and larger batches (fewer exchanges)"
                              : "--accumulate_grad_batches or larger batches (fewer exchanges)");
}

std::string what_is_measured(const Cause& cause, const SizeResult& size) {
  const std::string time = milliseconds_text(cause.seconds);
  switch (cause.kind) {
    case CauseKind::loader:
      return "ranks wait for batches for " + time +
             " of a step: use more --data.num_workers, or a cheaper loader";
    case CauseKind::slow_rank:
      return slow_rank_text(*size.slow_rank, time);
    case CauseKind::noise:
      return "ranks differ from step to step, and all wait " + time +
             " for the slowest of each step: look for other programs on their cores, for samples of "
             "different length, for slow reads of files";
    case CauseKind::small_messages:
      return small_messages_text(size.exchange, time);
    case CauseKind::slow_link:
      return "the connections of " + size.slow_node->host + " carry " + percent_text(size.slow_node->speed) +
             " of the bytes a second that the other nodes' carry, and all ranks wait " + time +
             " for them: look at the node's cable, port and driver (ethtool)";
    case CauseKind::no_overlap:
      return "gradients travel after backward, which would hide " + time +
             " of their way: leave --strategy.overlap out";
    case CauseKind::communication:
      return communication_text(size, time);
    case CauseKind::binding:
      return counted(size.ranks_without_core, "rank") +
             " may only use cores of other ranks, although the machine has cores for all, and work takes " +
             time +
             " longer: mpirun --bind-to core, or srun --cpu-bind=cores (cxtrain_mpi doctor shows the "
             "cores of each rank)";
    case CauseKind::cores:
      return std::to_string(ranks_of_node(size)) + " ranks of a node share " + counted(size.cores, "core") +
             ", and their work takes " + time + " longer";
    case CauseKind::shared_node:
      return "the work of a rank takes " + time +
             " longer beside the other ranks of its node, which share its memory, caches and clock";
    case CauseKind::optimizer:
      return "the optimizer takes " + time +
             " more than a share of it would: --strategy.shard_optimizer true, or --strategy zero, divides "
             "its work among ranks";
    case CauseKind::checkpoints:
      return "training waits " + time +
             " of a step, in the mean, for checkpoints: write fewer of them "
             "(--checkpoint.every_n_train_steps, --checkpoint.train_time_interval)";
    case CauseKind::fixed_work:
      return time + " of a rank's work remain when the batch of the rank shrinks: use a larger batch";
  }
  return {};
}

/// Returns how long a rank works in a step without noise: the rank that is slowest in each round, else the
/// mean over the ranks, of which one is slowest by chance.
double work_without_noise(const SizeResult& size) {
  if (size.slow_rank) return size.slowest_work;
  return size.usual_work + (size.slowest_work - size.usual_work) / size.size.ranks;
}

}  // namespace

double step_with(CauseKind kind, const SizeResult& size) {
  return kind == CauseKind::checkpoints ? size.mean_step : size.step.value;
}

std::vector<Cause> causes_of(const StudyResult& study, const SizeResult& smallest, const SizeResult& size) {
  std::vector<Cause> found;
  const auto add = [&](CauseKind kind, double seconds) {
    const double step = step_with(kind, size);
    if (seconds >= kShareOfCause * step) found.push_back({kind, seconds, seconds / step});
  };
  const double share = perfect_share(study.study.mode, smallest, size);
  const double more_work = size.usual_work - share * smallest.usual_work;
  const double more_loading = size.loading - share * smallest.loading;
  add(CauseKind::loader, size.loading);
  if (size.mean_step > 0) add(CauseKind::checkpoints, size.checkpoints);
  if (shares_cores(study, size)) {
    const bool by_binding = size.ranks_without_core > 0 && size.cores_suffice;
    // Ranks that wait for each other wait for cores, too.
    const double more_exchanges = exposed_exchanges_of(size) - share * exposed_exchanges_of(smallest);
    add(by_binding ? CauseKind::binding : CauseKind::cores,
        size.step.value - share * smallest.step.value - more_loading - more_exchanges);
  } else {
    if (size.slow_rank) add(CauseKind::slow_rank, size.slowest_work - size.usual_work);
    if (size.size.ranks > 1 && size.longest_work > 0) {  // else a program before this one has measured
      add(CauseKind::noise, size.longest_work - work_without_noise(size));
      for (const auto& [kind, seconds] : causes_of_exchanges(size)) add(kind, seconds);
    }
    const double optimizer = size.phase("optimizer");
    // Ranks that divide the optimizer's work still share the memory of their node.
    const double more_optimizer =
        std::min(optimizer - share * smallest.phase("optimizer"), (1 - share) * optimizer);
    if (study.study.mode == ScalingMode::strong) {
      add(CauseKind::optimizer, more_optimizer);
      add(CauseKind::fixed_work, more_work - more_loading - more_optimizer);
    } else if (ranks_of_node(size) > ranks_of_node(smallest)) {
      add(CauseKind::shared_node, more_work - more_loading);
    }
  }
  std::ranges::stable_sort(found, std::greater{}, &Cause::seconds);
  return found;
}

std::vector<std::string> explain_causes(const SizeResult& size) {
  std::vector<std::string> sentences;
  for (const Cause& cause : size.causes) {
    const double step = step_with(cause.kind, size);
    sentences.push_back("With " + name_of(size.size) + ": " + what_is_measured(cause, size) +
                        ". Without this a step takes " + milliseconds_text(step - cause.seconds) +
                        " in place of " + milliseconds_text(step) + ".");
  }
  return sentences;
}

}  // namespace cxtrain
