#include "cxtrain/callbacks/divergence_check.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

/// The values of a rank's parameters, as checksums.
struct RankChecksums {
  std::string host;
  std::vector<std::string> checksums;  ///< of each parameter

  void fields(auto&& field) { CXTRAIN_EACH(field, host, checksums); }
};

/// Returns the ranks that lack the majority's checksum of a parameter; without a majority, all ranks.
std::vector<std::size_t> ranks_apart(const std::vector<RankChecksums>& ranks, std::size_t parameter) {
  std::vector<std::size_t> apart;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto alike = std::ranges::count_if(ranks, [&](const auto& other) {
      return other.checksums.at(parameter) == ranks[rank].checksums.at(parameter);
    });
    if (2 * static_cast<std::size_t>(alike) <= ranks.size()) apart.push_back(rank);
  }
  return apart;
}

/// "rank 1 on n2", "rank 0 on n1 and rank 1 on n2".
std::string names_of_ranks(const std::vector<RankChecksums>& ranks, const std::vector<std::size_t>& which) {
  constexpr std::size_t kMaxNames = 8;
  std::string text;
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (i == kMaxNames) return text + " and " + std::to_string(which.size() - kMaxNames) + " more";
    text += i == 0 ? "" : i + 1 == which.size() ? " and " : ", ";
    text += "rank " + std::to_string(which[i]) + " on " + ranks[which[i]].host;
  }
  return text;
}

/// Throws an equal error on all ranks. `ranks`: their checksums differ. `names`: of the parameters.
[[noreturn]] void end_for_divergence(std::vector<RankChecksums> ranks, const std::vector<std::string>& names,
                                     std::int64_t step) {
  for (RankChecksums& rank : ranks) rank.checksums.resize(names.size());
  std::string first;
  std::vector<std::size_t> apart;
  std::size_t others = 0;
  for (std::size_t parameter = 0; parameter < names.size(); ++parameter) {
    const bool same = std::ranges::all_of(ranks, [&](const RankChecksums& rank) {
      return rank.checksums[parameter] == ranks[0].checksums[parameter];
    });
    if (same) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    first = names[parameter];
    apart = ranks_apart(ranks, parameter);
  }
  const bool majority = apart.size() < ranks.size();
  throw AgreedError(
      ExitCode::failure, MessageCode::ranks_diverged,
      "the ranks no longer hold equal parameters after step " + std::to_string(step) + ": " +
          names_of_ranks(ranks, apart) +
          (majority ? (apart.size() == 1 ? " has other values than the majority in "
                                         : " have other values than the majority in ")
                    : " differ, and no majority says which is wrong, in ") +
          first +
          (others == 0 ? ""
                       : " and " + std::to_string(others) + (others == 1 ? " more" : " more parameters")) +
          " (divergence_check); resume from a checkpoint of an earlier step. Look for a hook or an optimizer "
          "that differs between ranks, or for memory or a GPU that fails");
}

/// The name of each parameter of the model and a checksum of this rank's values, in the order of the names.
/// Empty if a rank keeps no whole model, or ranks update their models apart. Reads the whole model, from GPUs
/// through host memory. Collective.
std::vector<std::pair<std::string, std::string>> parameter_checksums(const Run& run) {
  Strategy* const strategy = run.strategy();
  if (strategy == nullptr || !strategy->ranks_keep_whole_models() || strategy->ranks_update_apart())
    return {};
  std::set<std::string> parameters;
  for (const auto& parameter : run.module().named_parameters()) parameters.insert(parameter.key());
  std::vector<std::pair<std::string, std::string>> checksums;
  strategy->visit_whole([&](const NamedTensor& named) {
    if (!parameters.contains(named.name)) return;
    checksums.emplace_back(named.name, checksum_of(host_bytes(on_host(named.tensor))));
  });
  return checksums;
}

}  // namespace

DivergenceCheck::DivergenceCheck(const Args& args) : every_(args.every_n_train_steps) {
  require_fields(args);
}

void DivergenceCheck::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  const std::int64_t step = run.global_step();
  if (run.world().size() == 1 || !run.progress().stepped || step % every_ != 0) return;
  if (nothing_to_compare_) return;
  const std::vector<std::pair<std::string, std::string>> checksums = parameter_checksums(run);
  if (checksums.empty()) {
    nothing_to_compare_ = true;
    log_warning("divergence_check compares nothing: with this strategy no parameter is on several ranks");
    return;
  }
  RankChecksums own{hostname(), {}};
  std::vector<std::string> names;
  for (const auto& [name, checksum] : checksums) {
    names.push_back(name);
    own.checksums.push_back(checksum);
  }
  if (same_on_all_ranks(run.world(), to_message(own.checksums))) return;
  end_for_divergence(gather_values(run.world(), own), names, step);
}

}  // namespace cxtrain
