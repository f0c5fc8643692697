#include "cxtrain/cli/restarting.h"

#include <cerrno>
#include <string>

#include "support/catch.h"
#include "support/faulty_filesystem.h"

namespace cxtrain::test {
namespace {

/// A job of two ranks with 8 samples each, and a run in its folder that another program has made.
struct JobThatEnded {
  JobThatEnded() {
    options.trainer.default_root_dir = "/home";
    options.data.batch_size = 8;
    plan.world_size = 2;
    for (const char* folder : {"/home", "/home/cxtrain_logs", "/home/cxtrain_logs/version_0"})
      files.make_directory(folder);
  }
  RestartPoint look(int tries) {
    return make_restart_plan(options, plan, program, files).look("restarter", tries);
  }

  FaultyFilesystem files;
  Options options;
  Plan plan;
  Program program;
};

TEST_CASE("a disk that fails for a moment keeps no job from going on where it was") {
  JobThatEnded job;
  job.files.fail({.call = job.files.calls(), .error = EIO});
  const RestartPoint point = job.look(/*tries=*/2);
  CHECK(point.unreadable.empty());
  CHECK(job.files.failed().has_value());
}

TEST_CASE("of a disk that keeps failing, a restart has the reason, and what needs no disk") {
  JobThatEnded job;
  job.files.fail({.call = 0, .error = EIO, .kind = FaultyFilesystem::Call::list, .lasting = true});
  const RestartPoint point = job.look(/*tries=*/1);
  CHECK_THAT(point.unreadable, contains("Input/output error") && contains("cxtrain_logs"));
  CHECK(point.step == -1);
  CHECK(point.samples == 16);
  CHECK(job.files.calls(FaultyFilesystem::Call::list) == 1);
}

}  // namespace
}  // namespace cxtrain::test
