#include "cxtrain/report/run_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/launch_environment.h"
#include "support/catch.h"
#include "support/environment_variable.h"
#include "support/error_text.h"
#include "support/faulty_filesystem.h"
#include "support/temp_dir.h"

using namespace cxtrain;

TEST_CASE("one job has a run's folder, however many ranks it has", "[run_lock]") {
  test::FaultyFilesystem files;
  files.make_directory("/run");
  auto first = take_run_folder(files, "/run", 0);
  auto second = join_run_folder(files, "/run");
  CHECK(first);
  CHECK(second);
  first.reset();
  // Its rank 0 has died; another rank may still write.
  CHECK_THAT(test::error_of([&] { take_run_folder(files, "/run", 0); }),
             test::contains(test::code(MessageCode::run_in_use)) && test::contains("'/run'") &&
                 test::contains("process " + std::to_string(getpid())));
  second.reset();
  CHECK(take_run_folder(files, "/run", 0));
}

TEST_CASE("a job waits for the end of the one before it", "[run_lock]") {
  const test::TempDir dir;
  const std::string folder = dir.path();
  int holds[2], ends[2];
  REQUIRE(pipe(holds) == 0);
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = take_run_folder(real_filesystem(), folder, 0);
    char word = 'x';
    static_cast<void>(!write(holds[1], &word, 1));
    static_cast<void>(!read(ends[0], &word, 1));
    usleep(300'000);  // it is still ending when the other one looks
    _exit(lock ? 0 : 1);
  }
  char word = 0;
  REQUIRE(read(holds[0], &word, 1) == 1);
  CHECK_THROWS_WITH(take_run_folder(real_filesystem(), folder, 0),
                    test::contains("process " + std::to_string(child) + " on "));
  REQUIRE(write(ends[1], &word, 1) == 1);
  CHECK(take_run_folder(real_filesystem(), folder, 60));
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a requeued Slurm job is not held up by the lock of its earlier self", "[run_lock]") {
  test::FaultyFilesystem files;
  files.make_directory("/run");
  const test::EnvironmentVariable job("SLURM_JOB_ID", "17");
  const auto lock = take_run_folder(files, "/run", 0);
  CHECK_THAT(test::error_of([&] { take_run_folder(files, "/run", 0); }),
             test::contains(test::code(MessageCode::run_in_use)) && test::contains("(Slurm job 17)"));
  const test::EnvironmentVariable restarts("SLURM_RESTART_COUNT", "1");
  CHECK_NOTHROW(take_run_folder(files, "/run", 0));
}

TEST_CASE("a run's folder says who starts its job again", "[run_lock]") {
  test::FaultyFilesystem files;
  files.make_directory("/run");
  CHECK(restarter_of(files, "/run").empty());
  const test::EnvironmentVariable name(kRestarterVariable, "me");
  take_run_folder(files, "/run", 0);
  CHECK(restarter_of(files, "/run") == "me");
}

TEST_CASE("a disk without locks is warned of, and on a full one a lock holds all the same", "[run_lock]") {
  test::FaultyFilesystem files;
  files.make_directory("/run");
  files.fail({.call = 0, .error = ENOTSUP, .kind = test::FaultyFilesystem::Call::try_lock});
  CHECK_FALSE(take_run_folder(files, "/run", 0));
  files.heal();
  files.fail({.call = 0, .error = ENOSPC, .kind = test::FaultyFilesystem::Call::write});
  CHECK(take_run_folder(files, "/run", 0));
}
