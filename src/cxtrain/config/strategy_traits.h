#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/config/arguments.h"

namespace cxtrain {

struct Plan;
struct RankMemory;
struct ModelOutline;
struct KeptRanges;

/// Properties of a strategy, given at its registration. The program, `resolve()` included, treats strategies
/// differently by these properties only. The defaults describe a strategy with a rank per device, such as
/// `ddp`.
struct StrategyTraits {
  /// Number of ranks that train.
  enum class Ranks {
    per_device,  ///< one for every `devices_per_rank` requested devices
    one,         ///< one process; rejected if mpirun or srun has started several
  };
  /// Use of several devices by one rank.
  enum class Devices {
    parts,  ///< each has a part of one model; `devices_per_rank` is their number
    /// Each device has a whole model (`StrategyContext::replicas`). With one rank, all requested devices are
    /// the rank's, and `devices_per_rank` is rejected. amp_level O2, which keeps one set of master weights,
    /// is rejected with any number of ranks.
    replicas,
    one,  ///< a rank has one device only: `devices_per_rank` is rejected
  };
  /// Launcher of the ranks, for a program that was started alone.
  enum class Launcher {
    mpirun,  ///< the program starts mpirun if it needs more than one rank
    spawn,   ///< the program spawns the ranks through MPI, and supervises them
  };

  Ranks ranks = Ranks::per_device;
  Devices devices = Devices::parts;
  Launcher launcher = Launcher::mpirun;
  /// Name of the strategy to use, with a warning, if this one should spawn ranks and mpirun or srun has
  /// already started them. Empty: unchanged.
  std::string joined_as = {};
  /// Returns what the strategy cannot do of a plan without errors; null: it can do every plan. Pure.
  std::optional<Problem> (*refuse)(const Plan& plan) = nullptr;
  /// Returns a picture of what the ranks do in a step, for `cxtrain_mpi plan`, in lines of at most `columns`
  /// characters; null: there is nothing to draw. Pure.
  std::string (*draw)(const Plan& plan, std::size_t columns) = nullptr;
  /// Returns the memory that a training takes on each rank of the plan; null: it is not known. Throws
  /// ConfigError for a model that the strategy cannot train. Pure.
  std::vector<RankMemory> (*memory)(const Plan& plan, const ModelOutline& model) = nullptr;
  /// Returns what a rank of the plan keeps of the parameters; null, or empty: the whole model. The program
  /// then builds a model in blocks so (`KeepRanges`). `model` has no optimizers yet. Pure.
  KeptRanges (*kept)(const Plan& plan, const ModelOutline& model, int rank) = nullptr;
  /// Whether a rank runs some of the model's layers only: its forward passes wait for other ranks, and its
  /// work differs from theirs.
  bool divides_layers = false;
  /// Whether its argument `comm_hook` is the name of a hook (reduce/comm_hook.h), or "none". The arguments of
  /// hooks, with the hook's name and an underscore before each, are then among those of the strategy.
  bool takes_comm_hook = false;

  /// Returns whether its only rank gets all requested devices.
  bool takes_all_devices() const { return ranks == Ranks::one && devices == Devices::replicas; }
  /// Returns whether it cannot use more devices than one rank has.
  bool is_one_group() const { return ranks == Ranks::one && devices != Devices::replicas; }

  bool operator==(const StrategyTraits&) const = default;
};

/// Properties of a comm hook, given at its registration.
struct CommHookTraits {
  /// Returns what the hook cannot do of a plan without errors; null: it can do every plan. Pure.
  std::optional<Problem> (*refuse)(const Plan& plan) = nullptr;
  /// Tensors of each gradient's size that a rank keeps from step to step; for the memory in plans.
  int remembered_gradients = 0;
};

/// Facts about a comm hook that are known before it is made.
struct KnownCommHook {
  CommHookTraits traits;
  std::vector<ArgumentSpec> arguments = {};
};

/// The available comm hooks by name. The facts are absent for a hook in a file that has not been loaded.
using KnownCommHooks = std::map<std::string, std::optional<KnownCommHook>, std::less<>>;

/// Facts about a strategy that are known before it is made.
struct KnownStrategy {
  StrategyTraits traits;
  std::vector<ArgumentSpec> arguments = {};  ///< those of comm hooks included
  KnownCommHooks comm_hooks = {};            ///< empty without `takes_comm_hook`
};

/// The available strategies by name. The facts are absent for a strategy in a file that has not been loaded.
using KnownStrategies = std::map<std::string, std::optional<KnownStrategy>, std::less<>>;

/// Returns the strategy's traits; the defaults if the strategy is unknown, or `name` is absent.
StrategyTraits traits_of(const KnownStrategies& strategies, const std::optional<std::string>& name);

std::vector<std::string> names_of(const KnownStrategies& strategies);

inline constexpr const char* kCommHookArgument = "comm_hook";  ///< of a strategy that takes one
inline constexpr const char* kCommHookOption = "strategy.comm_hook";
inline constexpr const char* kNoCommHook = "none";

/// Returns a strategy with the arguments of these hooks, if it takes a hook. `arguments`: its own.
KnownStrategy with_comm_hooks(StrategyTraits traits, std::vector<ArgumentSpec> arguments,
                              const KnownCommHooks& hooks);

/// Returns the name of a hook's argument among the arguments of a strategy.
std::string argument_of_comm_hook(std::string_view hook, std::string_view argument);

}  // namespace cxtrain
