#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include "support/catch.h"
#include "support/error_text.h"

#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/config/did_you_mean.h"

using namespace cxtrain;
using Names = std::set<std::string>;

namespace {

/// `inspect.signature(pytorch_lightning.Trainer)` of 1.5.10.
const Names kLightning15{"logger",
                         "checkpoint_callback",
                         "enable_checkpointing",
                         "callbacks",
                         "default_root_dir",
                         "gradient_clip_val",
                         "gradient_clip_algorithm",
                         "process_position",
                         "num_nodes",
                         "num_processes",
                         "devices",
                         "gpus",
                         "auto_select_gpus",
                         "tpu_cores",
                         "ipus",
                         "log_gpu_memory",
                         "progress_bar_refresh_rate",
                         "enable_progress_bar",
                         "overfit_batches",
                         "track_grad_norm",
                         "check_val_every_n_epoch",
                         "fast_dev_run",
                         "accumulate_grad_batches",
                         "max_epochs",
                         "min_epochs",
                         "max_steps",
                         "min_steps",
                         "max_time",
                         "limit_train_batches",
                         "limit_val_batches",
                         "limit_test_batches",
                         "limit_predict_batches",
                         "val_check_interval",
                         "flush_logs_every_n_steps",
                         "log_every_n_steps",
                         "accelerator",
                         "strategy",
                         "sync_batchnorm",
                         "precision",
                         "enable_model_summary",
                         "weights_summary",
                         "weights_save_path",
                         "num_sanity_val_steps",
                         "resume_from_checkpoint",
                         "profiler",
                         "benchmark",
                         "deterministic",
                         "reload_dataloaders_every_n_epochs",
                         "reload_dataloaders_every_epoch",
                         "auto_lr_find",
                         "replace_sampler_ddp",
                         "detect_anomaly",
                         "auto_scale_batch_size",
                         "prepare_data_per_node",
                         "plugins",
                         "amp_backend",
                         "amp_level",
                         "move_metrics_to_cpu",
                         "multiple_trainloader_mode",
                         "stochastic_weight_avg",
                         "terminate_on_nan"};

/// `inspect.signature(lightning.Trainer)` of 2.6.
const Names kLightning2{"accelerator",
                        "strategy",
                        "devices",
                        "num_nodes",
                        "precision",
                        "logger",
                        "callbacks",
                        "fast_dev_run",
                        "max_epochs",
                        "min_epochs",
                        "max_steps",
                        "min_steps",
                        "max_time",
                        "limit_train_batches",
                        "limit_val_batches",
                        "limit_test_batches",
                        "limit_predict_batches",
                        "overfit_batches",
                        "val_check_interval",
                        "check_val_every_n_epoch",
                        "num_sanity_val_steps",
                        "log_every_n_steps",
                        "enable_checkpointing",
                        "enable_progress_bar",
                        "enable_model_summary",
                        "accumulate_grad_batches",
                        "gradient_clip_val",
                        "gradient_clip_algorithm",
                        "deterministic",
                        "benchmark",
                        "inference_mode",
                        "use_distributed_sampler",
                        "profiler",
                        "detect_anomaly",
                        "barebones",
                        "plugins",
                        "sync_batchnorm",
                        "reload_dataloaders_every_n_epochs",
                        "default_root_dir",
                        "enable_autolog_hparams",
                        "model_registry"};

struct Documented {
  bool in_15, in_2, works;
  std::string harmless;
};

/// The table of docs/trainer_arguments.md.
std::map<std::string, Documented> documented() {
  std::ifstream file(CXTRAIN_SOURCE_DIR "/docs/trainer_arguments.md");
  REQUIRE(file);
  const std::regex row(
      R"(\| `(\w+)` \| *([^|]*?) *\| *([^|]*?) *\| (works|refused)(?: \(`([^`]+)`\))? \|.*)");
  std::map<std::string, Documented> table;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (!std::regex_match(line, match, row)) continue;
    table[match[1]] = {match[2] == "yes", match[3] == "yes", match[4] == "works", match[5]};
  }
  return table;
}

std::vector<Problem> argument_problems(const std::vector<const char*>& args) {
  return read_command_line(args, [](const std::string&) { return std::nullopt; }).problems;
}

}  // namespace

TEST_CASE("the documentation lists every argument of both versions", "[cli]") {
  Names in_15, in_2;
  for (const auto& [name, entry] : documented()) {
    if (entry.in_15) in_15.insert(name);
    if (entry.in_2) in_2.insert(name);
  }
  CHECK(in_15 == kLightning15);
  CHECK(in_2 == kLightning2);
}

TEST_CASE("every argument of Lightning's Trainer works or is refused, as documented", "[cli]") {
  for (const auto& [name, entry] : documented()) {
    INFO(name);
    const OptionEntry* option = find_option(name);
    const UnsupportedArgument* unsupported = find_unsupported_argument(name);
    CHECK((option != nullptr) == entry.works);
    CHECK((unsupported != nullptr) == !entry.works);
    if (option) CHECK(option->key == "trainer." + name);
    if (unsupported) CHECK(unsupported->harmless == entry.harmless);
  }
}

TEST_CASE("every option of the trainer is documented", "[cli]") {
  std::ifstream file(CXTRAIN_SOURCE_DIR "/docs/trainer_arguments.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const OptionEntry& entry : option_table()) {
    if (!entry.key.starts_with("trainer.")) continue;
    CHECK_THAT(text, test::contains("`" + entry.key.substr(8) + "`"));
  }
}

TEST_CASE("an argument that only Lightning has is refused with what to use instead", "[cli]") {
  for (const UnsupportedArgument& argument : unsupported_arguments()) {
    const std::string name = "--" + std::string(argument.name);
    INFO(name);
    const auto problems = argument_problems({name.c_str(), "something"});
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].option == name);
    CHECK(problems[0].code == MessageCode::unsupported_option);
    CHECK(problems[0].hint == argument.instead);
    CHECK(argument_problems({name.c_str(), "null"}).empty());
    if (!argument.harmless.empty()) {
      CHECK(argument_problems({name.c_str(), std::string(argument.harmless).c_str()}).empty());
    }
    CHECK(find_option(argument.name) == nullptr);
  }
  CHECK(argument_problems({"--trainer.plugins=x"}).at(0).option == "--trainer.plugins");
  CHECK_THAT(argument_problems({"--plugins"}).at(0).hint, test::contains("--plugin FILE"));
}

TEST_CASE("what a file of Lightning's asks for in vain is refused by line", "[cli]") {
  const char* yaml =
      "seed_everything: 7\n"
      "trainer:\n"
      "  model_registry: null\n"
      "  plugins: null\n"
      "  callbacks:\n"
      "    - class_path: Z\n"
      "  max_epochs: 3\n"
      "  precision: null\n"
      "  logger:\n"
      "    class_path: X\n"
      "  plugins.class_path: Y\n";
  const auto parsed = read_command_line(std::vector{"--config", "l.yaml"},
                                        [&](const std::string&) { return std::optional(yaml); });
  std::string found;
  for (const Problem& problem : parsed.problems) found += problem.option + " (" + problem.hint + ")\n";
  CHECK_THAT(found, test::contains("line 10") && test::contains("trainer.logger.class_path") &&
                        test::contains("l.yaml") && test::contains("line 11") &&
                        test::contains("trainer.plugins.class_path") && test::contains("l.yaml"));
  CHECK_THAT(found, test::contains("--callbacks") && test::contains("line 5") && test::contains("l.yaml") &&
                        test::contains("trainer.callbacks"));
  CHECK(parsed.problems.size() == 3);
  CHECK(parsed.options.seed == 7);
  CHECK(parsed.options.trainer.max_epochs == 3);
}
