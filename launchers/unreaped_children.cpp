#include "launchers/unreaped_children.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"

namespace cxtrain {
namespace {

/// Returns the letter that /proc/PID/stat has for the state of a process: 'T' is stopped, 'Z' is dead.
/// Returns 0 if the process does not exist.
char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // the name may hold spaces
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

/// Children of all threads of a process. Empty where the kernel keeps no list.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code failed;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", failed)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

bool has_dead_children_only(pid_t process) {
  const std::vector<pid_t> children = children_of(process);
  return !children.empty() &&
         std::all_of(children.begin(), children.end(), [](pid_t child) { return state_of(child) == 'Z'; });
}

}  // namespace

void UnreapedChildren::kill_stuck_parent() {
  constexpr std::chrono::seconds kPatience{10};
  if (state_of(parent_.id()) == 'T' || !has_dead_children_only(parent_.id())) return since_.reset();
  if (!since_) since_ = Monotonic::now();
  if (Monotonic::now() - *since_ < kPatience) return;
  log_error(
      with_code("mpirun hangs although all of its ranks have ended: it is killed", MessageCode::rank_lost));
  parent_.kill_group();
}

}  // namespace cxtrain
