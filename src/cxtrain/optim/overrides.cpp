#include "cxtrain/optim/overrides.h"

#include <charconv>
#include <functional>
#include <optional>
#include <sstream>
#include <type_traits>

#include "cxtrain/config/nearest_name.h"

namespace cxtrain {
namespace {

// Each configuration names its members once; reading, checking and listing follow from that.
template <class F>
void members(Sgd& c, F f) {
  f("lr", c.lr);
  f("momentum", c.momentum);
  f("dampening", c.dampening);
  f("weight_decay", c.weight_decay);
  f("nesterov", c.nesterov);
}
template <class A, class F>
void adam_members(A& c, F f) {
  f("lr", c.lr);
  f("beta1", c.beta1);
  f("beta2", c.beta2);
  f("eps", c.eps);
  f("weight_decay", c.weight_decay);
  f("amsgrad", c.amsgrad);
}
template <class F>
void members(Adam& c, F f) {
  adam_members(c, f);
}
template <class F>
void members(AdamW& c, F f) {
  adam_members(c, f);
}
template <class F>
void members(ConstantSchedule& c, F f) {
  f("warmup", c.warmup);
}
template <class F>
void members(CosineSchedule& c, F f) {
  f("warmup", c.warmup);
  f("total", c.total);
  f("min_ratio", c.min_ratio);
}
template <class F>
void members(StepSchedule& c, F f) {
  f("step_size", c.step_size);
  f("gamma", c.gamma);
}
template <class F>
void members(MultiStepSchedule& c, F f) {
  f("milestones", c.milestones);
  f("gamma", c.gamma);
}
template <class F>
void members(ExponentialSchedule& c, F f) {
  f("gamma", c.gamma);
}
template <class F>
void members(OneCycleSchedule& c, F f) {
  f("total", c.total);
  f("pct_start", c.pct_start);
  f("div_factor", c.div_factor);
  f("final_div_factor", c.final_div_factor);
}
template <class F>
void members(PlateauSchedule& c, F f) {
  f("monitor", c.monitor);
  f("mode", c.mode);
  f("factor", c.factor);
  f("patience", c.patience);
  f("threshold", c.threshold);
  f("min_ratio", c.min_ratio);
}

template <class T>
bool parse(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") return false;
    value = text == "true";
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return !text.empty();
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    value.clear();
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
      std::int64_t number = 0;
      if (!parse(part, number)) return false;
      value.push_back(number);
    }
    return !value.empty();
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }
}

template <class T>
const char* kind_of() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::string>) return "a word";
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return "whole numbers with commas between";
  if constexpr (std::is_integral_v<T>) return "a whole number";
  return "a number";
}

template <class Config>
void set_member(Config& config, const std::string& option, const std::string& key, const std::string& text,
                std::vector<Problem>& problems) {
  bool known = false;
  std::vector<std::string> names;
  members(config, [&](const char* name, auto& member) {
    names.emplace_back(name);
    if (key != name) return;
    known = true;
    if (!parse(text, member)) {
      problems.push_back(
          {option + "." + key, "`" + text + "` is not " + kind_of<std::decay_t<decltype(member)>>(), ""});
    }
  });
  if (known) return;
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  const std::string near = nearest_name(key, names);
  problems.push_back({option + "." + key, "no such argument here",
                      near.empty() ? "there are " + all : "did you mean " + option + "." + near + "?"});
}

const std::map<std::string, std::function<OptimizerConfig()>>& optimizers() {
  static const std::map<std::string, std::function<OptimizerConfig()>> table{
      {"sgd", [] { return Sgd{}; }},         {"adam", [] { return Adam{}; }},
      {"adamw", [] { return AdamW{}; }},     {"rmsprop", [] { return rmsprop(); }},
      {"adagrad", [] { return adagrad(); }}, {"lbfgs", [] { return lbfgs(); }}};
  return table;
}

const std::map<std::string, ScheduleConfig>& schedules() {
  static const std::map<std::string, ScheduleConfig> table{{"constant", ConstantSchedule{}},
                                                           {"cosine", CosineSchedule{}},
                                                           {"step", StepSchedule{}},
                                                           {"multi_step", MultiStepSchedule{}},
                                                           {"exponential", ExponentialSchedule{}},
                                                           {"one_cycle", OneCycleSchedule{}},
                                                           {"plateau", PlateauSchedule{}}};
  return table;
}

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& [name, value] : table) names.push_back(name);
  return names;
}

Problem unknown(const std::string& option, const std::string& name, const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
  const std::string near = nearest_name(name, names);
  return {option, "there is no `" + name + "`; there are " + all,
          near.empty() ? "" : "did you mean " + near + "?"};
}

/// LibTorch's own optimizers are made by functions with arguments rather than described by members.
void override_libtorch(OptimizerConfig& config, const std::map<std::string, std::string>& args,
                       std::vector<Problem>& problems) {
  auto& current = std::get<LibTorchOptimizer>(config);
  double lr = current.lr, alpha = 0.99, momentum = 0, weight_decay = 0, lr_decay = 0;
  std::int64_t max_iter = 20, history_size = 100;
  std::map<std::string, std::function<bool(const std::string&)>> known{
      {"lr", [&](auto& t) { return parse(t, lr); }}};
  const auto add = [&](const char* name, auto& value) {
    known[name] = [&value](auto& t) { return parse(t, value); };
  };
  if (current.name == "rmsprop") {
    add("alpha", alpha);
    add("momentum", momentum);
    add("weight_decay", weight_decay);
  }
  if (current.name == "adagrad") {
    add("lr_decay", lr_decay);
    add("weight_decay", weight_decay);
  }
  if (current.name == "lbfgs") {
    add("max_iter", max_iter);
    add("history_size", history_size);
  }
  for (const auto& [key, text] : args) {
    const auto found = known.find(key);
    if (found == known.end()) {
      problems.push_back(unknown("optimizer." + key, key, names_of(known)));
    } else if (!found->second(text)) {
      problems.push_back({"optimizer." + key, "`" + text + "` is not a number", ""});
    }
  }
  if (current.name == "rmsprop") config = rmsprop(lr, alpha, momentum, weight_decay);
  if (current.name == "adagrad") config = adagrad(lr, lr_decay, weight_decay);
  if (current.name == "lbfgs") config = lbfgs(lr, max_iter, history_size);
}

}  // namespace

std::vector<std::string> optimizer_names() { return names_of(optimizers()); }
std::vector<std::string> schedule_names() { return names_of(schedules()); }

OptimizerSetup apply_overrides(OptimizerSetup setup, const NamedOptions& optimizer,
                               const NamedOptions& lr_scheduler, std::vector<Problem>& problems) {
  if (!optimizer.name.empty()) {
    const auto found = optimizers().find(optimizer.name);
    if (found == optimizers().end()) {
      problems.push_back(unknown("optimizer", optimizer.name, optimizer_names()));
    } else {
      setup.optimizer = found->second();
      for (ParameterGroup& group : setup.groups) group.lr.reset();  // rates of another optimizer
    }
  }
  if (std::holds_alternative<LibTorchOptimizer>(setup.optimizer)) {
    if (!optimizer.args.empty()) override_libtorch(setup.optimizer, optimizer.args, problems);
  } else {
    std::visit(
        [&](auto& config) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(config)>, LibTorchOptimizer>) {
            for (const auto& [key, text] : optimizer.args)
              set_member(config, "optimizer", key, text, problems);
          }
        },
        setup.optimizer);
  }

  std::map<std::string, std::string> args = lr_scheduler.args;
  if (!lr_scheduler.name.empty()) {
    const auto found = schedules().find(lr_scheduler.name);
    if (found == schedules().end()) {
      problems.push_back(unknown("lr_scheduler", lr_scheduler.name, schedule_names()));
    } else {
      setup.schedule = found->second;
      // Schedules that people give in steps count steps, the classic decays epochs, as in their papers.
      const bool by_step = lr_scheduler.name == "constant" || lr_scheduler.name == "cosine" ||
                           lr_scheduler.name == "one_cycle";
      setup.interval = by_step ? Interval::step : Interval::epoch;
    }
  }
  if (const auto interval = args.find("interval"); interval != args.end()) {
    if (interval->second == "step" || interval->second == "epoch") {
      setup.interval = interval->second == "step" ? Interval::step : Interval::epoch;
    } else {
      problems.push_back({"lr_scheduler.interval", "`" + interval->second + "` is not step or epoch", ""});
    }
    args.erase(interval);
  }
  std::visit(
      [&](auto& config) {
        for (const auto& [key, text] : args) set_member(config, "lr_scheduler", key, text, problems);
      },
      setup.schedule);
  return setup;
}

}  // namespace cxtrain
