#include "launchers/unreaped_children.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/process_state.h"

namespace cxtrain {
namespace {

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
  return !children.empty() && std::all_of(children.begin(), children.end(),
                                          [](pid_t child) { return state_letter(child) == 'Z'; });
}

}  // namespace

bool is_mpirun(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/comm");
  std::string name;
  std::getline(file, name);
  return name.starts_with("mpirun") || name.starts_with("mpiexec") || name == "orterun" || name == "prterun";
}

void UnreapedChildren::kill_stuck_parent() {
  constexpr std::chrono::seconds kPatience{10};
  const pid_t parent = parent_.id();
  if (is_stopped(parent) || !has_dead_children_only(parent)) return since_.reset();
  if (!since_) since_ = Monotonic::now();
  if (Monotonic::now() - *since_ < kPatience) return;
  log_error(
      with_code("mpirun hangs although all of its ranks have ended: it is killed", MessageCode::rank_lost));
  parent_.kill_group();
}

}  // namespace cxtrain
