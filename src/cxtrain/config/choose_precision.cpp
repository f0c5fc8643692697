#include "cxtrain/config/resolve_steps.h"

#include <array>
#include <vector>

#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

struct Level {
  const char* name;
  const char* precision;
};
constexpr std::array kLevels{Level{"O0", "32-true"}, Level{"O1", "16-mixed"}, Level{"O2", "16-mixed"},
                             Level{"O3", "16-true"}};

const Level* find_level(const std::string& name) {
  for (const Level& level : kLevels) {
    if (level.name == name) return &level;
  }
  return nullptr;
}

/// Nothing when no level was given, or one that does not exist.
const Level* read_level(const TrainerOptions& trainer, Plan& plan) {
  if (!trainer.amp_level) return nullptr;
  const Level* level = find_level(*trainer.amp_level);
  if (level == nullptr) {
    plan.errors.push_back({"amp_level", "'" + *trainer.amp_level + "' is none of O0, O1, O2, O3",
                           "O1 is precision 16-mixed, O2 adds half weights with float32 master weights",
                           MessageCode::unknown_name});
  }
  return level;
}

bool read_backend(const TrainerOptions& trainer, Plan& plan) {
  const std::string backend = trainer.amp_backend.value_or("native");
  if (backend == "native" || backend == "apex") return backend == "apex";
  plan.errors.push_back({"amp_backend", "'" + backend + "' is none of native, apex",
                         did_you_mean(backend, std::vector<std::string>{"native", "apex"}),
                         MessageCode::unknown_name});
  return false;
}

/// Without AMP: the precision that was asked for, unless it is AMP itself.
void turn_amp_off(const TrainerOptions& trainer, const std::string& typed, Plan& plan) {
  if (plan.precision.ends_with("-mixed")) {
    plan.errors.push_back({"use_amp", "use_amp=false contradicts precision=" + typed, "drop one of them",
                           MessageCode::conflicting_options});
  } else if (trainer.amp_level) {
    plan.warnings.push_back(
        {"amp_level", "amp_level=" + *trainer.amp_level + " has no effect: use_amp=false turns AMP off",
         "drop both"});
  }
}

/// A level beside another precision than 16.
void ignore_level(const std::string& level, const std::string& typed, Plan& plan) {
  if (find_level(level)->precision == plan.precision) return;  // both say the same
  plan.warnings.push_back(
      {"amp_level", "amp_level=" + level + " is about precision 16 and has no effect with precision=" + typed,
       "drop one of them"});
}

void apply_level(const Level& level, Plan& plan) {
  plan.precision = level.precision;
  plan.amp_level = level.name;
  if (plan.amp_level != "O2" || plan.traits.devices != StrategyTraits::Devices::replicas) return;
  plan.errors.push_back(
      {"amp_level",
       "O2 keeps one set of master weights, but " + plan.strategy + " has several replicas of them",
       "use --strategy ddp, or --amp_level O1", MessageCode::conflicting_options});
}

/// Lightning 1.5: apex without a level is O2, where there is AMP at all.
void default_level_of_apex(const std::string& typed, Plan& plan) {
  if (plan.precision == "16-mixed") {
    apply_level(*find_level("O2"), plan);
    plan.warnings.push_back({"amp_backend", "amp_backend=apex without amp_level means amp_level=O2",
                             "use --amp_level O1 for plain autocast"});
  } else {
    plan.warnings.push_back(
        {"amp_backend",
         "amp_backend=apex is about precision 16 on GPUs and has no effect with precision=" + typed +
             (plan.precision == "bf16-mixed" && typed == "16" ? " on the CPU" : ""),
         "write --amp_level O2 to ask for it"});
  }
}

}  // namespace

void choose_precision(const TrainerOptions& trainer, Plan& plan) {
  const Level* level = read_level(trainer, plan);
  const bool apex = read_backend(trainer, plan);
  const bool use_amp = trainer.use_amp.value_or(false);
  const std::string typed = trainer.precision.value_or(level != nullptr || use_amp ? "16" : "32");
  const auto precision = parse_precision(trainer.use_amp == false && !trainer.precision ? "32" : typed);
  if (!precision) {
    plan.errors.push_back({"precision", precision.error, "", MessageCode::unknown_name});
    return;
  }
  plan.precision = precision.value->name;
  if (trainer.use_amp == false) return turn_amp_off(trainer, typed, plan);
  if (use_amp && !plan.precision.ends_with("-mixed")) {
    plan.errors.push_back({"use_amp", "use_amp=true contradicts precision=" + typed,
                           "write --precision 16-mixed", MessageCode::conflicting_options});
    return;
  }
  if (level != nullptr) {
    if (trainer.amp_backend == "native") {
      plan.warnings.push_back({"amp_backend",
                               "the levels are apex', but need no apex here: amp_level=" +
                                   *trainer.amp_level + " is used with amp_backend=native",
                               "drop --amp_backend"});
    }
    return plan.precision == "16-mixed" ? apply_level(*level, plan) : ignore_level(level->name, typed, plan);
  }
  // Lightning's rule: autocast on a CPU has no float16; who spells out "16-mixed" gets it all the same.
  if (plan.accelerator == "cpu" && plan.precision == "16-mixed" && precision.value->shorthand) {
    plan.precision = "bf16-mixed";
    plan.warnings.push_back({"precision", "precision=16 is not for the CPU: bf16-mixed is used instead",
                             "use --precision bf16 to say so"});
  }
  if (apex) default_level_of_apex(typed, plan);
}

}  // namespace cxtrain
