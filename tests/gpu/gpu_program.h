#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/environment_variable.h"
#include "support/skip.h"

/// Programs that GPU tests start, in the build tree and in the bundle.
namespace cxtrain::test {

/// This program's own path.
inline std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// cxtrain_mpi, which lies beside it.
inline std::string program() {
  return (std::filesystem::path(own_path()).parent_path() / "cxtrain_mpi").string();
}

/// A plugin that only checks have: lib/gpu_check beside the program's folder.
inline std::string checks_plugin(const std::string& name) {
  const auto root = std::filesystem::path(own_path()).parent_path().parent_path();
  return (root / "lib" / "gpu_check" / (name + ".so")).string();
}

inline std::string mpirun() {
  const char* chosen = std::getenv("CXTRAIN_MPIRUN");
  return chosen == nullptr ? "mpirun" : chosen;
}

/// Whether there is an mpirun; where not, the case counts as skipped.
inline bool has_mpirun() {
  const bool has = std::system((mpirun() + " --version >/dev/null 2>&1").c_str()) == 0;
  if (!has) skip("there is no mpirun (CXTRAIN_MPIRUN names one)");
  return has;
}

/// CUDA_VISIBLE_DEVICES for the children while it lives: the first `count` of the GPUs that this process
/// sees.
class VisibleGpus {
 public:
  explicit VisibleGpus(int count) : variable_(kName, first_of(count)) {}

 private:
  static constexpr const char* kName = "CUDA_VISIBLE_DEVICES";

  static std::string first_of(int count) {
    const char* seen = std::getenv(kName);
    const std::string all = seen == nullptr ? "0,1,2,3,4,5,6,7" : seen;
    std::size_t end = 0;
    for (int i = 0; i < count && end != std::string::npos; ++i) end = all.find(',', end == 0 ? 0 : end + 1);
    return all.substr(0, end);
  }

  EnvironmentVariable variable_;
};

}  // namespace cxtrain::test
