#include <csignal>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/running_program.h"

/// `cxtrain_mpi status`, asked about trainings of other processes.
namespace cxtrain::test {
namespace {

nlohmann::json status_of(const TempDir& dir) {
  const ProgramResult asked = run_program("status --json " + dir.path());
  CAPTURE(asked.output);
  REQUIRE(asked.status == 0);
  return nlohmann::json::parse(asked.output);
}

TEST_CASE("the status of a run is known while it trains, and when it has been killed") {
  const TempDir dir;
  const std::string gauges = dir.file("cxtrain.prom");
  RunningProgram training(CXTRAIN_MPIEXEC " -np 2 --oversubscribe --bind-to none " + kProgram +
                          " --accelerator cpu --max_epochs 100000 "
                          "--checkpoint.every_n_train_steps 20 --callbacks.prometheus.path " +
                          gauges + " --callbacks.prometheus.seconds 0.1" + in(dir));
  const auto steps = [&] {
    std::ifstream file(gauges);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("cxtrain_global_step{")) return std::stod(line.substr(line.find("} ") + 2));
    }
    return 0.0;
  };
  REQUIRE(becomes_true([&] { return newest_checkpoint(dir.path()).step > 0 && steps() > 0; }));
  nlohmann::json status = status_of(dir);
  CHECK(status["state"] == "running");
  CHECK(status["progress"]["ranks"] == 2);
  CHECK(status["progress"]["max_epochs"] == 100000);
  CHECK(status["checkpoint"]["step"] >= 20);
  CHECK(status["end"].is_null());
  const ProgramResult shown = run_program("status " + dir.path() + "/cxtrain_logs/version_0");
  CHECK_THAT(shown.output, contains("process "));

  kill(-training.process(), SIGKILL);
  REQUIRE(becomes_true([&] { return status_of(dir)["state"] == "died"; }));
  CHECK_THAT(run_program("status " + dir.path()).output, contains("died"));
}

TEST_CASE("the status of a run that has ended is its run.json's") {
  const TempDir dir;
  REQUIRE(run_program("--accelerator cpu --max_steps 5" + in(dir)).status == 0);
  const nlohmann::json status = status_of(dir);
  CHECK(status["state"] == "ended");
  CHECK(status["end"] == "done");
  CHECK(status["progress"]["step"] == 5);
  CHECK(status["progress"]["training"] == false);
  CHECK_THAT(run_program("status " + dir.path()).output, contains("step 5"));
}

TEST_CASE("the status of a run has its checkpoints wherever they are, and no other run's") {
  const TempDir dir, saved;
  const auto run = [&](const std::string& options) {
    return run_command("cd " + saved.path() + " && " + kProgram +
                       " --accelerator cpu --checkpoint.dirpath here " + options + in(dir))
        .status;
  };
  REQUIRE(run("--max_steps 5") == 0);
  CHECK(status_of(dir)["checkpoint"]["step"] == 5);
  CHECK(status_of(dir)["checkpoint"]["path"].get<std::string>().starts_with(saved.path() + "/here/"));
  REQUIRE(run("--max_steps 3") == 0);
  CHECK(status_of(dir)["checkpoint"]["step"] == 3);
  REQUIRE(run("--max_steps 1 --enable_checkpointing false") == 0);
  CHECK_THAT(run_program("status " + dir.path()).output, contains("none in " + saved.path() + "/here"));
}

TEST_CASE("the status of what is no run is refused") {
  const TempDir dir;
  for (const std::string words : {dir.path().c_str(), "--jsn", "a b"}) {
    const ProgramResult asked = run_program("status " + words);
    CHECK(asked.status == 2);
  }
  CHECK_THAT(run_program("status " + dir.path()).output,
             contains(code(MessageCode::file_failed)) && contains("status: "));
  CHECK_THAT(run_program("--max_steps 1 status").output,
             contains(code(MessageCode::unknown_option)) && contains("status: "));
}

}  // namespace
}  // namespace cxtrain::test
