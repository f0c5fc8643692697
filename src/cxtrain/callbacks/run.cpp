#include "cxtrain/callbacks/run.h"

#include <torch/nn/module.h>

#include <set>

#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {

std::vector<LearningRate> Run::learning_rates() const {
  const OptimizerList* const optimizers = parts_.progress.optimizers;
  return optimizers == nullptr ? std::vector<LearningRate>{} : optimizers->learning_rates();
}

std::span<OptimizerRef* const> Run::optimizers() const {
  const OptimizerList* const optimizers = parts_.progress.optimizers;
  return optimizers == nullptr ? std::span<OptimizerRef* const>() : optimizers->all();
}

std::optional<double> Run::metric(std::string_view name) const { return parts_.metrics.last(name); }

std::optional<double> Run::metric_of_all_ranks(std::string_view name) const {
  return parts_.metrics.last_of_all_ranks(name, parts_.world);
}

void Run::log(std::string_view name, double value, const LogOptions& options) {
  parts_.metrics.log(name, value, options);
}

void Run::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  parts_.metrics.log(name, value, options);
}

void Run::request_stop(std::string reason) {
  if (!parts_.requests.stop) parts_.requests.stop_reason = std::move(reason);
  parts_.requests.stop = true;
}

void Run::request_requeue(std::string reason) {
  if (!parts_.requests.requeue) parts_.requests.requeue_reason = std::move(reason);
  parts_.requests.requeue = true;
}

bool Run::ranks_keep_whole_models() const {
  return parts_.strategy == nullptr || parts_.strategy->ranks_keep_whole_models();
}

std::vector<std::pair<std::string, std::string>> Run::parameter_checksums() const {
  if (parts_.strategy == nullptr || !ranks_keep_whole_models()) return {};
  std::set<std::string> parameters;
  for (const auto& parameter : parts_.module.named_parameters()) parameters.insert(parameter.key());
  std::vector<std::pair<std::string, std::string>> checksums;
  parts_.strategy->visit_whole([&](const NamedTensor& named) {
    if (!parameters.contains(named.name)) return;
    checksums.emplace_back(named.name, checksum_of(host_bytes(on_host(named.tensor))));
  });
  return checksums;
}

}  // namespace cxtrain
