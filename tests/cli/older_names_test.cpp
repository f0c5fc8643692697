#include "support/catch.h"

#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/yaml_config.h"

using namespace cxtrain;

namespace {

struct Result {
  TrainerOptions trainer;
  std::string problems;
};

Result read(const std::vector<const char*>& args) {
  const ParsedCommandLine parsed = read_command_line(args, [](const std::string&) { return std::nullopt; });
  Result result{parsed.options.trainer, ""};
  for (const Problem& problem : parsed.problems)
    result.problems += problem.option + ": " + problem.message + " (" + problem.hint + ")\n";
  return result;
}

}  // namespace

TEST_CASE("older names set today's options", "[cli]") {
  CHECK(read({"--distributed_backend", "ddp"}).trainer.accelerator == "ddp");
  CHECK_FALSE(read({"--replace_sampler_ddp", "false"}).trainer.use_distributed_sampler);
  CHECK(read({"--checkpoint_callback=false"}).trainer.enable_checkpointing == false);
  CHECK(read({"--reload_dataloaders_every_epoch"}).trainer.reload_dataloaders_every_n_epochs == 1);
  CHECK(read({"--reload_dataloaders_every_epoch", "no"}).trainer.reload_dataloaders_every_n_epochs == 0);
  CHECK_FALSE(read({"--progress_bar_refresh_rate", "0"}).trainer.enable_progress_bar);
  CHECK_FALSE(read({"--trainer.weights_summary", "null"}).trainer.enable_model_summary);
  CHECK(read({"--weights_summary", "top"}).trainer.enable_model_summary);
  CHECK(read({"--progress_bar_refresh_rate", "null"}).trainer == TrainerOptions{});
}

TEST_CASE("older names of checkpoints set an argument and an option outside of the trainer's", "[cli]") {
  const auto parse = [](const std::vector<const char*>& args) {
    return read_command_line(args, [](const auto&) { return std::nullopt; });
  };
  const ParsedCommandLine older = parse({"--weights_save_path", "/out", "--resume_from_checkpoint", "last"});
  CHECK(older.problems.empty());
  CHECK(older.options.checkpoint.args == std::map<std::string, std::string>{{"dirpath", "/out"}});
  CHECK(older.options.ckpt_path == "last");
  CHECK(parse({"--weights_save_path", "/out", "--checkpoint.dirpath", "/out"}).problems.empty());
  CHECK(read({"--weights_save_path", "/out", "--checkpoint.dirpath", "/else"}).problems ==
        "--weights_save_path: contradicts checkpoint.dirpath, whose older name it is (keep "
        "checkpoint.dirpath)\n");
  CHECK(parse({"--weights_save_path", "null"}).options.checkpoint.args.empty());
}

TEST_CASE("seed_everything is the seed; switched on or off, it is the default one", "[cli]") {
  const auto seed = [](const char* typed) {
    const ParsedCommandLine parsed =
        read_command_line(std::vector{"--seed_everything", typed}, [](const auto&) { return std::nullopt; });
    CHECK(parsed.problems.empty());
    return parsed.options.seed;
  };
  CHECK(seed("1") == 1);
  CHECK(seed("18446744073709551615") == 18446744073709551615ULL);
  CHECK(seed("true") == 0);
  CHECK(seed("false") == 0);
  CHECK(seed("null") == std::nullopt);
  CHECK(read({"--seed_everything", "x"}).problems ==
        "--seed_everything: 'x' is not a whole number from 0 on ()\n");
}

TEST_CASE("older names with values that have no meaning today", "[cli]") {
  CHECK(read({"--progress_bar_refresh_rate", "20"}).problems ==
        "--progress_bar_refresh_rate: the bar is redrawn by the clock, not every 20 batches; 0 turns it off, "
        "as "
        "--enable_progress_bar false does ()\n");
  CHECK(read({"--progress_bar_refresh_rate", "x"}).problems ==
        "--progress_bar_refresh_rate: 'x' is not a whole number ()\n");
  CHECK(
      read({"--weights_summary", "full"}).problems ==
      "--weights_summary: 'full' is not possible: the summary shows the topmost layers, as 'top' does ()\n");
  CHECK(read({"--reload_dataloaders_every_epoch", "2"}).problems ==
        "--reload_dataloaders_every_epoch: '2' is not true or false ()\n");
  CHECK(read({"--replace_sampler_ddp", "maybe"}).problems ==
        "--replace_sampler_ddp: 'maybe' is not true or false ()\n");
}

TEST_CASE("both names of an option may say the same, and nothing else", "[cli]") {
  const Result same = read({"--enable_model_summary", "true", "--weights_summary", "top"});
  CHECK(same.problems.empty());
  for (const std::vector<const char*>& args :
       {std::vector{"--use_distributed_sampler", "true", "--replace_sampler_ddp", "false"},
        {"--replace_sampler_ddp", "false", "--use_distributed_sampler", "true"}}) {
    CHECK(read(args).problems ==
          "--replace_sampler_ddp: contradicts trainer.use_distributed_sampler, whose older name it is (keep "
          "trainer.use_distributed_sampler)\n");
  }
  CHECK_FALSE(read({"--weights_summary", "top", "--weights_summary", "null"}).trainer.enable_model_summary);
}

TEST_CASE("config.yaml has today's names only, and misspellings lead to them", "[cli]") {
  CHECK_THAT(to_yaml(Options{}),
             !cxtrain::test::contains("weights_summary") && !cxtrain::test::contains("distributed_backend"));
  CHECK(read({"--use_distributed_samplr", "true"}).problems ==
        "--use_distributed_samplr: there is no such option (did you mean --use_distributed_sampler?)\n");
}

TEST_CASE("values that stand for others", "[cli]") {
  CHECK(read({"--auto_scale_batch_size"}).trainer.auto_scale_batch_size == BatchScaling::power);
  CHECK(read({"--auto_scale_batch_size", "true"}).trainer.auto_scale_batch_size == BatchScaling::power);
  CHECK(read({"--auto_scale_batch_size", "binsearch"}).trainer.auto_scale_batch_size ==
        BatchScaling::binsearch);
  CHECK_FALSE(read({"--auto_scale_batch_size=false"}).trainer.auto_scale_batch_size);
  CHECK(read({"--deterministic"}).trainer.deterministic == Deterministic(true));
  CHECK(read({"--deterministic=warn"}).trainer.deterministic == Deterministic::warn());
  CHECK(read({"--deterministic=perhaps"}).problems ==
        "--deterministic: 'perhaps' is not true, false or warn ()\n");
  CHECK(read({"--track_grad_norm", "inf"}).trainer.track_grad_norm > 1e300);
}

TEST_CASE("a word that an option does not take is answered with those that it does", "[cli]") {
  const auto refused = [](const char* option, const char* value) { return read({option, value}).problems; };
  CHECK(refused("--gradient_clip_algorithm", "nrom") ==
        "--gradient_clip_algorithm: 'nrom' is none of norm, value (did you mean norm?) ()\n");
  CHECK_THAT(refused("--auto_scale_batch_size", "powr"), cxtrain::test::contains("did you mean power?"));
  CHECK_THAT(refused("--float32_matmul_precision", "low"),
             cxtrain::test::contains("none of highest, high, medium"));
  CHECK_THAT(refused("--log_gpu_memory", "max"), cxtrain::test::contains("'max' is none of all, min_max"));
  CHECK_THAT(refused("--requeue_signal", "SIGKILL"),
             cxtrain::test::contains("'SIGKILL' is none of none, SIGUSR1, SIGUSR2, SIGHUP"));
  CHECK_THAT(refused("--data.uneven", "padd"), cxtrain::test::contains("did you mean pad?"));
  CHECK_THAT(refused("--max_time", "1h"),
             cxtrain::test::contains("'1h' is not a time of the form DD:HH:MM:SS"));
}
