#include "cxtrain/callbacks/run.h"

#include <torch/nn/module.h>

#include <utility>

#include "cxtrain/base/class_name.h"
#include "cxtrain/base/error.h"
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

void Run::refuse_model(const std::type_info& wanted) const {
  const torch::nn::Module& model = parts_.module;
  throw TrainingError("a hook asks for a model of class " + class_name(wanted) +
                      ", and the model is of class " + class_name(typeid(model)));
}

}  // namespace cxtrain
