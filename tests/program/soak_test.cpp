#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/run_files.h"
#include "support/running_program.h"

/// Many checkpoints: a run needs no more memory, files or threads for them in the end than in the beginning.
/// tests/reliability/soak.py does it for longer.
namespace cxtrain::test {
namespace {

constexpr int kSteps = 5000, kEvery = 50;
constexpr long kMaxGrowth = 4096;  // KiB, of memory between the thirds of a run that has warmed up

struct Sample {
  long kib = 0;
  std::ptrdiff_t files = 0;
  long threads = 0;
};

/// What a process holds at the moment; nothing when it has ended.
std::optional<Sample> look_at(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  Sample sample;
  std::ifstream status(folder + "/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> sample.kib;
    if (word == "Threads:") status >> sample.threads;
  }
  std::error_code ended;
  const std::filesystem::directory_iterator files(folder + "/fd", ended);
  if (ended || sample.kib == 0) return std::nullopt;
  sample.files = std::distance(begin(files), end(files));
  return sample;
}

template <class Field>
auto median(std::vector<Sample> samples, Field field) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end(),
                   [&](const Sample& a, const Sample& b) { return a.*field < b.*field; });
  return *middle.*field;
}

TEST_CASE("a hundred checkpoints cost neither memory nor files nor threads that stay") {
  const TempDir dir;
  RunningProgram program(kProgram +
                         " fit --accelerator cpu --enable_progress_bar false --model.hidden 8 "
                         "--data.batch_size 8 --max_epochs -1 --max_steps " +
                         std::to_string(kSteps) + " --checkpoint.every_n_train_steps " +
                         std::to_string(kEvery) + in(dir));
  const auto saved = [&](int step) {  // or another one after it
    std::error_code missing;
    for (const auto& entry :
         std::filesystem::directory_iterator(dir.path() + "/cxtrain_logs/version_0/checkpoints", missing)) {
      const std::string name = entry.path().filename();
      const std::size_t number = name.find("step=");
      if (number != std::string::npos && std::stoi(name.substr(number + 5)) >= step) return true;
    }
    return false;
  };
  std::vector<Sample> early, late;
  while (!program.has_ended()) {
    const auto sample = look_at(program.process());
    if (sample && saved(kSteps * 2 / 3)) {
      late.push_back(*sample);
    } else if (sample && saved(kSteps / 5)) {
      early.push_back(*sample);
    }
    usleep(2000);
  }
  const ProgramResult run = program.wait();
  CAPTURE(run.output, early.size(), late.size());
  REQUIRE(run.status == 0);
  CHECK(run_json(dir)["global_step"] == kSteps);
  REQUIRE(early.size() >= 5);
  REQUIRE(late.size() >= 5);
  CHECK(median(late, &Sample::kib) <= median(early, &Sample::kib) + kMaxGrowth);
  CHECK(median(late, &Sample::files) <= median(early, &Sample::files) + 1);
  CHECK(median(late, &Sample::threads) <= median(early, &Sample::threads) + 1);
  WARN("memory from " << median(early, &Sample::kib) << " to " << median(late, &Sample::kib)
                      << " KiB, files from " << median(early, &Sample::files) << " to "
                      << median(late, &Sample::files));
}

}  // namespace
}  // namespace cxtrain::test
