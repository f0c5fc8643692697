#include "cxtrain/trainer/module.h"

#include <algorithm>
#include <unordered_set>

#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/place_layers.h"

namespace cxtrain {
namespace {

/// LibTorch lists a tensor that several modules share (tied weights) once for each of them, which would train
/// it as often.
std::vector<NamedTensor> each_once(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  std::unordered_set<const at::TensorImpl*> seen;
  std::vector<NamedTensor> result;
  for (const auto& item : tensors) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) result.push_back({item.key(), item.value()});
  }
  return result;
}

/// Throws TrainingError if no fit runs. `method`: of the module.
OptimizerList& optimizers_of(const Run* run, const std::string& method) {
  OptimizerList* const optimizers = run != nullptr ? run->progress().optimizers : nullptr;
  if (optimizers == nullptr) throw TrainingError(method + "() has an effect in a fit only");
  return *optimizers;
}

/// Outside of a run, and in the replicas of `dp`.
class NoLoggers final : public RunLoggers {
  void log_image(std::string_view, const at::Tensor&) override {}
  void log_text(std::string_view, std::string_view) override {}
};

}  // namespace

void Module::validation_step(const Batch&, std::int64_t) {
  throw StepNotDefined("validate", "validation_step");
}
void Module::test_step(const Batch&, std::int64_t) { throw StepNotDefined("test", "test_step"); }
at::Tensor Module::predict_step(const Batch&, std::int64_t) {
  throw StepNotDefined("predict", "predict_step");
}

void Module::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  if (sink_ != nullptr) sink_->log(name, value, options);
}

void Module::log(std::string_view name, double value, const LogOptions& options) {
  if (sink_ != nullptr) sink_->log(name, value, options);
}

void Module::log(std::string_view name, Metric& metric, const LogOptions& options) {
  if (sink_ != nullptr) sink_->log(name, metric, options);
}

Run& Module::run() const {
  if (run_ == nullptr) throw TrainingError("run() of a model needs a fit or an evaluation of the model");
  return *run_;
}

RunLoggers& Module::loggers() const {
  static NoLoggers none;
  const bool is_of_run = run_ != nullptr && &run_->module() == this;
  return is_of_run ? run_->loggers() : none;
}

void Module::add_metric(std::string name, std::unique_ptr<Metric> metric) {
  const auto same = [&](const std::unique_ptr<Metric>& other) { return other->name() == name; };
  if (std::ranges::any_of(metrics_, same))
    throw ConfigError("model", "registers two metrics `" + name + "`", "", MessageCode::bad_model);
  if (!is_one_line(name))
    throw ConfigError("model", "registers a metric whose name is not one line", "", MessageCode::bad_model);
  metric->set_name(std::move(name));
  metric->to(device());
  metrics_.push_back(std::move(metric));
}

std::vector<Metric*> Module::all_metrics() const {
  return transformed(metrics_, [](const auto& metric) { return metric.get(); });
}

OptimizerRef& Module::optimizer(std::string_view name) const {
  const std::span<OptimizerRef* const> optimizers = optimizers_of(run_, "optimizer").all();
  if (name.empty() && optimizers.size() == 1) return *optimizers.front();
  std::string names;
  for (OptimizerRef* const optimizer : optimizers) {
    if (optimizer->name() == name) return *optimizer;
    names += (names.empty() ? "`" : ", `") + optimizer->name() + "`";
  }
  throw TrainingError("optimizer(\"" + std::string(name) +
                      "\") was asked for; configure_optimizers returns " + names);
}

void Module::manual_backward(const at::Tensor& loss) {
  optimizers_of(run_, "manual_backward").backward(loss);
}

std::vector<NamedTensor> Module::all_parameters() const { return each_once(named_parameters()); }
std::vector<NamedTensor> Module::all_buffers() const { return each_once(named_buffers()); }

at::Device Module::part_device(std::size_t part) const {
  parts_asked_for_ = std::max(parts_asked_for_, part + 1);
  return devices_[std::min(part, devices_.size() - 1)];
}

at::Tensor Module::to_part(const at::Tensor& tensor, std::size_t part) const {
  return tensor.to(part_device(part), tensor.scalar_type(), /*non_blocking=*/true);
}

void Module::place(std::span<const at::Device> devices, const PrecisionPolicy& precision) {
  devices_.assign(devices.begin(), devices.end());
  place_layers(*this, device(), precision);
  for (const std::unique_ptr<Metric>& metric : metrics_) metric->to(device());
  parts_asked_for_ = 0;
  place_parts();
  if (devices_.size() > std::max<std::size_t>(parts_asked_for_, 1)) {
    throw ConfigError("trainer.devices_per_rank",
                      std::to_string(devices_.size()) +
                          " devices a rank were asked for, but the model puts " +
                          (parts_asked_for_ < 2 ? "everything on the first"
                                                : "its parts on " + std::to_string(parts_asked_for_)),
                      "--devices_per_rank " + std::to_string(std::max<std::size_t>(parts_asked_for_, 1)) +
                          ", or put the model in blocks (cxtrain::BlockModule), or override place_parts()",
                      MessageCode::wrong_ranks);
  }
}

std::vector<bool> Module::training_modes() const {
  std::vector<bool> modes;
  for (const auto& module : modules(/*include_self=*/false)) modes.push_back(module->is_training());
  modes.push_back(is_training());
  return modes;
}

void Module::set_training_modes(const std::vector<bool>& modes) {
  // Setting a mode reaches down: parents come before their children, which may differ from them.
  if (is_training() != modes.back()) train(modes.back());
  const auto below = modules(/*include_self=*/false);
  for (std::size_t i = 0; i < below.size(); ++i) {
    if (below[i]->is_training() != modes[i]) below[i]->train(modes[i]);
  }
}

at::Tensor Module::all_gather(const at::Tensor& tensor, bool sync_grads) const {
  const at::Tensor rows = tensor.dim() == 0 ? tensor.reshape({1}) : tensor;
  if (world_size() == 1) return sync_grads ? rows : rows.detach();
  if (!run_->progress().samples_on_every_rank) {
    throw TrainingError(
        "all_gather needs a sample on every rank in every batch: a batch of this loader has fewer samples "
        "than there are ranks, or the loader reads a stream, or the batch size is being searched; for "
        "training --data.uneven pad or drop gives every rank a sample, for evaluations "
        "DataLoaderSpec::drop_last leaves out the last batch");
  }
  return run_->strategy()->all_gather(rows, sync_grads);
}

Trainable& trainable(Module& module) { return module; }
const Trainable& trainable(const Module& module) { return module; }

void attach(Module& module, MetricSink* sink, Run* run) {
  module.sink_ = sink;
  module.run_ = run;
}

}  // namespace cxtrain
