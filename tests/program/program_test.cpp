#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/event_file.h"
#include "support/run_files.h"
#include "support/run_program.h"
#include "support/skip.h"
#include "support/times.h"

namespace cxtrain::test {
namespace {

TEST_CASE("a training on two ranks validates after a time, by the clock of rank 0") {
  const TempDir dir;
  const ProgramResult run =
      run_ranks(2,
                "--accelerator cpu --max_epochs -1 --max_time 00:00:04 --val_check_interval 00:00:01 "
                "--num_sanity_val_steps 0 --log_every_n_steps 1000" +
                    in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const std::string rows = slurp(dir.path() + "/cxtrain_logs/version_0/metrics.jsonl");
  int validations = 0;
  for (std::size_t at = rows.find("val_loss"); at != std::string::npos; at = rows.find("val_loss", at + 1))
    ++validations;
  CHECK(validations >= 1);
  CHECK(validations <= 4);  // of hundreds of epochs
}

TEST_CASE("a plugin of somebody else beside the program is not opened") {
  if (geteuid() != 0) return skip("only root can give a file to another user");
  const TempDir dir;
  const std::string program = dir.file("cxtrain_mpi"), plugin = dir.file("libcxtrain_strategy_single.so");
  std::filesystem::copy_file(kProgram, program);
  std::filesystem::copy_file(CXTRAIN_BIN_DIR "/../lib/cxtrain/libcxtrain_strategy_single.so", plugin);
  const std::string plan = "LD_LIBRARY_PATH=" CXTRAIN_BIN_DIR "/../lib " + program +
                           " plan --accelerator cpu --devices 1 --strategy single";
  const ProgramResult own = run_command(plan);
  CAPTURE(own.output);
  CHECK(own.status == 0);
  REQUIRE(chown(plugin.c_str(), 54321, 54321) == 0);
  const ProgramResult refused = run_command(plan);
  CAPTURE(refused.output);
  CHECK(refused.status == 2);
  CHECK_THAT(refused.output, contains(code(MessageCode::unsafe_file)));
}

TEST_CASE("the default example learns the digits on one to four ranks") {
  const int ranks = GENERATE(1, 2, 3, 4);
  const TempDir dir;
  const ProgramResult run = run_ranks(ranks, in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const auto json = run_json(dir);
  CHECK(json["status"] == "done");
  CHECK(json["world_size"] == ranks);
  CHECK(json["metrics"]["val_acc"].get<double>() >= 0.97);
  CHECK(json["seconds"].get<double>() < 30);
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(std::ifstream(dir.path() + "/cxtrain_logs/version_0/rank_" + std::to_string(rank) + ".log").good());
  }
}

TEST_CASE("a run can be repeated from its config.yaml") {
  const TempDir first, second;
  REQUIRE(run_program("--max_epochs 2 --model.hidden 32 --optimizer adamw --optimizer.lr 0.004 --seed 5" +
                      in(first))
              .status == 0);
  const ProgramResult again =
      run_program("--config " + first.path() + "/cxtrain_logs/version_0/config.yaml" + in(second));
  CAPTURE(again.output);
  REQUIRE(again.status == 0);
  CHECK(run_json(first)["parameters_sha256"] == run_json(second)["parameters_sha256"]);
}

TEST_CASE("two deterministic runs on two ranks end with the same bits") {
  const TempDir first, second;
  const std::string options = "--deterministic true --max_epochs 2";
  REQUIRE(run_ranks(2, options + in(first)).status == 0);
  REQUIRE(run_ranks(2, options + in(second)).status == 0);
  CHECK(run_json(first)["parameters_sha256"] == run_json(second)["parameters_sha256"]);
}

TEST_CASE("each mistake gets one message and exit status 2, once for all ranks") {
  struct Row {
    std::string arguments;
    MessageCode reason;
    std::string says;
  };
  const TempDir dir;
  const std::string plugins = CXTRAIN_TEST_PLUGIN_DIR;
  const std::string missing = dir.file("nothing.csv"), damaged = dir.write("damaged.csv", "1,2,3\n");
  const std::vector<Row> rows{
      {"--max_epocs 3", MessageCode::unknown_option, "--max_epochs?"},
      {"--max_epochs three", MessageCode::invalid_value, "'three'"},
      {"--data.path " + missing, MessageCode::file_failed, "nothing.csv"},
      {"--data.path " + damaged, MessageCode::bad_data, "damaged.csv"},
      {"--model digit", MessageCode::unknown_name, "digits?"},
      {"--strategy dpd", MessageCode::unknown_name, "ddp?"},
      {"--model.hiden 3", MessageCode::unknown_option, "--model.hidden?"},
      {"--model.hidden -5", MessageCode::out_of_range, "model.hidden: '-5'"},
      {"--optimizer.lr fast", MessageCode::invalid_value, "'fast'"},
      {"--limit_val_batches 0.01", MessageCode::out_of_range, "--limit_val_batches: 0.01"},
      {"--plugin " + plugins + "/wrong_abi.so", MessageCode::plugin_mismatch, "ABI version 999"},
      {"--plugin " + plugins + "/foreign_torch.so", MessageCode::plugin_mismatch, "LibTorch 1.0.0"},
      {"--precision 17", MessageCode::unknown_name, "'17'"},
      {"--val_check_interval 9999 --max_epochs 1", MessageCode::out_of_range, "9999"},
      {"fitt", MessageCode::unknown_option, "fit?"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.arguments);
    const ProgramResult run = run_ranks(2, row.arguments + in(dir));
    CAPTURE(run.output);
    CHECK(run.status == 2);
    CHECK_THAT(run.output, contains(code(row.reason)) && contains(row.says));
    CHECK(times(run.output, "error: ") == 1);
    CHECK(times(run.output, "frame #") == 0);
  }
}

TEST_CASE("several mistakes are reported together") {
  const ProgramResult run =
      run_program("--max_epocs 3 --gpus 9 --model nope --precision 17 --optimizer adm --data.uneven maybe");
  CAPTURE(run.output);
  CHECK(run.status == 2);
  for (const char* part : {"--max_epochs", "gpus", "nope", "17", "adam", "maybe"}) {
    CHECK(run.output.find(part) != std::string::npos);
  }
}

TEST_CASE("a rank that throws ends all of them soon, naming rank, host and step") {
  const TempDir dir;
  const ProgramResult run = run_ranks(3, kFaulty + "--max_epochs 50" + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK(run.output.find("the well is dry") != std::string::npos);
  CHECK(run.output.find("step 5") != std::string::npos);
  CHECK(run.output.find("rank 1 on ") != std::string::npos);
  CHECK(run.seconds < 15);  // 5 s and a slow machine's start
}

TEST_CASE("a throw before the first step ends all ranks as well") {
  const TempDir dir;
  const ProgramResult run = run_ranks(2, kFaulty + "--model.fault start" + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK(run.output.find("no luck at the start") != std::string::npos);
}

TEST_CASE("a rank that freezes is noticed after the timeout") {
  const TempDir dir;
  const ProgramResult run = run_ranks(2, kFaulty + "--model.fault freeze --timeout_seconds 5" + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK(times(run.output, "error: ") == 1);
  CHECK(run.output.find("error: rank 1 ") != std::string::npos);
  CHECK(run.output.find("1 collective behind (number ") != std::string::npos);
  CHECK(run.output.find("): rank 0, epoch 0, step 5") != std::string::npos);
  CHECK(run.seconds < 30);
}

TEST_CASE("plan needs neither MPI nor GPUs and speaks JSON") {
  const TempDir dir;
  const std::string hardware = dir.write("hardware.json", R"({"nodes":[{"hostname":"n1","cores":8,"gpus":[
      {"index":0,"uuid":"GPU-a","name":"x","memory_total_mib":1000},{"index":1,"uuid":"GPU-b","name":"x","memory_total_mib":1000}]}]})");
  const ProgramResult run = run_program("plan --gpus 2 --json --hardware " + hardware);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  const auto plan = nlohmann::json::parse(run.output);
  CHECK(plan["strategy"] == "ddp");
  CHECK(plan["ranks"][1]["uuid"] == "GPU-b");
  const ProgramResult refused = run_program("plan --gpus 3 --json --hardware " + hardware);
  CHECK(refused.status == 2);
  CHECK(nlohmann::json::parse(refused.output)["errors"].size() == 1);
}

TEST_CASE("a run names its model, its samples and the batches of a rank") {
  const TempDir dir;
  CHECK_THAT(run_ranks(2, "--accelerator cpu --max_steps 1 --model.hidden 8" + in(dir)).output,
             contains("1437 samples in 23 batches") && contains("360 samples in 6 batches"));
}

TEST_CASE("help, version, info and print_config say what they are asked for") {
  CHECK(run_program("--help").output.find("--max_epochs") != std::string::npos);
  CHECK(run_program("--version").output.find("LibTorch") != std::string::npos);
  const std::string info = run_program("info").output;
  CHECK_THAT(info, contains("MPI") && contains("\nimage files: "));
#ifdef CXTRAIN_PNG
  CHECK_THAT(info, contains("PNG"));
#endif
  CHECK(run_program("--max_epochs 7 --print_config").output.find("max_epochs: 7") != std::string::npos);
  CHECK(times(run_ranks(2, "--version").output, "LibTorch") == 1);
}

TEST_CASE("docs/reference.md is what `help reference` prints") {
  const ProgramResult page = run_program("help reference");
  CHECK(page.status == 0);
  // After a change: cxtrain_mpi help reference > docs/reference.md
  CHECK(page.output == slurp(CXTRAIN_SOURCE_DIR "/docs/reference.md"));
  CHECK(run_program("help no_such_word").status == 2);
  CHECK(run_program("completion bash | bash -n").status == 0);
}

TEST_CASE("what could not be printed is no success") {
  for (const char* arguments : {"plan", "plan --json", "info", "--help", "-h", "help devices",
                                "completion bash", "--print_config", "--version"}) {
    CAPTURE(arguments);
    const ProgramResult full = run_program(std::string(arguments) + " > /dev/full");
    CHECK(full.status == 1);
    CHECK_THAT(full.output,
               contains("error: ") && contains(code(MessageCode::file_failed)) && contains("No space left"));
  }
  const ProgramResult closed = run_program("plan >&-");
  CHECK(closed.status == 1);
  CHECK_THAT(closed.output, contains("error: ") && contains(code(MessageCode::file_failed)));
}

TEST_CASE("quiet runs say nothing") {
  const TempDir dir;
  const ProgramResult run = run_program("--quiet --max_steps 2" + in(dir));
  CHECK(run.status == 0);
  CHECK(run.output.empty());
  CHECK(slurp(dir.path() + "/cxtrain_logs/version_0/rank_0.log").find("done: ") != std::string::npos);
}

TEST_CASE("validate, test and predict run from the program") {
  const TempDir dir;
  for (const char* command : {"validate", "test", "predict"}) {
    const ProgramResult run = run_ranks(2, command + in(dir));
    CAPTURE(command, run.output);
    CHECK(run.status == 0);
    CHECK(run.output.find("100% 6/6") != std::string::npos);  // 360 images, 2 ranks, batches of 32
  }
}

TEST_CASE("the other examples train") {
  const TempDir dir;
  const std::string text = dir.write("text.txt", [] {
    std::string s;
    for (int i = 0; i < 2000; ++i) s += "the quick brown fox jumps over the lazy dog. ";
    return s;
  }());
  const ProgramResult gpt = run_ranks(
      2, "--model gpt --model.layers 1 --model.width 32 --model.context 32 --max_steps 20 --data.path " +
             text + in(dir));
  CAPTURE(gpt.output);
  CHECK(gpt.status == 0);
  CHECK(std::all_of(gpt.output.begin(), gpt.output.end(),
                    [](char c) { return c == '\n' || c == '\r' || (c >= 0x20 && c < 0x7f); }));
  const TempDir other;
  const ProgramResult simple =
      run_program("--model simple --max_steps 1 --num_sanity_val_steps 0" + in(other));
  CAPTURE(simple.output);
  CHECK(simple.status == 0);
}

/// A file of MNIST's format: `numbers` of 32 bits, big-endian, then bytes that count from 0 to 9.
std::string idx(const std::vector<int>& numbers, std::size_t bytes) {
  std::string text;
  for (const int number : numbers) {
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(number >> shift & 0xff);
  }
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i % 10);
  return text;
}

TEST_CASE("gan trains on ranks, and leaves a picture of each epoch") {
  const TempDir data;
  data.write("train-images-idx3-ubyte", idx({2051, 72, 28, 28}, std::size_t{72} * 28 * 28));
  data.write("train-labels-idx1-ubyte", idx({2049, 72}, 72));
  const TempDir dir;
  const ProgramResult gan =
      run_ranks(2, "--model gan --accelerator cpu --max_epochs 2 --data.batch_size 8 --data.path " +
                       data.path() + in(dir));
  CAPTURE(gan.output);
  REQUIRE(gan.status == 0);
  const std::string picture = dir.path() + "/cxtrain_logs/version_0/generated_epoch_1.png";
  std::ifstream file(picture, std::ios::binary);
  std::string begin(8, '\0');
  file.read(begin.data(), 8);
  CHECK(begin == "\x89PNG\r\n\x1a\n");
  std::vector<std::int64_t> logged;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() + "/cxtrain_logs/version_0")) {
    if (!entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    for (const ReadEvent& event : read_events(slurp(entry.path().string())))
      if (event.tag == "generated" && event.png.starts_with(begin)) logged.push_back(event.step);
  }
  CHECK(logged == std::vector<std::int64_t>{4, 8});
  CHECK(run_json(dir)["global_step"] == 8);  // 64 of the samples in four batches of 16, twice
}

}  // namespace
}  // namespace cxtrain::test
