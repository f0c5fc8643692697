#include "cxtrain/optim/setup_arguments.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "cxtrain/config/fields.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// LibTorch's own optimizers are made by functions with arguments; these stand for the arguments.
struct Rmsprop {
  double lr = 1e-2, alpha = 0.99, momentum = 0, weight_decay = 0;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("alpha", alpha, "how slowly the mean of squares fades", Range::below(0, 1));
    field("momentum", momentum, "share of the last step that is added", Range::at_least(0));
    field("weight_decay", weight_decay, "L2 penalty", Range::at_least(0));
  }
};
struct Adagrad {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("lr_decay", lr_decay, "how fast the learning rate falls", Range::at_least(0));
    field("weight_decay", weight_decay, "L2 penalty", Range::at_least(0));
  }
};
struct Lbfgs {
  double lr = 1;
  std::int64_t max_iter = 20, history_size = 100;

  void fields(auto&& field) {
    field("lr", lr, "learning rate", Range::at_least(0));
    field("max_iter", max_iter, "evaluations of the loss in a step", Range::at_least(1));
    field("history_size", history_size, "steps remembered", Range::at_least(1));
  }
};

/// One of LibTorch's own with other arguments than it was made with.
template <class Described>
Described changed(const LibTorchOptimizer& own, const Arguments& arguments) {
  Described made;
  made.lr = own.lr;
  made.fields([&](const char* name, auto& value, const char* /*help*/, const auto&...) {
    const auto had = own.arguments.find(name);
    if (had != own.arguments.end()) value = static_cast<std::decay_t<decltype(value)>>(had->second);
  });
  assign_given(arguments, made);
  return made;
}

void check_libtorch(const LibTorchOptimizer& config, std::vector<Problem>& problems) {
  field::check("optimizer.lr", config.lr, problems, Range::at_least(0));
  for (const NamedComponent& known : known_optimizers()) {
    if (known.name != config.name) continue;
    for (const ArgumentSpec& spec : known.arguments) {
      const auto had = config.arguments.find(spec.name);
      if (had != config.arguments.end())
        field::check("optimizer." + spec.name, had->second, problems, spec.range);
    }
  }
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

NamedComponent schedule(const char* name, const char* help, std::vector<ArgumentSpec> arguments,
                        const char* interval) {
  arguments.push_back(
      field::describe("interval", std::string(interval), "unit of the counts", one_of("step", "epoch")));
  return {name, help, std::move(arguments)};
}

}  // namespace

const std::vector<NamedComponent>& known_optimizers() {
  static const std::vector<NamedComponent> all{
      {"adagrad", "Adagrad (Duchi et al. 2011), LibTorch's", argument_specs(Adagrad{})},
      {"adam", "Adam with an L2 penalty (Kingma & Ba 2015)", argument_specs(Adam{})},
      {"adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)", argument_specs(AdamW{})},
      {"lbfgs", "L-BFGS, LibTorch's; evaluates the loss several times a step", argument_specs(Lbfgs{})},
      {"rmsprop", "RMSprop, LibTorch's", argument_specs(Rmsprop{})},
      {"sgd", "stochastic gradient descent, with momentum or not", argument_specs(Sgd{})}};
  return all;
}

const std::vector<NamedComponent>& known_schedules() {
  // Schedules that people give in steps count steps, the classic decays epochs, as in their papers.
  static const std::vector<NamedComponent> all{
      schedule("constant", "the base rate, after a warm-up", argument_specs(ConstantSchedule{}), "step"),
      schedule("cosine", "half a cosine down, after a warm-up", argument_specs(CosineSchedule{}), "step"),
      schedule("exponential", "falls by a factor each time", argument_specs(ExponentialSchedule{}), "epoch"),
      schedule("multi_step", "falls by a factor at milestones", argument_specs(MultiStepSchedule{}), "epoch"),
      schedule("one_cycle", "up to the base rate and down again", argument_specs(OneCycleSchedule{}), "step"),
      schedule("plateau", "falls when a metric no longer improves", argument_specs(PlateauSchedule{}),
               "epoch"),
      schedule("step", "falls by a factor every few counts", argument_specs(StepSchedule{}), "epoch")};
  return all;
}

OptimizerConfig default_optimizer(const std::string& name) {
  if (name == "sgd") return Sgd{};
  if (name == "adam") return Adam{};
  if (name == "adamw") return AdamW{};
  if (name == "rmsprop") return rmsprop();
  return name == "adagrad" ? adagrad() : lbfgs();
}

ScheduleConfig default_schedule(const std::string& name) {
  if (name == "cosine") return CosineSchedule{};
  if (name == "step") return StepSchedule{};
  if (name == "multi_step") return MultiStepSchedule{};
  if (name == "exponential") return ExponentialSchedule{};
  if (name == "one_cycle") return OneCycleSchedule{};
  return name == "plateau" ? ScheduleConfig{PlateauSchedule{}} : ConstantSchedule{};
}

std::string name_of(const OptimizerConfig& config) {
  if (const auto* libtorch = std::get_if<LibTorchOptimizer>(&config)) return libtorch->name;
  static constexpr const char* kNames[] = {"sgd", "adam", "adamw"};  // the variant's order
  return kNames[config.index()];
}

std::string torch_name_of(const OptimizerConfig& config) {
  static const std::map<std::string, std::string> kClasses{{"sgd", "SGD"},         {"adam", "Adam"},
                                                           {"adamw", "AdamW"},     {"rmsprop", "RMSprop"},
                                                           {"adagrad", "Adagrad"}, {"lbfgs", "LBFGS"}};
  const std::string name = name_of(config);
  const auto found = kClasses.find(name);
  return found == kClasses.end() ? name : found->second;
}

std::string name_of(const ScheduleConfig& config) {
  static constexpr const char* kNames[] = {"constant",    "cosine",    "step",   "multi_step",
                                           "exponential", "one_cycle", "plateau"};
  return kNames[config.index()];
}

void assign(const Arguments& arguments, OptimizerConfig& config) {
  if (auto* libtorch = std::get_if<LibTorchOptimizer>(&config)) {
    if (libtorch->name == "rmsprop") {
      const auto made = changed<Rmsprop>(*libtorch, arguments);
      config = rmsprop(made.lr, made.alpha, made.momentum, made.weight_decay);
    } else if (libtorch->name == "adagrad") {
      const auto made = changed<Adagrad>(*libtorch, arguments);
      config = adagrad(made.lr, made.lr_decay, made.weight_decay);
    } else if (libtorch->name == "lbfgs") {
      const auto made = changed<Lbfgs>(*libtorch, arguments);
      config = lbfgs(made.lr, made.max_iter, made.history_size);
    } else if (arguments.given("lr")) {
      libtorch->lr = *parse_real(arguments.text("lr"));
    }
    return;
  }
  std::visit(
      [&](auto& described) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(described)>, LibTorchOptimizer>)
          assign_given(arguments, described);
      },
      config);
}

void assign(const Arguments& arguments, ScheduleConfig& config) {
  std::visit([&](auto& described) { assign_given(arguments, described); }, config);
}

std::vector<Problem> check_setup(const OptimizerSetup& setup) {
  std::vector<Problem> problems;
  std::visit(
      [&](const auto& config) {
        if constexpr (std::is_same_v<std::decay_t<decltype(config)>, LibTorchOptimizer>) {
          check_libtorch(config, problems);
        } else {
          check_fields(config, "optimizer.", problems);
          check_rules(config, problems);
        }
      },
      setup.optimizer);
  for (std::size_t i = 0; i < setup.groups.size(); ++i) {
    const std::string group = "optimizer, parameter group " + std::to_string(i) + ", ";
    const ParameterGroup& own = setup.groups[i];
    field::check(group + "lr", own.lr, problems, Range::at_least(0));
    field::check(group + "weight_decay", own.weight_decay, problems, Range::at_least(0));
  }
  std::visit(
      [&](const auto& config) {
        check_fields(config, "lr_scheduler.", problems);
        check_rules(config, problems);
      },
      setup.schedule);
  return problems;
}

}  // namespace cxtrain
