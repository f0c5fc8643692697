#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/config/arguments.h"

namespace cxtrain {

/// What a strategy says of itself when it is registered: all that `resolve()` knows of it, and all by which
/// the program treats it differently from another. The defaults describe a strategy with a rank per device,
/// such as `ddp`.
struct StrategyTraits {
  /// How many ranks train.
  enum class Ranks {
    per_device,  ///< one for every `devices_per_rank` devices that were asked for
    one,         ///< one process; it is refused where mpirun or srun has started several
  };
  /// What a rank does with several devices.
  enum class Devices {
    parts,     ///< the parts of one model lie on them; `devices_per_rank` says on how many
    replicas,  ///< each has a whole model (`StrategyContext::replicas`). With one rank, these are all devices
               ///< that were asked for, and `devices_per_rank` is refused. amp_level O2, which keeps one
               ///< set of master weights, is refused with any number of ranks
    one,       ///< it has one only: `devices_per_rank` is refused
  };
  /// Who starts the ranks of a program that was started alone.
  enum class Launcher {
    mpirun,  ///< the program starts mpirun, where it needs more ranks than one
    spawn,   ///< the program spawns them through MPI, and supervises them
  };

  Ranks ranks = Ranks::per_device;
  Devices devices = Devices::parts;
  Launcher launcher = Launcher::mpirun;
  /// The name of the strategy that runs instead, with a warning, where this one was to spawn ranks and
  /// mpirun or srun has started them already. Empty: it stays itself.
  std::string joined_as = {};

  /// Whether its only rank gets all devices that were asked for.
  bool takes_all_devices() const { return ranks == Ranks::one && devices == Devices::replicas; }
  /// Whether it has no use for more devices than one rank's.
  bool is_one_group() const { return ranks == Ranks::one && devices != Devices::replicas; }

  bool operator==(const StrategyTraits&) const = default;
};

/// What is known of a strategy before it is made.
struct KnownStrategy {
  StrategyTraits traits;
  std::vector<ArgumentSpec> arguments = {};
};

/// The strategies that there are, by name. Of those in files that nobody has loaded nothing else is known.
using KnownStrategies = std::map<std::string, std::optional<KnownStrategy>, std::less<>>;

/// The strategy's traits; the defaults where it is unknown, or none is named.
StrategyTraits traits_of(const KnownStrategies& strategies, const std::optional<std::string>& name);

std::vector<std::string> names_of(const KnownStrategies& strategies);

}  // namespace cxtrain
