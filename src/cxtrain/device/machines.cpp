#include "cxtrain/device/machines.h"

#include <set>

#include "cxtrain/cluster/world.h"
#include "cxtrain/device/core_share.h"

namespace cxtrain {

Machines gather_machines(World& world) {
  Machines found;
  found.of_nodes = world.gather_nodes(machine_id());
  std::set<std::string> distinct;
  for (const std::string& machine : found.of_nodes) {
    // A system that does not say which it is has to be taken for one of its own.
    if (!machine.empty() && !distinct.insert(machine).second) found.shared = true;
  }
  return found;
}

}  // namespace cxtrain
