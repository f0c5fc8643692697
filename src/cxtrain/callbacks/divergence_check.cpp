#include "cxtrain/callbacks/divergence_check.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

/// What a rank says of itself: its host, and then the checksum of each parameter.
std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The ranks whose `line` is another than that of more than half of them; all where there is no such half.
std::vector<std::size_t> ranks_apart(const std::vector<std::vector<std::string>>& ranks, std::size_t line) {
  std::vector<std::size_t> apart, all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    all.push_back(rank);
    const auto alike = std::count_if(ranks.begin(), ranks.end(), [&](const auto& other) {
      return other.at(line) == ranks[rank].at(line);
    });
    if (2 * static_cast<std::size_t>(alike) <= ranks.size()) apart.push_back(rank);
  }
  const bool majority = apart.size() < ranks.size();
  return majority ? apart : all;
}

/// "rank 1 on n2", "rank 0 on n1 and rank 1 on n2".
std::string names_of_ranks(const std::vector<std::vector<std::string>>& ranks,
                           const std::vector<std::size_t>& which) {
  constexpr std::size_t kMaxNames = 8;
  std::string text;
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (i == kMaxNames) return text + " and " + std::to_string(which.size() - kMaxNames) + " more";
    text += i == 0 ? "" : i + 1 == which.size() ? " and " : ", ";
    text += "rank " + std::to_string(which[i]) + " on " + ranks[which[i]].front();
  }
  return text;
}

/// Of texts that are not all the same. Throws the error, the same on all ranks.
[[noreturn]] void tell_divergence(const std::vector<std::string>& texts,
                                  const std::vector<std::pair<std::string, std::string>>& own,
                                  std::int64_t step) {
  std::vector<std::vector<std::string>> ranks;
  ranks.reserve(texts.size());
  for (const std::string& text : texts) {
    ranks.push_back(lines_of(text));
    ranks.back().resize(own.size() + 1);
  }
  std::string first;
  std::vector<std::size_t> apart;
  std::size_t others = 0;
  for (std::size_t line = 1; line <= own.size(); ++line) {
    const bool same = std::all_of(ranks.begin(), ranks.end(),
                                  [&](const auto& rank) { return rank[line] == ranks[0][line]; });
    if (same) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    first = own[line - 1].first;
    apart = ranks_apart(ranks, line);
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

void DivergenceCheck::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  const std::int64_t step = run.global_step();
  if (run.world().size() == 1 || step == 0 || step % every_ != 0 || step == last_) return;
  last_ = step;
  if (nothing_to_compare_) return;
  const std::vector<std::pair<std::string, std::string>> checksums = parameter_checksums(run);
  if (checksums.empty()) {
    nothing_to_compare_ = true;
    log_warning("divergence_check compares nothing: with this strategy no parameter is on several ranks");
    return;
  }
  std::string all;
  for (const auto& [name, checksum] : checksums) all += checksum + "\n";
  const std::vector<std::string> digests = run.world().all_gather(checksum_of(all));
  if (std::all_of(digests.begin(), digests.end(), [&](const auto& other) { return other == digests[0]; }))
    return;
  tell_divergence(run.world().all_gather(hostname() + "\n" + all), checksums, step);
}

}  // namespace cxtrain
