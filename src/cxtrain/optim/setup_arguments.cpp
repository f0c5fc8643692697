#include "cxtrain/optim/setup_arguments.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

using Type = ArgumentSpec::Type;

/// LibTorch's own optimizers are made by functions with arguments; these stand for the arguments.
struct Rmsprop {
  double lr = 1e-2, alpha = 0.99, momentum = 0, weight_decay = 0;
};
struct Adagrad {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0;
};
struct Lbfgs {
  double lr = 1;
  std::int64_t max_iter = 20, history_size = 100;
};

constexpr Range kFromZero = Range::at_least(0);
constexpr Range kFromOne = Range::at_least(1);
constexpr Range kPositive = Range::above(0);
constexpr Range kFading = Range::below(0, 1);
constexpr Range kShare = Range::between(0, 1);
constexpr Range kAny = {};

/// What is said about a member beside its name.
struct About {
  const char* help;
  Range range = kAny;
  std::vector<std::string> choices = {};
};

// Each configuration names its members once; listing, reading and checking follow from that.
template <class F>
void members(Sgd& c, F f) {
  f("lr", c.lr, {"learning rate", kFromZero});
  f("momentum", c.momentum, {"share of the last step that is added", kFromZero});
  f("dampening", c.dampening, {"share of the gradient that momentum leaves out"});
  f("weight_decay", c.weight_decay, {"L2 penalty", kFromZero});
  f("nesterov", c.nesterov, {"Nesterov's momentum"});
}
template <class A, class F>
void adam_members(A& c, F f, const char* decay) {
  f("lr", c.lr, {"learning rate", kFromZero});
  f("beta1", c.beta1, {"how slowly the mean of gradients fades", kFading});
  f("beta2", c.beta2, {"the same for their squares", kFading});
  f("eps", c.eps, {"added to the denominator", kPositive});
  f("weight_decay", c.weight_decay, {decay, kFromZero});
  f("amsgrad", c.amsgrad, {"keep the largest of the squares' means"});
}
template <class F>
void members(Adam& c, F f) {
  adam_members(c, f, "L2 penalty");
}
template <class F>
void members(AdamW& c, F f) {
  adam_members(c, f, "share of the weights taken off, times the learning rate");
}
template <class F>
void members(Rmsprop& c, F f) {
  f("lr", c.lr, {"learning rate", kFromZero});
  f("alpha", c.alpha, {"how slowly the mean of squares fades", kFading});
  f("momentum", c.momentum, {"share of the last step that is added", kFromZero});
  f("weight_decay", c.weight_decay, {"L2 penalty", kFromZero});
}
template <class F>
void members(Adagrad& c, F f) {
  f("lr", c.lr, {"learning rate", kFromZero});
  f("lr_decay", c.lr_decay, {"how fast the learning rate falls", kFromZero});
  f("weight_decay", c.weight_decay, {"L2 penalty", kFromZero});
}
template <class F>
void members(Lbfgs& c, F f) {
  f("lr", c.lr, {"learning rate", kFromZero});
  f("max_iter", c.max_iter, {"evaluations of the loss in a step", kFromOne});
  f("history_size", c.history_size, {"steps remembered", kFromOne});
}
template <class F>
void members(ConstantSchedule& c, F f) {
  f("warmup", c.warmup, {"counts of linear rise before", kFromZero});
}
template <class F>
void members(CosineSchedule& c, F f) {
  f("warmup", c.warmup, {"counts of linear rise before", kFromZero});
  f("total", c.total, {"counts until the end of the fall; 0: the run's", kFromZero});
  f("min_ratio", c.min_ratio, {"of the rate, where it ends", kFromZero});
}
template <class F>
void members(StepSchedule& c, F f) {
  f("step_size", c.step_size, {"counts between two changes", kFromOne});
  f("gamma", c.gamma, {"factor of each change", kPositive});
}
template <class F>
void members(MultiStepSchedule& c, F f) {
  f("milestones", c.milestones, {"counts at which the rate changes, with commas between"});
  f("gamma", c.gamma, {"factor of each change", kPositive});
}
template <class F>
void members(ExponentialSchedule& c, F f) {
  f("gamma", c.gamma, {"factor of each count", kPositive});
}
template <class F>
void members(OneCycleSchedule& c, F f) {
  f("total", c.total, {"counts of the cycle; 0: the run's", kFromZero});
  f("pct_start", c.pct_start, {"share of the cycle in which the rate rises", kShare});
  f("div_factor", c.div_factor, {"the peak over the first rate", kPositive});
  f("final_div_factor", c.final_div_factor, {"the first rate over the last", kPositive});
}
template <class F>
void members(PlateauSchedule& c, F f) {
  f("monitor", c.monitor, {"the metric to watch"});
  f("mode", c.mode, {"what improving means", kAny, {"min", "max"}});
  f("factor", c.factor, {"factor of each change", kFading});
  f("patience", c.patience, {"epochs without improvement before a change", kFromZero});
  f("threshold", c.threshold, {"smaller relative improvements do not count", kFromZero});
  f("min_ratio", c.min_ratio, {"of the first rate, the least", kFromZero});
}

// A member as text, and the other way round.
Type type_of(bool) { return Type::boolean; }
Type type_of(double) { return Type::real; }
Type type_of(std::int64_t) { return Type::integer; }
Type type_of(const std::string&) { return Type::text; }
Type type_of(const std::vector<std::int64_t>&) { return Type::integers; }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(double value) { return format_real(value); }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}
void read(const Arguments& from, const char* name, bool& to) { to = from.boolean(name); }
void read(const Arguments& from, const char* name, double& to) { to = from.real(name); }
void read(const Arguments& from, const char* name, std::int64_t& to) { to = from.integer(name); }
void read(const Arguments& from, const char* name, std::string& to) { to = from.text(name); }
void read(const Arguments& from, const char* name, std::vector<std::int64_t>& to) {
  to = from.integers(name);
}

template <class Config>
std::vector<ArgumentSpec> specs_of(Config config) {
  std::vector<ArgumentSpec> specs;
  members(config, [&](const char* name, auto& member, const About& about) {
    specs.push_back({name, type_of(member), text_of(member), about.help, about.choices, about.range});
  });
  return specs;
}

template <class Config>
void assign_given(const Arguments& arguments, Config& config) {
  members(config, [&](const char* name, auto& member, const About&) {
    if (arguments.given(name)) read(arguments, name, member);
  });
}

/// One of LibTorch's own with other arguments than it was made with.
template <class Described>
Described changed(const LibTorchOptimizer& own, const Arguments& arguments) {
  Described made;
  made.lr = own.lr;
  members(made, [&](const char* name, auto& member, const About&) {
    const auto had = own.arguments.find(name);
    if (had != own.arguments.end()) member = static_cast<std::decay_t<decltype(member)>>(had->second);
  });
  assign_given(arguments, made);
  return made;
}

void check_number(const std::string& option, double value, const Range& range,
                  std::vector<Problem>& problems) {
  const std::string why = range.refuse(value);
  if (!why.empty())
    problems.push_back({option, format_real(value) + " " + why, "", MessageCode::out_of_range});
}

template <class Config>
void check_members(const std::string& owner, Config config, std::vector<Problem>& problems) {
  members(config, [&](const char* name, auto& member, const About& about) {
    using Member = std::decay_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, double> || std::is_same_v<Member, std::int64_t>)
      check_number(owner + name, static_cast<double>(member), about.range, problems);
    if constexpr (std::is_same_v<Member, std::string>) {
      const auto& choices = about.choices;
      if (!choices.empty() && std::find(choices.begin(), choices.end(), member) == choices.end())
        problems.push_back({owner + name, "'" + member + "' is none of " + choices[0] + ", " + choices[1], "",
                            MessageCode::unknown_name});
    }
  });
}

void check_libtorch(const LibTorchOptimizer& config, std::vector<Problem>& problems) {
  check_number("optimizer.lr", config.lr, kFromZero, problems);
  for (const NamedComponent& known : known_optimizers()) {
    if (known.name != config.name) continue;
    for (const ArgumentSpec& spec : known.arguments) {
      const auto had = config.arguments.find(spec.name);
      if (had != config.arguments.end())
        check_number("optimizer." + spec.name, had->second, spec.range, problems);
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
  for (const std::int64_t milestone : schedule.milestones)
    check_number("lr_scheduler.milestones", static_cast<double>(milestone), kFromZero, problems);
}

template <class Config>
void check_rules(const Config&, std::vector<Problem>&) {}

NamedComponent schedule(const char* name, const char* help, std::vector<ArgumentSpec> arguments,
                        const char* interval) {
  arguments.push_back({"interval", Type::text, interval, "what is counted", {"step", "epoch"}});
  return {name, help, std::move(arguments)};
}

}  // namespace

const std::vector<NamedComponent>& known_optimizers() {
  static const std::vector<NamedComponent> all{
      {"adagrad", "Adagrad (Duchi et al. 2011), LibTorch's", specs_of(Adagrad{})},
      {"adam", "Adam with an L2 penalty (Kingma & Ba 2015)", specs_of(Adam{})},
      {"adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)", specs_of(AdamW{})},
      {"lbfgs", "L-BFGS, LibTorch's; evaluates the loss several times a step", specs_of(Lbfgs{})},
      {"rmsprop", "RMSprop, LibTorch's", specs_of(Rmsprop{})},
      {"sgd", "stochastic gradient descent, with momentum or not", specs_of(Sgd{})}};
  return all;
}

const std::vector<NamedComponent>& known_schedules() {
  // Schedules that people give in steps count steps, the classic decays epochs, as in their papers.
  static const std::vector<NamedComponent> all{
      schedule("constant", "the base rate, after a warm-up", specs_of(ConstantSchedule{}), "step"),
      schedule("cosine", "half a cosine down, after a warm-up", specs_of(CosineSchedule{}), "step"),
      schedule("exponential", "falls by a factor each time", specs_of(ExponentialSchedule{}), "epoch"),
      schedule("multi_step", "falls by a factor at milestones", specs_of(MultiStepSchedule{}), "epoch"),
      schedule("one_cycle", "up to the base rate and down again", specs_of(OneCycleSchedule{}), "step"),
      schedule("plateau", "falls when a metric no longer improves", specs_of(PlateauSchedule{}), "epoch"),
      schedule("step", "falls by a factor every few counts", specs_of(StepSchedule{}), "epoch")};
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
      libtorch->lr = arguments.real("lr");
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
          check_members("optimizer.", config, problems);
          check_rules(config, problems);
        }
      },
      setup.optimizer);
  for (std::size_t i = 0; i < setup.groups.size(); ++i) {
    const std::string group = "optimizer, parameter group " + std::to_string(i) + ", ";
    const ParameterGroup& own = setup.groups[i];
    if (own.lr) check_number(group + "lr", *own.lr, kFromZero, problems);
    if (own.weight_decay) check_number(group + "weight_decay", *own.weight_decay, kFromZero, problems);
  }
  std::visit(
      [&](const auto& config) {
        check_members("lr_scheduler.", config, problems);
        check_rules(config, problems);
      },
      setup.schedule);
  return problems;
}

}  // namespace cxtrain
