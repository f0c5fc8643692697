#pragma once

#include <string>

#include "support/run_program.h"
#include "support/set_up_by_script.h"

namespace cxtrain::test {

/// Emulated nodes n1, n2, ... (nodes.sh) for one test. Where `why_not` says why they cannot be had, nothing
/// else may be called.
class Nodes : public SetUpByScript {
 public:
  explicit Nodes(int count) : SetUpByScript(kScript, std::to_string(count)) {}

  /// The command that starts ranks on them: `hosts` is "n1:2,n2:2", or "--hostfile FILE".
  static std::string mpirun(const std::string& hosts, int ranks, const std::string& program = "cxtrain_mpi") {
    return script("mpirun " + (hosts.starts_with("--") ? "" : std::string("-H ")) + hosts + " -np " +
                  std::to_string(ranks) + " ") +
           CXTRAIN_BIN_DIR + "/" + program + " ";
  }
  /// A command on a node.
  static std::string on(const std::string& node, const std::string& command) {
    return script("exec " + node + " " + command);
  }
  /// Stops the ranks on a node.
  static void freeze(const std::string& node) { run_command(script("freeze " + node), 20); }
  /// Takes a node's link down.
  static void cut(const std::string& node) { run_command(script("cut " + node), 20); }
  /// Ends all processes of a node at once.
  static void kill(const std::string& node) { run_command(script("kill " + node), 20); }

 private:
  static constexpr const char* kScript = "tests/support/nodes.sh";
  static std::string script(const std::string& words) {
    return std::string(CXTRAIN_SOURCE_DIR) + "/" + kScript + " " + words;
  }
};

}  // namespace cxtrain::test
