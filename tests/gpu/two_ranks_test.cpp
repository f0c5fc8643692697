#include <c10/cuda/CUDAFunctions.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "gpu/gpu_support.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain {
namespace {

namespace fs = std::filesystem;

/// The program lies beside this one, in the build tree as in the bundle.
std::string program() { return (fs::read_symlink("/proc/self/exe").parent_path() / "cxtrain_mpi").string(); }

std::string mpirun() {
  const char* chosen = std::getenv("CXTRAIN_MPIRUN");
  return chosen == nullptr ? "mpirun" : chosen;
}

bool has_mpirun() { return std::system((mpirun() + " --version >/dev/null 2>&1").c_str()) == 0; }

struct Result {
  nlohmann::json run;  ///< run.json
  std::string output;
};

/// Trains the digits on two ranks, in a folder of its own.
Result train(const std::string& accelerator) {
  const test::TempDir folder;
  const std::string log = folder.file("log");
  const std::string command =
      mpirun() + " -np 2 --oversubscribe --bind-to none " + program() +
      " fit --model digits --strategy ddp --precision 32 --seed 3 --max_epochs 4 --accelerator " +
      accelerator + " --default_root_dir " + folder.path() + " >" + log + " 2>&1";
  const int status = std::system(command.c_str());
  const std::string output = test::slurp(log);
  INFO(command << "\n" << output);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return {nlohmann::json::parse(std::ifstream(folder.file("cxtrain_logs/version_0/run.json"))), output};
}

/// CUDA_VISIBLE_DEVICES for the children while it lives: the first `count` of the GPUs that this process
/// sees.
class VisibleGpus {
 public:
  explicit VisibleGpus(int count) {
    if (const char* value = std::getenv(kName)) before_ = value;
    std::string shown = before_.value_or("0,1,2,3,4,5,6,7");
    std::size_t end = 0;
    for (int i = 0; i < count && end != std::string::npos; ++i) end = shown.find(',', end == 0 ? 0 : end + 1);
    setenv(kName, shown.substr(0, end).c_str(), 1);
  }
  ~VisibleGpus() { before_ ? setenv(kName, before_->c_str(), 1) : unsetenv(kName); }
  VisibleGpus(const VisibleGpus&) = delete;
  VisibleGpus& operator=(const VisibleGpus&) = delete;

 private:
  static constexpr const char* kName = "CUDA_VISIBLE_DEVICES";
  std::optional<std::string> before_;
};

void check_learns_like_cpu(int gpus, const std::string& way) {
  if (!has_mpirun()) {
    test::skip("there is no mpirun (CXTRAIN_MPIRUN names one)");
    return;
  }
  const Result gpu = [&] {
    const VisibleGpus some(gpus);
    return train("gpu");
  }();
  const Result cpu = train("cpu");
  CHECK_THAT(gpu.output, test::contains(way));
  CHECK(gpu.run.at("world_size") == 2);
  CHECK(gpu.run.at("global_step") == cpu.run.at("global_step"));
  const double expected = cpu.run.at("metrics").at("val_loss").get<double>();
  CHECK(std::abs(gpu.run.at("metrics").at("val_loss").get<double>() - expected) < 0.02 * expected);
  CHECK(expected < 0.5);
}

TEST_CASE("two ranks share one GPU by way of host memory and learn what two CPU ranks learn", "[gpu]") {
  check_learns_like_cpu(1, "staged through host memory");
}

TEST_CASE("two ranks with a GPU each learn over NCCL what two CPU ranks learn", "[gpu]") {
  if (const int gpus = c10::cuda::device_count(); gpus < 2) {
    test::skip("it needs two GPUs, and this machine shows " + std::to_string(gpus));
    return;
  }
  check_learns_like_cpu(2, "NCCL 2.");
}

}  // namespace
}  // namespace cxtrain
