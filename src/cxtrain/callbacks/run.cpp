#include "cxtrain/callbacks/run.h"

#include <utility>

#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {

std::span<OptimizerRef* const> Run::optimizers() const {
  const OptimizerList* const optimizers = parts_.progress.optimizers;
  return optimizers == nullptr ? std::span<OptimizerRef* const>() : optimizers->all();
}

std::optional<double> Run::metric(std::string_view name) const { return parts_.metrics.last(name); }

void Run::log(std::string_view name, double value, const LogOptions& options) {
  parts_.metrics.log(name, value, options);
}

void Run::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  parts_.metrics.log(name, value, options);
}

void Run::request_stop(std::string reason, RequestedBy by) {
  Requests& requests = parts_.requests;
  if (!requests.stop) requests.stop_reason = std::move(reason);
  requests.stop = true;
  requests.stop_on_all = requests.stop_on_all || by == RequestedBy::all_ranks;
}

void Run::request_checkpoint(RequestedBy by) {
  Requests& requests = parts_.requests;
  requests.checkpoint = true;
  requests.checkpoint_on_all = requests.checkpoint_on_all || by == RequestedBy::all_ranks;
}

void Run::request_requeue(std::string reason) {
  if (!parts_.requests.requeue) parts_.requests.requeue_reason = std::move(reason);
  parts_.requests.requeue = true;
}

}  // namespace cxtrain
