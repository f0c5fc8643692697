#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <random>

#include "cxtrain/data/data_file.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/run_program.h"
#include "support/running_program.h"
#include "support/times.h"

/// Checkpoints as users have them: a run that was killed, or had ended, goes on to the same bits.
namespace cxtrain::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLoggedFit = "fit --accelerator cpu --enable_progress_bar false --log_every_n_steps 3 ";

std::string launch(int ranks, const std::string& arguments) {
  const std::string program = kProgram + " " + kLoggedFit + arguments;
  if (ranks == 1) return program;
  return std::string(CXTRAIN_MPIEXEC) + " -np " + std::to_string(ranks) + " --oversubscribe --bind-to none " +
         program;
}

std::string version(const TempDir& dir, int number) {
  return dir.path() + "/cxtrain_logs/version_" + std::to_string(number);
}

nlohmann::json run_json(const TempDir& dir, int number) {
  return nlohmann::json::parse(slurp(version(dir, number) + "/run.json"));
}

/// The folders of the checkpoints of a run, by name.
std::vector<std::string> checkpoints(const std::string& run) {
  std::vector<std::string> paths;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", missing)) {
    if (entry.path().extension() == ".ckpt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void check_equal_runs(const TempDir& expected, const TempDir& dir, int number = 0) {
  const nlohmann::json end = run_json(dir, number), reference = test::run_json(expected);
  CHECK(end["status"] == "done");
  CHECK(end["parameters_sha256"] == reference["parameters_sha256"]);
  CHECK(end["metrics"] == reference["metrics"]);
  for (const char* file : {"/metrics.csv", "/metrics.jsonl"})
    CHECK(slurp(version(dir, number) + file) == slurp(version(expected, 0) + file));
}

TEST_CASE("a run keeps its best and its periodic checkpoints, also when it is resumed", "[checkpoint]") {
  const TempDir dir;
  const std::string options =
      " --checkpoint.monitor val_loss --checkpoint.filename best-{epoch} "
      "--callbacks.model_checkpoint#2.filename {step}"
      " --callbacks.model_checkpoint#2.every_n_train_steps 20 --callbacks.model_checkpoint#2.save_top_k -1";
  const auto count = [&](const std::string& text) {
    const auto paths = checkpoints(version(dir, 0));
    return std::count_if(paths.begin(), paths.end(),
                         [&](const std::string& path) { return path.find(text) != std::string::npos; });
  };
  REQUIRE(run_command(launch(1, "--max_steps 60" + options + in(dir))).status == 0);
  CHECK(count("/best-") == 1);
  CHECK(count("/step=") == 3);
  REQUIRE(run_command(launch(1, "--max_steps 100 --ckpt_path auto" + options + in(dir))).status == 0);
  CHECK(count("/best-") == 1);
  CHECK(count("/step=") == 5);
}

TEST_CASE("a checkpoint that is written in rounds has the bytes of one that is written at once",
          "[checkpoint]") {
  const std::string options = "--strategy ddp --model.hidden 20000 --max_epochs 1 --limit_train_batches 4 ";
  const TempDir at_once, in_rounds;
  const auto model_of = [](const TempDir& dir) {
    const auto manifest = nlohmann::json::parse(slurp(newest_checkpoint(dir.path()).path + "/manifest.json"));
    nlohmann::json model;
    for (const auto& file : manifest["files"]) {
      if (file["name"] == "model.safetensors") model = file;
    }
    return model;
  };
  REQUIRE(run_command(launch(2, options + in(at_once))).status == 0);
  REQUIRE(run_command(launch(2, options + "--checkpoint.staging 1048576" + in(in_rounds))).status == 0);
  CHECK(model_of(at_once)["bytes"] > 3 * 1048576);
  CHECK(model_of(in_rounds) == model_of(at_once));
  for (const TempDir* dir : {&at_once, &in_rounds}) {
    const std::string more = options + "--max_epochs 2 --ckpt_path last" + in(*dir);
    REQUIRE(run_command(launch(2, more)).status == 0);
  }
  CHECK(run_json(in_rounds, 0)["parameters_sha256"] == run_json(at_once, 0)["parameters_sha256"]);
}

TEST_CASE("a run that had ended goes on as if it had not", "[checkpoint]") {
  struct Row {
    int ranks;
    std::string options;
  };
  const Row row = GENERATE(Row{1, ""}, Row{1, "--strategy dp --devices 2 "},
                           Row{2, "--precision bf16-mixed --accumulate_grad_batches 3 "},
                           Row{3, "--data.uneven exact --optimizer adamw "});
  CAPTURE(row.ranks, row.options);
  const TempDir whole, parts, elsewhere;
  const std::string options = row.options + "--seed 7 ";
  REQUIRE(run_command(launch(row.ranks, options + "--max_epochs 4" + in(whole))).status == 0);
  REQUIRE(run_command(launch(row.ranks, options + "--max_epochs 2" + in(parts))).status == 0);
  const std::vector<std::string> saved = checkpoints(version(parts, 0));
  REQUIRE(saved.size() == 1);

  const ProgramResult by_path =
      run_command(launch(row.ranks, options + "--max_epochs 4 --ckpt_path " + saved[0] + in(elsewhere)));
  CAPTURE(by_path.output);
  REQUIRE(by_path.status == 0);
  check_equal_runs(whole, elsewhere);

  const ProgramResult last =
      run_command(launch(row.ranks, options + "--max_epochs 4 --ckpt_path last" + in(parts)));
  CAPTURE(last.output);
  REQUIRE(last.status == 0);
  CHECK(last.output.find("resuming from ") != std::string::npos);
  check_equal_runs(whole, parts);
  CHECK_FALSE(fs::exists(version(parts, 1)));
  CHECK(checkpoints(version(parts, 0)).size() == 1);
}

TEST_CASE("a run that has nothing left to do says so", "[checkpoint]") {
  const TempDir dir;
  const std::string fit = "--default_root_dir " + dir.path() + " --max_epochs ";
  REQUIRE(run_command(launch(1, fit + "2")).status == 0);
  const ProgramResult again = run_command(launch(1, fit + "1 --ckpt_path last"));
  CAPTURE(again.output);
  CHECK(again.status == 0);
  CHECK_THAT(again.output, contains("2 epochs") && contains("max_epochs is 1"));
}

/// Every file of a run but its lock, with its content.
std::map<std::string, std::string> files_of(const std::string& run) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    if (entry.is_regular_file() && entry.path().filename() != "run.lock")
      contents[entry.path()] = slurp(entry.path());
  }
  return contents;
}

TEST_CASE("a resume that is refused changes no file of the run", "[checkpoint]") {
  const TempDir dir;
  const std::string fit = "--default_root_dir " + dir.path() + " --data.batch_size 32 ";
  REQUIRE(run_command(launch(1, fit + "--max_steps 50")).status == 0);  // in the middle of an epoch
  const auto before = files_of(version(dir, 0));
  for (const std::string& other : {std::string("--data.batch_size 48"), std::string("--model.hidden 40"),
                                   std::string("--optimizer lbfgs")}) {
    const ProgramResult refused = run_command(launch(2, fit + "--ckpt_path last --max_epochs 4 " + other));
    CAPTURE(other, refused.output);
    CHECK(refused.status == 2);
    CHECK(files_of(version(dir, 0)) == before);
  }
  CHECK(run_command(launch(1, fit + "--ckpt_path last --max_epochs 3")).status == 0);
}

TEST_CASE("a run goes on on another number of ranks with the same samples in each step", "[checkpoint]") {
  const auto [before, after] = GENERATE(std::pair{4, 1}, std::pair{4, 2}, std::pair{4, 3}, std::pair{1, 4},
                                        std::pair{2, 4}, std::pair{3, 4});
  // Saved once, at any step of the second half but an epoch's last: the step 120 of 180.
  std::mt19937 random(static_cast<unsigned>(10 * before + after));
  int step = 91 + static_cast<int>(random() % 88);
  if (step == 120) ++step;
  CAPTURE(before, after, step);
  const auto options = [step](int ranks, int epochs) {
    return "--data.uneven exact --optimizer adamw --checkpoint.every_n_train_steps " + std::to_string(step) +
           " --data.batch_size " + std::to_string(24 / ranks) + " --max_epochs " + std::to_string(epochs) +
           " ";
  };
  const TempDir whole, dir;
  REQUIRE(run_command(launch(before, options(before, 3) + in(whole))).status == 0);
  const std::vector<std::string> saved = checkpoints(version(whole, 0));
  REQUIRE(saved.size() == 1);
  REQUIRE(saved[0].find("-step=" + std::to_string(step) + ".ckpt") != std::string::npos);
  const ProgramResult run =
      run_command(launch(after, options(after, 3) + "--ckpt_path " + saved[0] + in(dir)));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const nlohmann::json expected = test::run_json(whole), end = test::run_json(dir);
  CHECK(end["global_step"] == expected["global_step"]);
  CHECK(end["metrics"]["val_acc"].get<double>() ==
        Approx(expected["metrics"]["val_acc"].get<double>()).epsilon(1e-5));
  CHECK(end["metrics"]["val_loss"].get<double>() ==
        Approx(expected["metrics"]["val_loss"].get<double>()).epsilon(1e-5));

  if (before != 4 || after != 1) return;
  const ProgramResult other =
      run_command(launch(after, options(1, 3) + "--data.batch_size 7 --ckpt_path " + saved[0] + in(dir)));
  CHECK(other.status == 2);
  CHECK_THAT(other.output, contains(code(MessageCode::model_mismatch)) && contains("--data.batch_size") &&
                               contains("--accumulate_grad_batches"));
}

TEST_CASE("a run that is killed again and again ends with the bits of an undisturbed one", "[checkpoint]") {
  constexpr int ranks = 2;  // one rank, and more kinds of kills: restart_test, reliability/kill_anywhere.py
  const std::string options = "--max_epochs 12 --checkpoint.every_n_train_steps 4 --data.batch_size 16 ";
  const TempDir undisturbed, dir;
  REQUIRE(run_command(launch(ranks, options + in(undisturbed))).status == 0);
  std::mt19937 random(2);
  std::size_t seen = 0;
  int kills = 0;
  for (int kill_number = 0; kill_number < 4; ++kill_number) {
    RunningProgram program(launch(ranks, options + "--ckpt_path auto" + in(dir)));
    // Until it has come further than the last one; then at any moment.
    becomes_true([&] {
      const std::vector<std::string> now = checkpoints(version(dir, 0));
      const std::size_t newest = now.empty() ? 0 : std::hash<std::string>()(now.back());
      return program.has_ended() || (newest != 0 && std::exchange(seen, newest) != newest);
    });
    usleep(static_cast<useconds_t>(random() % 20000));
    const pid_t rank = process_of_rank(dir, ranks - 1);
    if (rank != 0 && kill(rank, SIGKILL) == 0) ++kills;
    program.wait();
  }
  CHECK(kills > 0);
  const ProgramResult end = run_command(launch(ranks, options + "--ckpt_path auto" + in(dir)));
  CAPTURE(end.output);
  REQUIRE(end.status == 0);
  check_equal_runs(undisturbed, dir);
}

TEST_CASE("damaged and foreign checkpoints are refused, and auto takes the one before", "[checkpoint]") {
  const TempDir dir;
  REQUIRE(run_command(launch(1, "--max_epochs 3 --checkpoint.save_top_k -1" + in(dir))).status == 0);
  const std::vector<std::string> saved = checkpoints(version(dir, 0));
  REQUIRE(saved.size() == 3);
  const auto refused = [&](const std::string& options) {
    const ProgramResult run = run_command(launch(1, options + in(dir)));
    CAPTURE(options, run.output);
    CHECK(run.status == 2);
    return run.output;
  };
  CHECK_THAT(refused("--model.hidden 128 --ckpt_path last"), contains(code(MessageCode::model_mismatch)) &&
                                                                 contains("hidden.weight: Float [128, 64]") &&
                                                                 contains("[256, 64]"));
  CHECK_THAT(refused("--model gpt --ckpt_path " + saved[0]),
             contains(code(MessageCode::model_mismatch)) && contains("another model"));
  CHECK_THAT(refused("--ckpt_path " + dir.path() + "/nothing"),
             contains(code(MessageCode::checkpoint_missing)) && contains("/nothing'"));
  CHECK_THAT(refused("--ckpt_path " + dir.path()),
             contains(code(MessageCode::checkpoint_missing)) && contains("manifest.json"));
  const TempDir empty;
  const ProgramResult none = run_command(launch(1, "--ckpt_path last" + in(empty)));
  CHECK(none.status == 2);
  CHECK_THAT(none.output, contains(code(MessageCode::checkpoint_missing)) && contains("--ckpt_path"));

  const auto look = [](const std::string& words) { return run_program("checkpoint " + words); };
  CHECK_THAT(look("verify " + saved[2]).output, contains(": whole (epoch 3, step 135; 2 files, "));
  CHECK_THAT(look("inspect " + saved[2]).output, contains("epoch 3, batch 0, step 135, 4311 samples"));
  CHECK(look("diff " + saved[1] + " " + saved[2]).status == 1);
  CHECK(look("diff " + saved[1] + " " + saved[1]).status == 0);

  std::fstream file(saved[2] + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20000);
  file.put('\x55');
  file.close();
  CHECK(look("verify " + saved[2]).status == 2);
  CHECK_THAT(refused("--max_epochs 4 --ckpt_path last"),
             contains(code(MessageCode::bad_checkpoint)) && contains("model.safetensors"));
  const ProgramResult fallback = run_command(launch(1, "--max_epochs 4 --ckpt_path auto" + in(dir)));
  CHECK(fallback.status == 0);
  CHECK_THAT(fallback.output, contains("the one before"));
  CHECK_THAT(fallback.output, contains("resuming from " + saved[1]));
  CHECK(run_json(dir, 0)["epochs"] == 4);
}

TEST_CASE("a run does not go on with other data than it had, wherever they lie", "[checkpoint]") {
  const int ranks = GENERATE(1, 2);
  const TempDir dir, parts;
  const std::string digits = read_file(CXTRAIN_SOURCE_DIR "/.deps/data/digits.csv.gz");
  std::string changed = digits;
  // One pixel of the first image that is trained on, the second of the file.
  char& pixel = changed[changed.find(',', changed.find('\n')) - 1];
  pixel = pixel == '1' ? '2' : '1';
  const std::string own = dir.write("own.csv", digits), elsewhere = dir.write("elsewhere.csv", digits),
                    other = dir.write("other.csv", changed),
                    fewer =
                        dir.write("fewer.csv", digits.substr(0, digits.find('\n', digits.size() / 2) + 1));
  const auto run = [&](int epochs, const std::string& data) {
    return run_command(launch(ranks, "--max_epochs " + std::to_string(epochs) +
                                         " --ckpt_path auto --data.path " + data + in(parts)));
  };
  REQUIRE(run(1, own).status == 0);
  const std::string saved = checkpoints(version(parts, 0)).at(0);
  const auto fingerprint = nlohmann::json::parse(slurp(saved + "/manifest.json"))["data"].get<std::string>();
  CHECK(fingerprint.starts_with("1437 samples; Float [64], Long []; "));
  CHECK_THAT(run_program("checkpoint inspect " + saved).output, contains("data " + fingerprint));
  for (const auto& [data, difference] :
       {std::pair{other, "another content"}, std::pair{fewer, "1437 samples"}}) {
    const ProgramResult refused = run(2, data);
    CAPTURE(ranks, refused.output);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.output, contains(code(MessageCode::data_changed)) && contains(difference));
    CHECK(times(refused.output, code(MessageCode::data_changed)) == 1);
  }
  const ProgramResult same = run(2, elsewhere);
  CAPTURE(ranks, same.output);
  CHECK(same.status == 0);
  CHECK(run_json(parts, 0)["epochs"] == 2);
  CHECK(run(3, fewer + " --data.fingerprint false").status == 0);
}

TEST_CASE("the progress of an epoch that a run goes on with has its time since then", "[checkpoint]") {
  const TempDir dir;
  const std::string fit =
      "fit --accelerator cpu --max_epochs 1 --checkpoint.every_n_train_steps 20 " + in(dir);
  REQUIRE(run_program(fit + "--max_steps 20").status == 0);
  const ProgramResult resumed = run_program(fit + "--ckpt_path last");
  CAPTURE(resumed.output);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.output, contains("Epoch 1/1 100% 45/45 [00:"));
}

TEST_CASE("what a run has saved is evaluated as the run did it", "[checkpoint]") {
  const TempDir dir;
  const auto run = [&](const std::string& command) {
    return run_command(kProgram + " " + command + " --accelerator cpu --enable_progress_bar false" + in(dir));
  };
  REQUIRE(
      run("fit --max_epochs 3 --checkpoint.monitor val_loss --checkpoint.save_weights_only true").status ==
      0);
  for (const char* which : {"last", "best", "auto"}) {
    const ProgramResult evaluated = run("validate --ckpt_path " + std::string(which));
    CAPTURE(which, evaluated.output);
    REQUIRE(evaluated.status == 0);
    CHECK_THAT(evaluated.output, contains("the model of "));
  }
  const nlohmann::json fitted = run_json(dir, 0), evaluated = run_json(dir, 1);
  CHECK(evaluated["parameters_sha256"] == fitted["parameters_sha256"]);
  CHECK(evaluated["metrics"]["val_loss"] == fitted["metrics"]["val_loss"]);
  const ProgramResult resumed = run("fit --ckpt_path " + checkpoints(version(dir, 0)).at(0));
  CHECK(resumed.status == 2);
  CHECK_THAT(resumed.output, contains(code(MessageCode::model_mismatch)) && contains("save_weights_only"));
  const ProgramResult foreign = run("test --model.hidden 8 --ckpt_path last");
  CHECK(foreign.status == 2);
  CHECK_THAT(foreign.output, contains(code(MessageCode::model_mismatch)) && contains("another model"));
}

}  // namespace
}  // namespace cxtrain::test
