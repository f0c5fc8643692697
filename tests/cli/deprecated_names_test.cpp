#include "support/catch.h"
#include "support/error_text.h"

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
    result.problems += with_code(to_line(problem), problem.code) + "\n";
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
  CHECK_THAT(read({"--weights_save_path", "/out", "--checkpoint.dirpath", "/else"}).problems,
             test::contains(test::code(MessageCode::conflicting_options)) &&
                 test::contains("--weights_save_path:") && test::contains("checkpoint.dirpath"));
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
  CHECK_THAT(read({"--seed_everything", "x"}).problems,
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("--seed_everything:") &&
                 test::contains("'x'"));
}

TEST_CASE("older names with values that have no meaning today", "[cli]") {
  CHECK_THAT(read({"--progress_bar_refresh_rate", "20"}).problems,
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("--progress_bar_refresh_rate:") && test::contains("20 batches") &&
                 test::contains("--enable_progress_bar false"));
  CHECK_THAT(read({"--progress_bar_refresh_rate", "x"}).problems,
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("--progress_bar_refresh_rate:") && test::contains("'x'"));
  CHECK_THAT(read({"--weights_summary", "full"}).problems,
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("--weights_summary:") &&
                 test::contains("'full'") && test::contains("'top'"));
  CHECK_THAT(read({"--reload_dataloaders_every_epoch", "2"}).problems,
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("--reload_dataloaders_every_epoch:") && test::contains("'2'"));
  CHECK_THAT(read({"--replace_sampler_ddp", "maybe"}).problems,
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("--replace_sampler_ddp:") && test::contains("'maybe'"));
}

TEST_CASE("both names of an option may say the same, and nothing else", "[cli]") {
  const Result same = read({"--enable_model_summary", "true", "--weights_summary", "top"});
  CHECK(same.problems.empty());
  for (const std::vector<const char*>& args :
       {std::vector{"--use_distributed_sampler", "true", "--replace_sampler_ddp", "false"},
        {"--replace_sampler_ddp", "false", "--use_distributed_sampler", "true"}}) {
    CHECK_THAT(read(args).problems, test::contains(test::code(MessageCode::conflicting_options)) &&
                                        test::contains("--replace_sampler_ddp:") &&
                                        test::contains("trainer.use_distributed_sampler"));
  }
  CHECK_FALSE(read({"--weights_summary", "top", "--weights_summary", "null"}).trainer.enable_model_summary);
}

TEST_CASE("config.yaml has today's names only, and misspellings lead to them", "[cli]") {
  CHECK_THAT(to_yaml(Options{}),
             !test::contains("weights_summary") && !test::contains("distributed_backend"));
  CHECK_THAT(read({"--use_distributed_samplr", "true"}).problems,
             test::contains(test::code(MessageCode::unknown_option)) &&
                 test::contains("--use_distributed_samplr:") && test::contains("--use_distributed_sampler"));
}

TEST_CASE("values that stand for others", "[cli]") {
  CHECK(read({"--auto_scale_batch_size"}).trainer.auto_scale_batch_size == BatchScaling::power);
  CHECK(read({"--auto_scale_batch_size", "true"}).trainer.auto_scale_batch_size == BatchScaling::power);
  CHECK(read({"--auto_scale_batch_size", "binsearch"}).trainer.auto_scale_batch_size ==
        BatchScaling::binsearch);
  CHECK_FALSE(read({"--auto_scale_batch_size=false"}).trainer.auto_scale_batch_size);
  CHECK(read({"--deterministic"}).trainer.deterministic == Deterministic(true));
  CHECK(read({"--deterministic=warn"}).trainer.deterministic == Deterministic::warn());
  CHECK_THAT(read({"--deterministic=perhaps"}).problems,
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("--deterministic:") &&
                 test::contains("'perhaps'"));
  CHECK(read({"--track_grad_norm", "inf"}).trainer.track_grad_norm > 1e300);
}

TEST_CASE("a word that an option does not take is answered with those that it does", "[cli]") {
  const auto refused = [](const char* option, const char* value) { return read({option, value}).problems; };
  CHECK_THAT(refused("--gradient_clip_algorithm", "nrom"),
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("--gradient_clip_algorithm:") && test::contains("'nrom'") &&
                 test::contains("norm, value") && test::contains("norm?"));
  CHECK_THAT(refused("--auto_scale_batch_size", "powr"),
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("--auto_scale_batch_size:") && test::contains("'powr'") &&
                 test::contains("power?"));
  CHECK_THAT(refused("--float32_matmul_precision", "low"),
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("--float32_matmul_precision:") && test::contains("'low'") &&
                 test::contains("highest, high, medium"));
  CHECK_THAT(refused("--log_gpu_memory", "max"),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("--log_gpu_memory:") &&
                 test::contains("'max'") && test::contains("all, min_max"));
  CHECK_THAT(refused("--requeue_signal", "SIGKILL"), test::contains(test::code(MessageCode::invalid_value)) &&
                                                         test::contains("'SIGKILL'") &&
                                                         test::contains("none, SIGUSR1, SIGUSR2, SIGHUP"));
  CHECK_THAT(refused("--data.uneven", "padd"), test::contains(test::code(MessageCode::invalid_value)) &&
                                                   test::contains("--data.uneven:") &&
                                                   test::contains("'padd'") && test::contains("pad?"));
  CHECK_THAT(refused("--max_time", "1h"), test::contains(test::code(MessageCode::invalid_value)) &&
                                              test::contains("--max_time:") && test::contains("'1h'") &&
                                              test::contains("DD:HH:MM:SS"));
}
