#include "cxtrain/report/run_status.h"

#include <cerrno>
#include <nlohmann/json.hpp>

#include "cxtrain/report/run_files.h"
#include "cxtrain/report/run_lock.h"
#include "support/catch.h"
#include "support/faulty_filesystem.h"

namespace cxtrain::test {
namespace {

using State = RunStatus::State;
constexpr double kNow = 1'700'000'000;

/// A run's folder in memory, as its ranks leave it.
class Folder {
 public:
  Folder() : path_(make_version_dir(files, "/runs")) {}

  void write(const std::string& name, const std::string& text) {
    write_atomically(files, path_ + "/" + name, text);
  }
  void report(double seconds_ago) {
    write("progress.json", to_json(ProgressReport{.time = kNow - seconds_ago,
                                                  .host = "n1",
                                                  .ranks = 4,
                                                  .nodes = 2,
                                                  .epoch = 1,
                                                  .max_epochs = 5,
                                                  .batch = 3,
                                                  .batches = 10,
                                                  .step = 13,
                                                  .steps_per_second = 2,
                                                  .samples_per_second = 64,
                                                  .seconds_left = 18,
                                                  .metrics = {{"train_loss", 0.5}}}));
  }
  void end(const std::string& status, int code) {
    RunSummary summary;
    summary.status = status;
    summary.exit_code = code;
    write("run.json", to_json(summary));
  }
  RunStatus status() { return read_run_status(files, path_, kNow); }

  FaultyFilesystem files;

 private:
  std::string path_;
};

TEST_CASE("a run that goes on says where, how far and how fast it is") {
  Folder run;
  const auto lock = take_run_folder(run.files, "/runs/cxtrain_logs/version_0", 0);
  REQUIRE(lock);
  CHECK(run.status().state == State::starting);
  run.report(3);
  const RunStatus status = run.status();
  CHECK(status.state == State::running);
  CHECK(status.silent_seconds == Approx(3));
  const std::string text = to_text(status);
  CHECK_THAT(text, contains("running by process "));
  CHECK_THAT(text, contains("last sign 3 s ago"));
  CHECK_THAT(text, contains("4 ranks on 2 nodes, rank 0 on n1"));
  CHECK_THAT(text, contains("epoch 2/5, batch 3/10, step 13; 2.00 steps/s, 64.0 samples/s, 00:18 left"));
  CHECK_THAT(text, contains("train_loss 0.5"));
  CHECK_THAT(text, contains("none in /runs/cxtrain_logs/version_0/checkpoints"));
  run.report(500);
  CHECK(run.status().state == State::silent);
  CHECK_THAT(to_text(run.status()), contains("without a sign for 500 s"));
}

TEST_CASE("a run that has ended says how, and one that could not that it died") {
  Folder run;
  { const auto lock = take_run_folder(run.files, "/runs/cxtrain_logs/version_0", 0); }
  run.report(30);
  run.write("events.jsonl",
            R"({"time":1000,"event":"checkpoint","rank":0,"step":3,"text":"fine"})"
            "\n"
            R"({"time":2000,"event":"straggler","rank":0,"step":3,"text":"rank 3 on n2 is slow"})"
            "\n"
            R"({"time":4000,"event":"error","rank":0,"text":"the last"})"
            "\n");
  run.write("events_rank_1.jsonl", R"({"time":3000,"event":"error","rank":1,"text":"the first"})"
                                   "\n");
  const RunStatus died = run.status();
  CHECK(died.state == State::died);
  CHECK(to_text(died).find(" left") == std::string::npos);
  REQUIRE(died.errors.size() == 2);
  CHECK_THAT(died.errors[0], contains("rank 1 error: the first"));
  CHECK_THAT(died.straggler, contains("rank 3 on n2"));
  CHECK_THAT(to_text(died), contains("died without a status"));
  CHECK_THAT(to_text(died), contains("error: the last"));

  run.end("stopped", 75);
  CHECK(run.status().state == State::ended);
  CHECK_THAT(to_text(run.status()), contains("stopped with status 75: its state is saved"));
  run.end("failed", 1);
  CHECK_THAT(to_text(run.status()), contains("failed with status 1: an error"));
  run.end("done", 0);
  CHECK_THAT(to_text(run.status()), contains("done with status 0: to its end"));
  CHECK(to_text(run.status()).find("error: the last") == std::string::npos);
}

TEST_CASE("the error of any rank is shown, and nothing that a link leads to") {
  Folder run;
  run.write("events_rank_100.jsonl", R"({"time":3000,"event":"error","rank":100,"text":"far away"})"
                                     "\n");
  run.write("events_rank_x.jsonl", "");
  run.write("end", R"({"status":"done"})");
  run.files.link("end", "/runs/cxtrain_logs/version_0/run.json");
  const RunStatus status = run.status();
  REQUIRE(status.errors.size() == 1);
  CHECK_THAT(status.errors[0], contains("rank 100 error: far away"));
  CHECK(status.end.empty());
}

TEST_CASE("a run that is resumed in its folder starts, whatever it last reported") {
  Folder run;
  run.report(7200);
  const auto lock = take_run_folder(run.files, "/runs/cxtrain_logs/version_0", 0);
  REQUIRE(lock);
  remove_end_of_run(run.files, "/runs/cxtrain_logs/version_0");
  CHECK(run.status().state == State::starting);
}

TEST_CASE("a run that was ended from outside is told by its checkpoint, and older progress as older") {
  RunStatus status;
  status.state = State::ended;
  status.end = "failed";
  status.exit_code = 143;
  status.progress = ProgressReport{.step = 0, .training = true};
  CHECK_THAT(to_text(status), contains("failed with status 143: ended from outside before it could save"));
  status.checkpoint = {.path = "/runs/last.ckpt", .epoch = 2, .step = 70};
  CHECK_THAT(to_text(status), contains("ended from outside after its newest checkpoint"));
  CHECK_THAT(to_text(status), contains("step 0 (as of before the checkpoint)"));
  status.progress->step = 70;
  CHECK(to_text(status).find("as of before") == std::string::npos);
}

TEST_CASE("where there are no locks, a run is known by its signs") {
  Folder run;
  run.write("run.lock", "{}");
  run.report(3);
  run.files.fail({.call = 0, .error = ENOTSUP, .kind = FaultyFilesystem::Call::try_lock, .lasting = true});
  CHECK(run.status().state == State::running);
  run.end("done", 0);
  CHECK(run.status().state == State::ended);
}

TEST_CASE("the status of a run is one object for programs") {
  Folder run;
  run.report(30);
  run.end("failed", 93);
  const auto json = nlohmann::json::parse(to_json(run.status()));
  CHECK(json["state"] == "ended");
  CHECK(json["end"] == "failed");
  CHECK(json["exit_code"] == 93);
  CHECK(json["progress"]["step"] == 13);
  CHECK(json["checkpoint"].is_null());
}

TEST_CASE("a run is found by its folder and by those above it, the newest first") {
  FaultyFilesystem files;
  CHECK_THROWS_AS(find_run(files, "/runs"), ConfigError);
  for (int i = 0; i < 2; ++i) {
    const std::string run = make_version_dir(files, "/runs");
    write_atomically(files, run + "/config.yaml", "");
  }
  CHECK(find_run(files, "/runs") == "/runs/cxtrain_logs/version_1");
  CHECK(find_run(files, "/runs/cxtrain_logs") == "/runs/cxtrain_logs/version_1");
  CHECK(find_run(files, "/runs/cxtrain_logs/version_0") == "/runs/cxtrain_logs/version_0");
  CHECK(find_run(files, "/runs/cxtrain_logs/") == "/runs/cxtrain_logs/version_1");
  write_atomically(files, "/runs/config.yaml", "");  // the user's own
  CHECK(find_run(files, "/runs") == "/runs/cxtrain_logs/version_1");
}

TEST_CASE("files of a run that are damaged are as if they were not there") {
  Folder run;
  for (const char* name : {"progress.json", "run.json", "run.lock", "events.jsonl"}) {
    run.write(name, "\xff{\"status\": 3, \x00");
  }
  const RunStatus status = run.status();
  CHECK(status.state == State::died);
  CHECK_FALSE(status.progress);
  CHECK_FALSE(to_json(status).empty());
}

TEST_CASE("files of a run that are nested or large without an end are as if they were not there") {
  Folder run;
  constexpr std::size_t kDeep = 200'000;
  const std::string nested = std::string(kDeep, '[') + std::string(kDeep, ']');
  std::string objects;
  for (std::size_t i = 0; i < kDeep; ++i) objects += R"({"a":)";
  run.write("run.lock", R"({"host":)" + std::string(20'000, '[') + std::string(20'000, ']') + "}");
  run.write("run.json", R"({"status":)" + nested + "}");
  run.write("progress.json", R"({"metrics":{"a":)" + objects + "1" + std::string(kDeep, '}') + "}}");
  CHECK(run.status().state == State::died);
  run.write("run.lock", R"({"host":")" + std::string(10'000, 'x') + "\"}");
  CHECK(run.status().holder.size() < 1000);
  run.write("run.lock", R"({"host":")" + std::string(10'000'000, 'x') + "\"}");
  CHECK(run.status().holder.empty());
}

}  // namespace
}  // namespace cxtrain::test
