#include <algorithm>
#include <filesystem>

#include "support/catch.h"
#include "support/run_files.h"
#include "support/run_program.h"
#include "support/times.h"

namespace cxtrain::test {
namespace {

TEST_CASE("dp trains the default example on replicas in one process, and tests it on them") {
  const TempDir dir;
  const ProgramResult run =
      run_program("fit --strategy dp --accelerator cpu --devices 4 --default_root_dir " + dir.path());
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const auto json = run_json(dir);
  CHECK(json["strategy"] == "dp");
  CHECK(json["world_size"] == 1);
  CHECK(json["metrics"]["val_acc"].get<double>() >= 0.97);
  CHECK(run.output.find("4 replicas") != std::string::npos);
}

TEST_CASE("dp under mpirun and sync_batchnorm with dp say what happens") {
  const TempDir dir;
  const std::string options =
      "--strategy dp --accelerator cpu --devices 2 --max_epochs 1 --default_root_dir " + dir.path();
  const ProgramResult ranks = run_ranks(2, options);
  CHECK(ranks.status == 2);
  const ProgramResult norm = run_program(options + " --sync_batchnorm true");
  CAPTURE(norm.output);
  CHECK(norm.status == 0);
  CHECK(norm.output.find("sync_batchnorm has no effect") != std::string::npos);
}

TEST_CASE(
    "seq2seq learns to write backwards with its parts on two devices a rank, alone and with ddp alike") {
  std::vector<double> losses;
  for (const int ranks : {1, 2}) {
    const TempDir dir;
    const std::string options =
        "--model seq2seq --accelerator cpu --devices_per_rank 2 --model.length 6 --max_epochs 1 "
        "--data.batch_size " +
        std::to_string(64 / ranks) + " --default_root_dir " + dir.path();
    const ProgramResult run = ranks == 1 ? run_program(options) : run_ranks(ranks, options);
    CAPTURE(run.output);
    REQUIRE(run.status == 0);
    const auto metrics = run_json(dir)["metrics"];
    CHECK(metrics["val_acc"].get<double>() > 0.9);
    CHECK(metrics.contains("train_loss"));
    losses.push_back(metrics["val_loss"].get<double>());
  }
  CHECK(losses[1] == Catch::Approx(losses[0]).epsilon(0.02));
}

TEST_CASE("a strategy whose ranks keep parts of the model shows the whole model's layers") {
  const TempDir dir;
  const ProgramResult run = run_ranks(2, std::string("--plugin ") + CXTRAIN_TEST_PLUGIN_DIR +
                                             "/owner.so --strategy owner --accelerator cpu --max_epochs 1 "
                                             "--callbacks.divergence_check.every_n_train_steps 5" +
                                             in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK_THAT(run.output, contains("19.2 K    Total params"));  // 64 x 256 + 256 + 256 x 10 + 10
  CHECK_THAT(run.output, contains("divergence_check compares nothing"));
  const auto json = run_json(dir);
  CHECK(json["parameters_equal_on_all_ranks"].is_null());
  CHECK(json["pss_bytes"].get<std::int64_t>() > 0);
  CHECK(json["pss_bytes"] <= json["peak_memory_bytes"]);
}

TEST_CASE("ranks of a node divide the optimizer's work where asked to, to the same bits, and say so") {
  std::vector<std::string> hashes;
  for (const char* wish : {"true", "false"}) {
    const TempDir dir;
    const ProgramResult run = run_ranks(
        2, "--accelerator cpu --max_epochs 2 --strategy.shard_optimizer " + std::string(wish) + in(dir));
    CAPTURE(run.output);
    REQUIRE(run.status == 0);
    CHECK((run.output.find("divide") != std::string::npos) == (wish == std::string("true")));
    hashes.push_back(run_json(dir)["parameters_sha256"]);
  }
  CHECK(hashes[0] == hashes[1]);

  // Unasked, where the model is large enough and the optimizer keeps state.
  const auto divides = [](const std::string& options) {
    const TempDir dir;
    const ProgramResult run = run_ranks(2, "--accelerator cpu --max_steps 1 " + options + in(dir));
    CAPTURE(run.output);
    CHECK(run.status == 0);
    return run.output.find("divide") != std::string::npos;
  };
  CHECK(divides("--model.hidden 4096"));
  CHECK(divides("--model.hidden 4096 --optimizer sgd --optimizer.momentum 0.9"));
  CHECK_FALSE(divides("--model.hidden 4096 --optimizer sgd --optimizer.momentum 0"));
  CHECK_FALSE(divides("--model.hidden 4096 --optimizer rmsprop"));
  CHECK_FALSE(divides("--model.hidden 64"));

  const TempDir spawned;
  const ProgramResult asked = run_program(
      "--accelerator cpu --devices 2 --strategy ddp_spawn --strategy.shard_optimizer --max_epochs 1" +
      in(spawned));
  CAPTURE(asked.output);
  CHECK(asked.status == 0);
  CHECK(asked.output.find("divide") != std::string::npos);

  const TempDir dir;
  const ProgramResult alone =
      run_ranks(1, "--accelerator cpu --strategy ddp --max_epochs 1 --ddp.shard_optimizer true" + in(dir));
  CAPTURE(alone.output);
  CHECK(alone.status == 0);
  CHECK(alone.output.find("all parameters") != std::string::npos);
}

TEST_CASE("zero trains to the bits of ddp in less memory, whatever Lightning calls it") {
  const TempDir text;
  const std::string options =
      "--accelerator cpu --max_steps 6 --model gpt --model.width 256 --model.layers 6 --model.context 16 "
      "--model.sample_bytes 0 --data.batch_size 2 --limit_val_batches 0 --gradient_clip_val 0.1 "
      "--data.path " +
      text.write("text", text_of_squares()) + " --strategy ";
  const auto train = [&](const std::string& strategy) {
    const TempDir dir;
    const ProgramResult run = run_ranks(2, options + strategy + in(dir));
    CAPTURE(strategy, run.output);
    REQUIRE(run.status == 0);
    return run_json(dir);
  };
  const auto saved = [](const nlohmann::json& run, const nlohmann::json& whole) {
    CHECK(run["parameters_sha256"] == whole["parameters_sha256"]);
    CHECK(run["strategy"] == "zero");
    return whole["pss_bytes"].get<double>() - run["pss_bytes"].get<double>();
  };
  const nlohmann::json ddp = train("ddp --strategy.shard_optimizer false");
  // Of 4.8 M parameters stage 1 saves half of 12 bytes each. Stage 2 saves half of the gradients, too, less
  // three rows of 2 MB.
  const double state = saved(train("zero --strategy.stage 1"), ddp);
  CHECK(state > 22e6);
  for (const char* zero : {"deepspeed_stage_2", "fsdp"}) {
    CAPTURE(zero);
    CHECK(saved(train(std::string(zero) + " --strategy.bucket_bytes 2000000"), ddp) > state + 1e6);
  }
  // Half of 16 bytes each, less the slots of two blocks of 0.8 M parameters and three rows.
  CHECK(saved(train("zero --strategy.parameters all --strategy.bucket_bytes 2000000"), ddp) > 16e6);
}

TEST_CASE("a checkpoint of zero resumes under other strategies, stages and numbers of ranks") {
  const std::string options =
      "--accelerator cpu --max_epochs 2 --model.hidden 600 --data.uneven exact "
      "--checkpoint.every_n_train_steps 100 ";
  const auto on = [](int ranks, const std::string& strategy) {
    return "--data.batch_size " + std::to_string(24 / ranks) + " --strategy " + strategy + " ";
  };
  const TempDir whole;
  REQUIRE(run_ranks(2, options + on(2, "zero") + in(whole)).status == 0);
  const std::string saved = newest_checkpoint(whole.path()).path;
  for (const auto& [ranks, strategy] :
       {std::pair{3, "zero --strategy.stage 2"}, {1, "single"}, {2, "ddp"}, {4, "zero --strategy.stage 3"}}) {
    const TempDir dir;
    const ProgramResult run =
        run_ranks(ranks, options + on(ranks, strategy) + "--ckpt_path " + saved + in(dir));
    CAPTURE(ranks, strategy, run.output);
    REQUIRE(run.status == 0);
    CHECK(run_json(dir)["global_step"] == run_json(whole)["global_step"]);
    const double loss = run_json(dir)["metrics"]["val_loss"], same = run_json(whole)["metrics"]["val_loss"];
    CHECK(loss == Approx(same).epsilon(1e-4));
    if (ranks == 2) CHECK(run_json(dir)["parameters_sha256"] == run_json(whole)["parameters_sha256"]);
  }
}

/// Plans with a test's plugin, for a machine without GPUs.
nlohmann::json plan_of_odd_strategy(const std::string& how, int status = 0) {
  const ProgramResult run = run_command(how + " --accelerator cpu --json");
  CAPTURE(run.output);
  CHECK(run.status == status);
  return nlohmann::json::parse(run.output);
}

TEST_CASE("a plan of zero that no machine can run is refused with a cure") {
  const auto refused =
      plan_of_odd_strategy(kProgram +
                               " plan --strategy zero --ranks 2 --ranks-per-node 1 --num_nodes 2 "
                               "--strategy.parameters mapped",
                           2);
  CHECK_THAT(refused["errors"].dump(), contains("strategy.parameters") && contains("--strategy.stage 2"));
  const auto no_chain = plan_of_odd_strategy(
      kProgram + " plan --strategy zero --ranks 2 --ranks-per-node 1 --num_nodes 2 --model simple", 2);
  CHECK_THAT(no_chain["errors"].dump(), contains("ChainModule") && contains("--strategy.stage 2"));
  const auto planned = plan_of_odd_strategy(
      kProgram + " plan --strategy deepspeed_stage_1 --ranks 2 --ranks-per-node 1 --num_nodes 2");
  CHECK(planned["strategy"] == "zero");
  CHECK(planned["strategy_arguments"]["stage"] == "1");
}

/// A GPT whose blocks lie on two stages.
std::string small_gpt(const TempDir& text) {
  return "--accelerator cpu --model gpt --model.width 256 --model.layers 6 --model.context 16 "
         "--model.sample_bytes 40 "
         "--limit_val_batches 2 --data.path " +
         text.write("text", text_of_squares()) + " ";
}

TEST_CASE(
    "a pipeline's ranks have half of the model each, and its checkpoint resumes under other strategies") {
  const TempDir text, whole, half, single;
  const std::string options = small_gpt(text) + "--max_steps 6 --val_check_interval 12 ";
  const std::string eight = "--data.batch_size 2 --accumulate_grad_batches 4 ";
  const ProgramResult alone = run_ranks(1, options + eight + "--strategy single" + in(single));
  REQUIRE(alone.status == 0);
  const ProgramResult run = run_ranks(2, options + eight + "--strategy pipeline" + in(whole));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK_THAT(run.output, contains("blocks embedding to blocks.2 | blocks.3 to head"));
  CHECK_THAT(run.output, contains("other ranks have some of the blocks"));
  const auto json = run_json(whole), expected = run_json(single);
  // Of 4.8 M parameters with 16 bytes each.
  CHECK(expected["pss_bytes"].get<double>() - json["pss_bytes"].get<double>() > 25e6);
  for (const char* metric : {"train_loss", "val_loss"})
    CHECK(json["metrics"][metric].get<double>() ==
          Approx(expected["metrics"][metric].get<double>()).epsilon(1e-4));

  REQUIRE(run_ranks(2, options + eight + "--strategy pipeline --max_steps 3" + in(half)).status == 0);
  const std::string saved = newest_checkpoint(half.path()).path;
  for (const auto& [ranks, how] : {std::pair{2, "--strategy pipeline"},
                                   {1, "--strategy single"},
                                   {4, "--data.batch_size 1 --strategy pipeline --strategy.stages 2"},
                                   {2, "--data.batch_size 1 --strategy ddp"},
                                   {2, "--data.batch_size 1 --strategy zero"},
                                   {2, "--data.batch_size 1 --strategy zero --strategy.parameters all"},
                                   {3, "--strategy pipeline"}}) {
    CAPTURE(ranks, how);
    const TempDir dir;
    const ProgramResult resumed = run_ranks(ranks, options + eight + how + " --ckpt_path " + saved + in(dir));
    CAPTURE(resumed.output);
    REQUIRE(resumed.status == 0);
    CHECK(run_json(dir)["global_step"] == 6);
    CHECK(run_json(dir)["metrics"]["val_loss"].get<double>() ==
          Approx(json["metrics"]["val_loss"].get<double>()).epsilon(1e-4));
    if (ranks == 2 && std::string_view(how) == "--strategy pipeline")
      CHECK(run_json(dir)["parameters_sha256"] == json["parameters_sha256"]);
  }
}

/// Bytes of private memory that rank 0 had before its training.
std::int64_t memory_before_training(int ranks, const std::string& options) {
  constexpr std::int64_t kUnused = std::int64_t{1} << 40;
  const TempDir dir;
  const std::string plenty = "ulimit -d " + std::to_string(kUnused >> 10) + "; ";
  const ProgramResult run = run_command(plenty + ranks_command(ranks, options + in(dir)));
  CAPTURE(options, run.output);
  REQUIRE(run.status == 0);
  const std::string log = slurp(dir.path() + "/cxtrain_logs/version_0/rank_0.log");
  const std::string words = "a process has taken ";
  const std::size_t at = log.find(words);
  REQUIRE(at != std::string::npos);
  return std::stoll(log.substr(at + words.size()));
}

TEST_CASE("a rank never has the whole of a model that it trains in parts") {
  const TempDir text;
  const std::string options = small_gpt(text) +
                              "--model.width 512 --model.layers 4 --data.batch_size 1 --max_steps 1 "
                              "--limit_val_batches 0 --enable_checkpointing false --strategy ";
  // 12.7 M parameters are 51 MB, of which three quarters lie on other ranks.
  const std::int64_t whole = memory_before_training(4, options + "ddp");
  for (const char* strategy :
       {"zero", "zero --strategy.parameters all", "pipeline --accumulate_grad_batches 2"}) {
    const std::int64_t part = memory_before_training(4, options + strategy);
    CAPTURE(strategy, whole, part);
    CHECK(whole - part > 28'000'000);
  }
}

TEST_CASE("a rank never has the whole of a model that it evaluates in parts") {
  const TempDir text, trained;
  const std::string options = small_gpt(text) + "--model.width 512 --model.layers 16 --data.batch_size 1 ";
  const std::int64_t whole = memory_before_training(
      4, options + "--max_steps 1 --limit_val_batches 0 --enable_checkpointing false --strategy ddp");
  REQUIRE(run_ranks(4, options + "--max_steps 2 --strategy zero --strategy.parameters all" + in(trained))
              .status == 0);
  const std::string checkpoint = newest_checkpoint(trained.path()).path;
  // 50.6 M parameters are 202 MB; two gathered blocks and a quarter of all are 76.
  const std::string limit = "ulimit -d " + std::to_string((whole - 30'000'000) >> 10) + "; ";
  double pss = 0;
  const auto validate = [&](const std::string& strategy, const std::string& before) {
    const TempDir dir;
    const ProgramResult run =
        run_command(before + ranks_command(4, "validate " + options + "--ckpt_path " + checkpoint +
                                                  " --strategy " + strategy + in(dir)));
    CAPTURE(strategy, run.output);
    if (run.status != 0) return -1.0;
    pss = run_json(dir)["pss_bytes"].get<double>();
    return run_json(dir)["metrics"]["val_loss"].get<double>();
  };
  const double expected = validate("ddp", ""), whole_pss = pss;
  CHECK(expected > 0);
  CHECK(validate("zero", "") == Approx(expected).epsilon(1e-5));  // one copy for all
  CHECK(whole_pss - pss > 120'000'000);
  CHECK(validate("ddp", limit) == -1);
  CHECK(validate("zero --strategy.parameters all", limit) == Approx(expected).epsilon(1e-5));
  CHECK(validate("pipeline", limit) > 0);
}

TEST_CASE("initial weights reach ranks that build the model in parts") {
  const TempDir text, saved;
  const std::string options =
      small_gpt(text) + "--data.batch_size 2 --max_steps 2 --limit_val_batches 0 --strategy ";
  REQUIRE(run_ranks(1, options + "single --seed 8" + in(saved)).status == 0);
  const auto train = [&](const std::string& strategy) {
    const TempDir dir;
    const ProgramResult run = run_ranks(
        2, options + strategy + " --model.weights " + newest_checkpoint(saved.path()).path + in(dir));
    CAPTURE(strategy, run.output);
    REQUIRE(run.status == 0);
    return run_json(dir)["parameters_sha256"];
  };
  const auto whole = train("ddp");
  CHECK(train("zero") == whole);
  CHECK(train("zero --strategy.parameters all") == whole);
  CHECK(train("ddp --model.weights_prefix head.norm") != whole);
  CHECK(train("zero --strategy.parameters all --model.weights_prefix head.norm") ==
        train("ddp --model.weights_prefix head.norm"));
}

TEST_CASE("a model of 1.2 times a rank's memory trains divided, and is refused whole with the cure") {
  const TempDir text;
  const std::string options = small_gpt(text) +
                              "--model.width 512 --model.layers 8 --data.batch_size 1 --max_steps 2 "
                              "--limit_val_batches 0 --enable_checkpointing false ";
  // 25.4 M parameters: gradients and Adam's state take 305 MB beside the parameters.
  const std::int64_t limit = memory_before_training(2, options + "--strategy ddp") + 254'000'000;
  const auto start = [&](const std::string& strategy, const TempDir& dir) {
    return run_command("ulimit -d " + std::to_string(limit >> 10) + "; " +
                       ranks_command(2, options + "--strategy " + strategy + in(dir)));
  };
  const TempDir whole;
  const ProgramResult refused = start("ddp --strategy.shard_optimizer false", whole);
  CAPTURE(refused.output);
  CHECK(refused.status == 2);
  CHECK_THAT(refused.output,
             contains("[out-of-memory]") && contains("--strategy zero") && contains("--strategy pipeline"));
  for (const char* strategy : {"zero", "pipeline --accumulate_grad_batches 2"}) {
    CAPTURE(strategy);
    const TempDir dir;
    const ProgramResult run = start(strategy, dir);
    CAPTURE(run.output);
    CHECK(run.status == 0);
  }
}

TEST_CASE("a rank that resumes reads its part of the state only") {
  const TempDir text;
  // 25.4 M parameters: with Adam's state 305 MB.
  const std::string options =
      small_gpt(text) + "--model.width 512 --model.layers 8 --data.batch_size 1 --limit_val_batches 0 ";
  for (const char* strategy : {"zero --strategy.parameters all", "pipeline --accumulate_grad_batches 2"}) {
    CAPTURE(strategy);
    const TempDir dir;
    const auto peak_after = [&](const std::string& more) {
      const ProgramResult run = run_ranks(2, options + "--strategy " + strategy + " " + more + in(dir));
      CAPTURE(run.output);
      REQUIRE(run.status == 0);
      return run_json(dir)["peak_memory_bytes"].get<double>();
    };
    const double first = peak_after("--max_steps 2");
    CHECK(peak_after("--max_steps 4 --ckpt_path last") < first + 64e6);
  }
}

const std::string kFaultyChain =
    std::string("--accelerator cpu --plugin ") + CXTRAIN_TEST_PLUGIN_DIR + "/faulty.so --model faulty_chain ";

TEST_CASE(
    "a block that throws on one rank ends the job of ranks that share a model, with the rank's message") {
  for (const char* strategy : {"zero", "zero --strategy.parameters all", "pipeline"}) {
    CAPTURE(strategy);
    const TempDir dir;
    const ProgramResult run = run_ranks(2, kFaultyChain + "--max_epochs 1 --timeout_seconds 5 --strategy " +
                                               strategy + " --model.rank 1" + in(dir));
    CAPTURE(run.output);
    CHECK(run.status == 1);
    CHECK(times(run.output, "the well is dry") == 1);
    CHECK_THAT(run.output, contains("error: rank 1 on ") && contains("epoch 0, step "));
  }
}

TEST_CASE("ranks that build parts of different models are refused with the block's name") {
  for (const char* strategy : {"zero", "zero --strategy.parameters all", "pipeline"}) {
    CAPTURE(strategy);
    const TempDir dir;
    const ProgramResult run =
        run_ranks(2, kFaultyChain + "--model.fault dice --strategy " + strategy + in(dir));
    CAPTURE(run.output);
    CHECK(run.status == 1);
    CHECK(times(run.output, "error: ") == 1);
    CHECK_THAT(run.output, contains("different models: block 0") && contains("`first`") &&
                               contains("on rank 1") && contains("LibTorch's generator"));
  }
}

/// Returns the part of a step in which stages wait. Blocks sleep in place of computing, so stages do not take
/// each other's cores. `seconds`: a block's forward pass, half of its backward pass.
double waits_under(const std::string& schedule, int stages, int blocks, int micro_batches, double seconds) {
  const TempDir dir;
  const ProgramResult run = run_ranks(
      stages, std::string("--accelerator cpu --plugin ") + CXTRAIN_TEST_PLUGIN_DIR +
                  "/sleeper.so --model sleeper --max_steps 5 --model.blocks " + std::to_string(blocks) +
                  " --model.ms " + std::to_string(1e3 * seconds) + " --accumulate_grad_batches " +
                  std::to_string(micro_batches) +
                  " --profiler simple --strategy pipeline --strategy.schedule " + schedule + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const auto profile = nlohmann::json::parse(slurp(dir.path() + "/cxtrain_logs/version_0/profile.json"));
  const double work = 3 * seconds * blocks / stages * micro_batches;
  return 1 - work / profile["median"].get<double>();
}

TEST_CASE("stages wait for the part of a step that a schedule's formula says") {
  constexpr int kStages = 4, kBlocks = 8, kMicroBatches = 4, kTries = 3;
  const auto waits_of = [](double parts) { return (kStages - 1) / (parts * kMicroBatches + kStages - 1); };
  for (const auto& [schedule, formula] : {std::pair{"gpipe", waits_of(1)},
                                          {"1f1b", waits_of(1)},
                                          {"interleaved", waits_of(2)},
                                          {"zb1p", waits_of(3)}}) {
    CAPTURE(schedule);
    // A busy machine only adds to a wait: the shortest of some runs counts.
    double waits = 1;
    for (int run = 0; run < kTries && waits >= formula + 0.1; ++run)
      waits = std::min(waits, waits_under(schedule, kStages, kBlocks, kMicroBatches, /*seconds=*/0.015));
    CHECK(waits > formula - 0.01);
    CHECK(waits < formula + 0.1);
  }
}

TEST_CASE("a model in parts may freeze blocks when its optimizers are made") {
  std::vector<std::string> hashes;
  for (const char* strategy : {"ddp", "zero", "zero --strategy.parameters all"}) {
    CAPTURE(strategy);
    const TempDir dir;
    // Arguments of an unnamed optimizer have the optimizers made before the strategy connects, too.
    const ProgramResult run = run_ranks(2, kFaultyChain +
                                               "--model.fault freeze --max_steps 3 --optimizer.lr 0.1 "
                                               "--strategy.bucket_bytes 64 --strategy " +
                                               strategy + in(dir));
    CAPTURE(run.output);
    REQUIRE(run.status == 0);
    hashes.push_back(run_json(dir)["parameters_sha256"]);
  }
  CHECK(hashes[1] == hashes[0]);
  CHECK(hashes[2] == hashes[0]);
}

TEST_CASE("a plan draws a pipeline's step, and says what cannot be a pipeline") {
  const std::string plan = kProgram + " plan --accelerator cpu --strategy pipeline ";
  const ProgramResult drawn = run_command(plan + "--ranks 2 --accumulate_grad_batches 4");
  CHECK_THAT(drawn.output, contains("stages wait 20 % of it") && contains("stage 1  .  F0 B0 B0 F1"));
  const auto refused = plan_of_odd_strategy(plan + "--ranks 3 --strategy.stages 2", 2);
  CHECK_THAT(refused["errors"].dump(), contains("2 stages do not divide 3 ranks"));
  const auto no_chain = plan_of_odd_strategy(plan + "--ranks 2 --model simple", 2);
  CHECK_THAT(no_chain["errors"].dump(), contains("ChainModule"));
  const std::string gpt = " --model gpt --data.path " CXTRAIN_SOURCE_DIR "/README.md";
  const auto memory = plan_of_odd_strategy(plan + "--ranks 2" + gpt)["memory"];
  REQUIRE(memory.size() == 2);
  for (const auto& rank : memory) {
    CHECK(rank["gradients"] == rank["parameters"]);
    CHECK(rank["optimizer"] == 2 * rank["parameters"].get<std::int64_t>());
  }
  CHECK(memory[0]["parameters"] != memory[1]["parameters"]);
  const TempDir dir;
  const ProgramResult run = run_ranks(2, "--accelerator cpu --strategy pipeline --model simple" + in(dir));
  CHECK(run.status == 2);
  CHECK_THAT(run.output, contains("ChainModule"));
}

TEST_CASE("the arguments of a plugin's strategy are checked and listed like those of any other") {
  const std::string program = kProgram + " ";
  const std::string grid =
      "--plugin " + std::string(CXTRAIN_TEST_PLUGIN_DIR) + "/odd_strategies.so --strategy grid ";
  const auto plan = plan_of_odd_strategy(program + "plan " + grid + "--strategy.width 3");
  CHECK(plan["strategy_arguments"] == nlohmann::json{{"width", "3"}});
  const auto refused = plan_of_odd_strategy(
      program + "plan " + grid + "--strategy.widht 3 --strategy.width x --strategy.bucket_bytes 5", 2);
  std::string errors;
  for (const auto& error : refused["errors"])
    errors += error["option"].get<std::string>() + ": " + error["message"].get<std::string>() + " (" +
              error["hint"].get<std::string>() + ")\n";
  CHECK_THAT(errors, contains("strategy.bucket_bytes: ") && contains("ddp, ddp_spawn") &&
                         contains("strategy.widht: ") && contains("--strategy.width?") &&
                         contains("strategy.width: 'x'"));
  CHECK(refused["errors"].size() == 3);
  CHECK_THAT(run_program(grid + "--help").output, contains("--strategy.width N"));
  CHECK_THAT(run_program(grid + "--print_config").output, contains("\nstrategy:\n  width: 2\n"));
}

TEST_CASE("a run's configuration has the arguments of its strategy, and older names are warned of") {
  const TempDir dir;
  const std::string config = "/cxtrain_logs/version_0/config.yaml";
  const auto lines = [](const std::string& file) { return run_command("cat " + file).output; };
  const ProgramResult run = run_ranks(
      2, "--accelerator cpu --max_steps 1 --strategy ddp --strategy.bucket_bytes 1000 --ddp.overlap false" +
             in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK(run.output.find("ddp, bucket_bytes=1000, overlap=false") != std::string::npos);
  const std::string kept = lines(dir.path() + config);
  CHECK_THAT(kept, contains("\nstrategy:\n  broadcast_buffers: true\n  bucket_bytes: 1000\n") &&
                       contains("\n  overlap: false\n") && contains("\n  first_bucket_bytes: 1048576\n") &&
                       !contains("\nddp:"));
  const TempDir again;
  const ProgramResult same =
      run_ranks(2, "--config " + dir.path() + config + " --default_root_dir " + again.path());
  CAPTURE(same.output);
  CHECK(same.status == 0);
  CHECK(same.output.find("ddp, broadcast_buffers=true, bucket_bytes=1000") != std::string::npos);

  const TempDir other;
  const ProgramResult single =
      run_ranks(1, "--config " + dir.path() + config +
                       " --strategy single --ddp.overlap false --default_root_dir " + other.path());
  CAPTURE(single.output);
  CHECK(single.status == 0);
  CHECK(single.output.find("it is ignored") != std::string::npos);
}

TEST_CASE("the plan follows what a strategy's plugin says of it, not its name") {
  const std::string program = kProgram + " plan ";
  const std::string plugin = std::string(CXTRAIN_TEST_PLUGIN_DIR) + "/odd_strategies.so";
  const std::string with_plugin = program + "--plugin " + plugin + " --strategy ";

  const auto fsdp = plan_of_odd_strategy(with_plugin + "fsdp --devices 3");
  CHECK(fsdp["strategy"] == "fsdp");
  CHECK(fsdp["world_size"] == 1);
  CHECK(fsdp["launcher"] == "none");
  CHECK(fsdp["replicas"] == 3);
  const auto refused = plan_of_odd_strategy(with_plugin + "fsdp --ranks 2", 2);
  CHECK_THAT(refused["errors"][0]["message"].get<std::string>(),
             contains("fsdp") && contains("mpirun started 2"));

  const auto whole = plan_of_odd_strategy(with_plugin + "whole --devices 2");
  CHECK(whole["launcher"] == "spawn");
  CHECK(whole["world_size"] == 2);
  CHECK(plan_of_odd_strategy(with_plugin + "whole --devices 2 --ranks 1")["replicas"] == 2);
  CHECK_THAT(plan_of_odd_strategy(with_plugin + "whole --devices_per_rank 2", 2)["errors"].dump(),
             contains("whole") && contains("devices_per_rank=2"));

  const auto grid = plan_of_odd_strategy(with_plugin + "grid --devices 4 --devices_per_rank 2");
  CHECK(grid["world_size"] == 2);
  CHECK(grid["replicas"] == 2);

  // Found by its file's name alone.
  const TempDir dir;
  std::filesystem::copy_file(plugin, dir.file("libcxtrain_strategy_fsdp.so"));
  const std::string found = "CXTRAIN_PLUGIN_PATH=" + dir.path() + " " + program;
  CHECK(plan_of_odd_strategy(found + "--strategy fsdp --devices 3")["replicas"] == 3);
}

TEST_CASE("a strategy whose plugin cannot be used is refused before anything is planned for it") {
  const TempDir dir;
  std::filesystem::copy_file(std::string(CXTRAIN_TEST_PLUGIN_DIR) + "/wrong_abi.so",
                             dir.file("libcxtrain_strategy_old.so"));
  const std::string found = "CXTRAIN_PLUGIN_PATH=" + dir.path() + " " + kProgram + " plan ";
  CHECK_THAT(plan_of_odd_strategy(found + "--strategy old", 2)["errors"][0]["message"].get<std::string>(),
             contains("ABI version 999"));
  CHECK(plan_of_odd_strategy(found + "--devices 2")["strategy"] == "ddp");
}

TEST_CASE("a model without parts is not spread over several devices") {
  const TempDir dir;
  const ProgramResult run =
      run_program("--model simple --accelerator cpu --devices_per_rank 2 --default_root_dir " + dir.path());
  CAPTURE(run.output);
  CHECK(run.status == 2);
  CHECK(run.output.find("place_parts") != std::string::npos);
}

}  // namespace
}  // namespace cxtrain::test
