#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cxtrain/config/field.h"

namespace torch::optim {
class Optimizer;
class OptimizerParamGroup;
}  // namespace torch::optim

/// Result of `configure_optimizers`: an optimizer with its hyperparameters, parameter groups and a schedule.
/// Descriptions only; the trainer builds the optimizer once the strategy has placed the parameters.
namespace cxtrain {

/// Stochastic gradient descent; defaults of torch.optim.SGD.
struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("momentum", momentum, "share of the last step that is added", Range::at_least(0));
    field("dampening", dampening, "share of the gradient that momentum leaves out");
    field("weight_decay", weight_decay, "L2 penalty", Range::at_least(0));
    field("nesterov", nesterov, "Nesterov's momentum");
  }

  auto with(auto schedule) const { return with_schedule(*this, std::move(schedule)); }
};

/// Adam with L2 regularisation (Kingma & Ba 2015); defaults of torch.optim.Adam.
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("beta1", beta1, "how slowly the mean of gradients fades", Range::below(0, 1));
    field("beta2", beta2, "how slowly the mean of their squares fades", Range::below(0, 1));
    field("eps", eps, "added to the denominator", Range::above(0));
    field("weight_decay", weight_decay, "L2 penalty", Range::at_least(0));
    field("amsgrad", amsgrad, "keep the largest of the squares' means");
  }

  auto with(auto schedule) const { return with_schedule(*this, std::move(schedule)); }
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019); defaults of torch.optim.AdamW.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("beta1", beta1, "how slowly the mean of gradients fades", Range::below(0, 1));
    field("beta2", beta2, "how slowly the mean of their squares fades", Range::below(0, 1));
    field("eps", eps, "added to the denominator", Range::above(0));
    field("weight_decay", weight_decay, "share of the weights taken off, times the learning rate",
          Range::at_least(0));
    field("amsgrad", amsgrad, "keep the largest of the squares' means");
  }

  auto with(auto schedule) const { return with_schedule(*this, std::move(schedule)); }
};

// LibTorch's own code runs the following optimizers, one whole parameter at a time.

/// Defaults of torch.optim.RMSprop.
struct Rmsprop {
  double lr = 1e-2;
  double alpha = 0.99;
  double momentum = 0;
  double weight_decay = 0;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("alpha", alpha, "how slowly the mean of squares fades", Range::below(0, 1));
    field("momentum", momentum, "share of the last step that is added", Range::at_least(0));
    field("weight_decay", weight_decay, "L2 penalty", Range::at_least(0));
  }

  auto with(auto schedule) const { return with_schedule(*this, std::move(schedule)); }
};

/// Adagrad (Duchi et al. 2011); defaults of torch.optim.Adagrad.
struct Adagrad {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("lr_decay", lr_decay, "how fast the learning rate falls", Range::at_least(0));
    field("weight_decay", weight_decay, "L2 penalty", Range::at_least(0));
  }

  auto with(auto schedule) const { return with_schedule(*this, std::move(schedule)); }
};

/// L-BFGS; defaults of torch.optim.LBFGS. Evaluates the loss several times a step. On several ranks the loss
/// is the mean over the ranks.
struct Lbfgs {
  double lr = 1;
  std::int64_t max_iter = 20;
  std::int64_t history_size = 100;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("max_iter", max_iter, "evaluations of the loss in a step", Range::at_least(1));
    field("history_size", history_size, "steps remembered", Range::at_least(1));
  }

  auto with(auto schedule) const { return with_schedule(*this, std::move(schedule)); }
};

/// Another optimizer with LibTorch's interface, such as a user's.
struct LibTorchOptimizer {
  std::string name;
  double lr = 1e-2;            ///< the groups' base rate, which schedules scale
  bool needs_closure = false;  ///< evaluates the loss itself, several times a step
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::optim::OptimizerParamGroup>)>
      make;

  void fields(auto&& field) { field("lr", lr, "learning rate", Range::at_least(0)); }

  auto with(auto schedule) const { return with_schedule(*this, std::move(schedule)); }
};

using OptimizerConfig = std::variant<Sgd, Adam, AdamW, Rmsprop, Adagrad, Lbfgs, LibTorchOptimizer>;

/// Returns whether LibTorch's own code runs the optimizer, on whole parameters.
bool runs_in_libtorch(const OptimizerConfig& config);
/// Returns whether the optimizer evaluates the loss itself, several times a step.
bool needs_closure(const OptimizerConfig& config);

/// Some of the parameters, with a learning rate or weight decay of their own. Parameters in no group form the
/// last group.
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

/// Unit in which a schedule advances.
enum class Interval { step, epoch };

// Each schedule gives the factor on a group's base learning rate as a pure function of the count t of steps
// (or epochs) done, so that a resumed run needs no schedule state. `warmup` counts come first: a linear rise
// from base/warmup to base, as in transformers' get_*_schedule_with_warmup, starting at 1/warmup rather than
// 0.

struct ConstantSchedule {
  std::int64_t warmup = 0;

  void fields(auto&& field) { field("warmup", warmup, "counts of linear rise before", Range::at_least(0)); }
};
/// Half a cosine from base to `min_ratio` * base over `total` counts (Loshchilov & Hutter 2017, eq. 5); flat
/// after.
struct CosineSchedule {
  std::int64_t warmup = 0;
  std::int64_t total = 0;  ///< 0: to the end of the run
  double min_ratio = 0;

  void fields(auto&& field) {
    field("warmup", warmup, "counts of linear rise before", Range::at_least(0));
    field("total", total, "counts until the end of the fall; 0: the run's", Range::at_least(0));
    field("min_ratio", min_ratio, "factor on the rate at the end", Range::at_least(0));
  }
};
/// base * gamma^(t / step_size): torch.optim.lr_scheduler.StepLR.
struct StepSchedule {
  std::int64_t step_size = 30;
  double gamma = 0.1;

  void fields(auto&& field) {
    field("step_size", step_size, "counts between two changes", Range::at_least(1));
    field("gamma", gamma, "factor of each change", Range::above(0));
  }
};
/// base * gamma^(milestones passed): MultiStepLR.
struct MultiStepSchedule {
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;

  void fields(auto&& field) {
    field("milestones", milestones, "counts at which the rate changes, with commas between",
          Range::at_least(0));
    field("gamma", gamma, "factor of each change", Range::above(0));
  }
};
/// base * gamma^t: ExponentialLR.
struct ExponentialSchedule {
  double gamma = 0.95;

  void fields(auto&& field) { field("gamma", gamma, "factor of each count", Range::above(0)); }
};
/// OneCycleLR (Smith & Topin 2018) with cosine annealing: base is the peak. The momentum stays, as with
/// torch's `cycle_momentum=False`.
struct OneCycleSchedule {
  std::int64_t total = 0;  ///< 0: to the end of the run
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;

  void fields(auto&& field) {
    field("total", total, "counts of the cycle; 0: the run's", Range::at_least(0));
    field("pct_start", pct_start, "share of the cycle in which the rate rises", Range::between(0, 1));
    field("div_factor", div_factor, "the peak over the first rate", Range::above(0));
    field("final_div_factor", final_div_factor, "the first rate over the last", Range::above(0));
  }
};
/// ReduceLROnPlateau: multiplies by `factor` after `patience` epochs without a relative improvement of
/// `threshold` in the monitored metric. The one schedule with state, which belongs to the training state.
struct PlateauSchedule {
  std::string monitor = "val_loss";
  std::string mode = "min";  ///< min | max
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  double min_ratio = 0;

  void fields(auto&& field) {
    field("monitor", monitor, "the metric to watch");
    field("mode", mode, "direction of an improvement", one_of("min", "max"));
    field("factor", factor, "factor of each change", Range::below(0, 1));
    field("patience", patience, "epochs without improvement before a change", Range::at_least(0));
    field("threshold", threshold, "smaller relative improvements do not count", Range::at_least(0));
    field("min_ratio", min_ratio, "factor on the first rate: the smallest", Range::at_least(0));
  }
};

using ScheduleConfig = std::variant<ConstantSchedule, CosineSchedule, StepSchedule, MultiStepSchedule,
                                    ExponentialSchedule, OneCycleSchedule, PlateauSchedule>;

struct OptimizerSetup {
  OptimizerConfig optimizer = Adam{};
  ScheduleConfig schedule = ConstantSchedule{};
  /// Absent: the schedule's own, as on the command line (`interval_of`). A plateau counts epochs.
  std::optional<Interval> interval = {};
  std::vector<ParameterGroup> groups = {};
};

/// `Sgd{.lr = 0.1}.with(CosineSchedule{})`: an optimizer and its schedule.
OptimizerSetup with_schedule(OptimizerConfig optimizer, ScheduleConfig schedule);

/// One of a model's optimizers: its name, and the parameters that it updates.
struct NamedOptimizer {
  NamedOptimizer(std::string its_name, OptimizerSetup its_setup, std::vector<at::Tensor> its_parameters = {},
                 std::int64_t its_frequency = 1)
      : name(std::move(its_name)),
        setup(std::move(its_setup)),
        parameters(std::move(its_parameters)),
        frequency(its_frequency) {}
  NamedOptimizer(std::string its_name, OptimizerConfig its_config,
                 std::vector<at::Tensor> its_parameters = {}, std::int64_t its_frequency = 1)
      : NamedOptimizer(std::move(its_name), OptimizerSetup{.optimizer = std::move(its_config)},
                       std::move(its_parameters), its_frequency) {}

  std::string name;  ///< one line, unique in the model; empty for the only optimizer
  OptimizerSetup setup;
  std::vector<at::Tensor> parameters;  ///< empty: those of `setup.groups`; of the only optimizer: all
  /// In automatic optimization the optimizer updates its parameters in each `frequency`-th step, by the
  /// gradients of that step.
  std::int64_t frequency;
};

/// What `configure_optimizers` returns: one optimizer for all parameters, or several with their own.
///
///     return AdamW{.lr = 1e-3};
///     return Sgd{.lr = 0.1}.with(CosineSchedule{});
///     return OptimizerSetup{.optimizer = AdamW{}, .groups = {{biases, 0.01}}};
///     return {{"g", Adam{.lr = 2e-4}, G->parameters()}, {"d", Adam{.lr = 2e-4}, D->parameters()}};
class Optimizers {
 public:
  /// Adam with its defaults, for all parameters.
  Optimizers() : Optimizers(OptimizerSetup{}) {}
  // NOLINTBEGIN(google-explicit-constructor): `return setup;`
  Optimizers(OptimizerSetup only) : entries_{{"", std::move(only)}} {}
  template <class Config>
  requires std::is_constructible_v<OptimizerConfig, Config> Optimizers(Config only)
      : Optimizers(OptimizerSetup{.optimizer = std::move(only)}) {}
  Optimizers(std::initializer_list<NamedOptimizer> several) : entries_(several) {}
  // NOLINTEND(google-explicit-constructor)

  const std::vector<NamedOptimizer>& entries() const { return entries_; }

 private:
  std::vector<NamedOptimizer> entries_;
};

/// Returns the unit that the setup's schedule counts: the setup's `interval`, if given. Otherwise steps for
/// warm-ups, cosine and one_cycle, which people give in steps, and epochs for the classic decays, as in their
/// papers.
Interval interval_of(const OptimizerSetup& setup);

}  // namespace cxtrain
