#include <csignal>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/running_program.h"

/// `cxtrain_mpi report`, of trainings by the program.
namespace cxtrain::test {
namespace {

TEST_CASE("a report shows a run that was killed and resumed, beside another") {
  const TempDir dir, other;
  const std::string options =
      " --accelerator cpu --checkpoint.every_n_train_steps 20 --log_every_n_steps 5 --callbacks.lr_monitor ";
  {
    RunningProgram training(kProgram + options + "--max_epochs 100000" + in(dir));
    REQUIRE(becomes_true([&] { return newest_checkpoint(dir.path()).step > 0; }));
    kill(-training.process(), SIGKILL);
  }
  const int step = newest_checkpoint(dir.path()).step;
  const std::string run = dir.path() + "/cxtrain_logs/version_0";
  const ProgramResult killed = run_program("report " + dir.path());
  CAPTURE(killed.output);
  REQUIRE(killed.status == 0);
  const std::string until = std::to_string(step + 60);
  REQUIRE(run_program(options + "--ckpt_path auto --max_steps " + until + in(dir)).status == 0);
  REQUIRE(run_program(options + "--max_steps 40 --seed 3" + in(other)).status == 0);

  const std::string file = dir.file("runs.html");
  const ProgramResult written = run_program("report " + run + " " + other.path() + " --out " + file);
  CAPTURE(written.output);
  REQUIRE(written.status == 0);
  const std::string page = slurp(file);
  CHECK_THAT(page, contains("resumed at step "));
  CHECK_THAT(page, contains("checkpoint at step " + std::to_string(step + 20) + "<"));
  CHECK_THAT(page, contains(until + " steps"));
  CHECK_THAT(page, contains("learning rate"));
  CHECK_THAT(page, contains("step time"));
  CHECK_THAT(page, contains("<td>seed</td><td>null</td><td>3</td>"));
}

TEST_CASE("a report of what is no run is refused") {
  const TempDir dir;
  const ProgramResult asked = run_program("report " + dir.path());
  CHECK(asked.status == 2);
  CHECK_THAT(asked.output, contains(code(MessageCode::file_failed)) && contains("report: "));
  CHECK_THAT(run_program("report --help").output, contains("report RUN... [--out FILE]"));
}

TEST_CASE("curves and boxes are drawn on a terminal that shows them, and nowhere else") {
  const TempDir dir;
  const auto on_terminal = [&](const std::string& locale, const std::string& words) {
    return run_command("LC_ALL=" + locale + " TERM=xterm script -qec \"stty cols 100; " + kProgram + " " +
                       words + "\" /dev/null");
  };
  const std::string fit = "--accelerator cpu --max_epochs 3 --log_every_n_steps 5" + in(dir);
  const ProgramResult trained = on_terminal("C.UTF-8", fit);
  CAPTURE(trained.output);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.output, contains("train_loss  █"));
  CHECK_THAT(trained.output, contains("val_loss    █"));
  CHECK_THAT(on_terminal("C.UTF-8", "status " + dir.path()).output, contains("train_loss  █"));
  CHECK_THAT(on_terminal("C.UTF-8", "plan --accelerator cpu --devices 2").output, contains("┌ rank 1"));
  for (const std::string& words :
       {"status " + dir.path(), std::string("plan --accelerator cpu --devices 2")}) {
    for (const std::string& output : {on_terminal("C", words).output, run_program(words).output}) {
      CHECK(output.find("█") == std::string::npos);
      CHECK(output.find("┌") == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace cxtrain::test
