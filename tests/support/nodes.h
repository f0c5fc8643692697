#pragma once

#include <stdexcept>
#include <string>

#include "support/run_program.h"

namespace cxtrain::test {

/// Emulated nodes n1, n2, ... (nodes.sh) for one test.
class Nodes {
 public:
  /// Where the machine cannot have them, `why_not` says so, and nothing else may be called. `rate`: of each
  /// link, in tc's words.
  explicit Nodes(int count, const std::string& rate = "") {
    const ProgramResult up = run_command(script("up " + std::to_string(count) + " " + rate), 60);
    if (up.status == kSkipped) {
      why_not_ = up.output.empty() ? "no nodes" : up.output;
    } else if (up.status != 0) {
      throw std::runtime_error(up.output);
    }
  }
  ~Nodes() { run_command(script("down"), 60); }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Empty: they are there.
  const std::string& why_not() const { return why_not_; }
  /// The command that starts ranks on them: `hosts` is "n1:2,n2:2". They run in mpirun's arguments' order.
  static std::string mpirun(const std::string& hosts, int ranks) {
    return script("mpirun -H " + hosts + " -np " + std::to_string(ranks) + " ") + CXTRAIN_BIN_DIR +
           "/cxtrain_mpi ";
  }
  /// Stops the ranks on a node.
  static void freeze(const std::string& node) { run_command(script("freeze " + node), 20); }
  /// Takes a node's link down.
  static void cut(const std::string& node) { run_command(script("cut " + node), 20); }
  /// Ends all processes of a node at once.
  static void kill(const std::string& node) { run_command(script("kill " + node), 20); }

 private:
  static constexpr int kSkipped = 77;
  static std::string script(const std::string& words) {
    return std::string(CXTRAIN_SOURCE_DIR) + "/tests/support/nodes.sh " + words;
  }

  std::string why_not_;
};

}  // namespace cxtrain::test
