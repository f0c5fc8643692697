#include "cxtrain/trainer/compute_settings.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "cxtrain/device/resources.h"
#include "support/catch.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

/// The variable and the number of threads are the process's; they are put back.
class KeepThreads {
 public:
  KeepThreads() {
    if (const char* value = std::getenv(kVariable)) variable_ = value;
  }
  ~KeepThreads() {
    if (variable_) setenv(kVariable, variable_->c_str(), 1);
    at::set_num_threads(threads_);
  }
  static constexpr const char* kVariable = "OMP_NUM_THREADS";

 private:
  std::optional<std::string> variable_;
  int threads_ = at::get_num_threads();
};

TEST_CASE("unbound ranks divide the cores of their node, unless they are told how many threads to have") {
  const KeepThreads keep;
  unsetenv(KeepThreads::kVariable);
  at::set_num_threads(7);
  set_thread_counts(test_world(), /*data_workers=*/0, /*on_gpu=*/false);
  CHECK(at::get_num_threads() == std::max(1, cores_of_this_process() / test_world().facts().local_size));
  setenv(KeepThreads::kVariable, "1", 1);
  at::set_num_threads(1);
  set_thread_counts(test_world(), 0, false);
  CHECK(at::get_num_threads() == 1);
}

}  // namespace
}  // namespace cxtrain
