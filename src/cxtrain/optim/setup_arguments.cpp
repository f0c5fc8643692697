#include "cxtrain/optim/setup_arguments.h"

#include <algorithm>

#include "cxtrain/base/transformed.h"
#include "cxtrain/config/fields.h"

namespace cxtrain {
namespace {

/// An optimizer that `--optimizer` accepts. `torch_name`: of the class in torch.optim.
struct KnownOptimizer {
  const char *name, *torch_name, *help;
  OptimizerConfig config;
};

const std::vector<KnownOptimizer>& all_optimizers() {
  static const std::vector<KnownOptimizer> all{
      {"adagrad", "Adagrad", "Adagrad (Duchi et al. 2011), LibTorch's", Adagrad{}},
      {"adam", "Adam", "Adam with an L2 penalty (Kingma & Ba 2015)", Adam{}},
      {"adamw", "AdamW", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)", AdamW{}},
      {"lbfgs", "LBFGS", "L-BFGS, LibTorch's; evaluates the loss several times a step", Lbfgs{}},
      {"rmsprop", "RMSprop", "RMSprop, LibTorch's", Rmsprop{}},
      {"sgd", "SGD", "stochastic gradient descent, with momentum or not", Sgd{}}};
  return all;
}

struct KnownSchedule {
  const char *name, *interval, *help;
  ScheduleConfig config;
};

/// Schedules that people give in steps count steps, the classic decays epochs, as in their papers.
const std::vector<KnownSchedule>& all_schedules() {
  static const std::vector<KnownSchedule> all{
      {"constant", "step", "the base rate, after a warm-up", ConstantSchedule{}},
      {"cosine", "step", "half a cosine down, after a warm-up", CosineSchedule{}},
      {"exponential", "epoch", "falls by a factor each time", ExponentialSchedule{}},
      {"multi_step", "epoch", "falls by a factor at milestones", MultiStepSchedule{}},
      {"one_cycle", "step", "up to the base rate and down again", OneCycleSchedule{}},
      {"plateau", "epoch", "falls when a metric no longer improves", PlateauSchedule{}},
      {"step", "epoch", "falls by a factor every few counts", StepSchedule{}}};
  return all;
}

/// The entry of this name.
template <class Known>
const Known& named(const std::vector<Known>& all, const std::string& name) {
  return *std::ranges::find(all, name, &Known::name);
}

/// The entry of the same kind; null for a user's own.
template <class Known>
const Known* of_kind(const std::vector<Known>& all, const auto& config) {
  const auto found =
      std::ranges::find_if(all, [&](const Known& known) { return known.config.index() == config.index(); });
  return found == all.end() ? nullptr : &*found;
}

void check_rules(const Sgd& sgd, std::vector<Problem>& problems) {
  if (!sgd.nesterov || (sgd.momentum > 0 && sgd.dampening == 0)) return;
  problems.push_back({"optimizer.nesterov", "needs a momentum and no dampening", "--optimizer.momentum 0.9",
                      MessageCode::conflicting_options});
}

void check_rules(const MultiStepSchedule& schedule, std::vector<Problem>& problems) {
  if (schedule.milestones.empty()) {
    problems.push_back({"lr_scheduler.milestones", "there are none, so that the rate would never change",
                        "--lr_scheduler.milestones 30,80", MessageCode::missing_value});
  }
}

template <class Config>
void check_rules(const Config&, std::vector<Problem>&) {}

}  // namespace

std::vector<ArgumentSpec> argument_specs_of(const OptimizerConfig& config) {
  return std::visit([]<class Config>(const Config&) { return argument_specs(Config{}); }, config);
}

const std::vector<NamedComponent>& known_optimizers() {
  static const auto components = transformed(all_optimizers(), [](const KnownOptimizer& known) {
    return NamedComponent{known.name, known.help, argument_specs_of(known.config)};
  });
  return components;
}

const std::vector<NamedComponent>& known_schedules() {
  static const auto components = transformed(all_schedules(), [](const KnownSchedule& known) {
    NamedComponent made{known.name, known.help,
                        std::visit([](const auto& config) { return argument_specs(config); }, known.config)};
    made.arguments.push_back(field::describe("interval", std::string(known.interval), "unit of the counts",
                                             one_of("step", "epoch")));
    return made;
  });
  return components;
}

OptimizerConfig default_optimizer(const std::string& name) { return named(all_optimizers(), name).config; }
ScheduleConfig default_schedule(const std::string& name) { return named(all_schedules(), name).config; }

std::string name_of(const OptimizerConfig& config) {
  const KnownOptimizer* const known = of_kind(all_optimizers(), config);
  return known != nullptr ? known->name : std::get<LibTorchOptimizer>(config).name;
}

std::string torch_name_of(const OptimizerConfig& config) {
  const KnownOptimizer* const known = of_kind(all_optimizers(), config);
  return known != nullptr ? known->torch_name : std::get<LibTorchOptimizer>(config).name;
}

std::string name_of(const ScheduleConfig& config) { return of_kind(all_schedules(), config)->name; }

bool runs_in_libtorch(const OptimizerConfig& config) {
  return !std::holds_alternative<Sgd>(config) && !std::holds_alternative<Adam>(config) &&
         !std::holds_alternative<AdamW>(config);
}

bool needs_closure(const OptimizerConfig& config) {
  const auto* own = std::get_if<LibTorchOptimizer>(&config);
  return own != nullptr ? own->needs_closure : std::holds_alternative<Lbfgs>(config);
}

void assign(const Arguments& arguments, OptimizerConfig& config) {
  std::visit([&](auto& described) { assign_given(arguments, described); }, config);
}

void assign(const Arguments& arguments, ScheduleConfig& config) {
  std::visit([&](auto& described) { assign_given(arguments, described); }, config);
}

std::vector<Problem> check_setup(const OptimizerSetup& setup) {
  std::vector<Problem> problems;
  const auto check = [&](const auto& component, const char* prefix) {
    std::visit(
        [&](const auto& config) {
          check_fields(config, prefix, problems);
          check_rules(config, problems);
        },
        component);
  };
  check(setup.optimizer, "optimizer.");
  for (std::size_t i = 0; i < setup.groups.size(); ++i) {
    const std::string group = "optimizer, parameter group " + std::to_string(i) + ", ";
    const ParameterGroup& own = setup.groups[i];
    field::check(group + "lr", own.lr, problems, Range::at_least(0));
    field::check(group + "weight_decay", own.weight_decay, problems, Range::at_least(0));
  }
  check(setup.schedule, "lr_scheduler.");
  if (std::holds_alternative<PlateauSchedule>(setup.schedule) && setup.interval == Interval::step)
    problems.push_back({"lr_scheduler.interval", "a plateau counts epochs, and step was asked for",
                        "leave it out", MessageCode::conflicting_options});
  return problems;
}

}  // namespace cxtrain
