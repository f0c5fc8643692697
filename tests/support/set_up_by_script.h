#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <stdexcept>
#include <string>

#include "support/run_program.h"

namespace cxtrain::test {

/// What a script of the project sets up for one test (`SCRIPT up ...`), and takes down again (`SCRIPT down`).
class SetUpByScript {
 public:
  /// Where the machine cannot have it, which the script says by status 77, `why_not` has its words. `script`:
  /// its path in the project; `arguments`: behind `up`.
  SetUpByScript(const std::string& script, const std::string& arguments)
      : script_(std::string(CXTRAIN_SOURCE_DIR) + "/" + script) {
    lock();
    constexpr int kSkipped = 77;
    const ProgramResult up = run_command(script_ + " up " + arguments, 90);
    if (up.status == kSkipped) {
      why_not_ = up.output.empty() ? script + " says nothing" : up.output;
    } else if (up.status != 0) {
      throw std::runtime_error(up.output);
    }
  }
  ~SetUpByScript() { run_command(script_ + " down", 60); }
  SetUpByScript(const SetUpByScript&) = delete;
  SetUpByScript& operator=(const SetUpByScript&) = delete;

  /// Emulated nodes and clusters are the machine's: one test program uses them until its end, and other
  /// programs wait.
  static void lock() {
    static const int file = open("/run/cxtrain-tests.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    // Only root can open the file; for other users the script skips the test.
    if (file >= 0) flock(file, LOCK_EX);
  }

  /// Empty: it is there.
  const std::string& why_not() const { return why_not_; }

 private:
  std::string script_, why_not_;
};

}  // namespace cxtrain::test
