#include "cxtrain/cli/command_line.h"

#include <unistd.h>

#include <map>
#include <sstream>
#include "support/catch.h"
#include "support/error_text.h"
#include "support/skip.h"
#include "support/temp_dir.h"

#include "cxtrain/base/error.h"

using namespace cxtrain;

namespace {

using Files = std::map<std::string, std::string>;
using GivenArguments = std::map<std::string, std::string>;

ParsedCommandLine parse(const std::vector<const char*>& args, const Files& files = {}) {
  return parse_command_line(args, [&](const std::string& path) -> std::optional<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? std::nullopt : std::optional(file->second);
  });
}

std::vector<Problem> problems_of(const std::vector<const char*>& args, const Files& files = {}) {
  try {
    parse(args, files);
  } catch (const ConfigError& error) {
    CHECK(error.code() == ExitCode::refused);
    return error.problems();
  }
  return {};
}

/// The one problem, as the program prints it.
std::string problem_of(const std::vector<const char*>& args, const Files& files = {}) {
  const std::vector<Problem> problems = problems_of(args, files);
  REQUIRE(problems.size() == 1);
  return with_code(to_line(problems[0]), problems[0].code);
}

}  // namespace

TEST_CASE("nothing at all means fit with the defaults", "[cli]") { CHECK(parse({}).options == Options{}); }

TEST_CASE("files and the command line win over the defaults of a program", "[cli]") {
  Options defaults;
  defaults.trainer.devices = 4;
  defaults.trainer.max_epochs = 10;
  defaults.data.batch_size = 8;
  const auto read = [&](const std::vector<const char*>& args) {
    return read_command_line(
               args, [](const std::string&) { return std::optional<std::string>("max_epochs: 5"); }, defaults)
        .options;
  };
  CHECK(read({}) == defaults);
  CHECK(read({"--config", "f"}).trainer.max_epochs == 5);
  const Options options = read({"--config", "f", "--max_epochs", "3", "--devices", "0,2"});
  CHECK(options.trainer.max_epochs == 3);
  CHECK(options.trainer.devices == "0,2");
  CHECK(options.data.batch_size == 8);
}

TEST_CASE("a request for devices is a number or a text", "[cli]") {
  CHECK(Devices(4) == Devices("4"));
  CHECK(parse({"--devices", "4"}).options.trainer.devices == Devices(4));
  CHECK(TrainerOptions{.devices = -1}.devices->text() == "-1");
}

TEST_CASE("values with and without an equals sign, hyphens and underscores, with and without trainer.",
          "[cli]") {
  for (const std::vector<const char*>& args : {std::vector{"--max_epochs", "3"},
                                               {"--max-epochs=3"},
                                               {"--trainer.max_epochs", "3"},
                                               {"fit", "--trainer.max-epochs=3"}}) {
    CHECK(parse(args).options.trainer.max_epochs == 3);
  }
}

TEST_CASE("options reach their members", "[cli]") {
  const Options options = parse({"validate",
                                 "--gpus",
                                 "-1",
                                 "--num_nodes",
                                 "2",
                                 "--strategy=ddp",
                                 "--precision",
                                 "16",
                                 "--max_time",
                                 "00:01:00:00",
                                 "--limit_train_batches",
                                 "10",
                                 "--limit_val_batches",
                                 "0.5",
                                 "--gradient_clip_val",
                                 "1e-1",
                                 "--seed",
                                 "18446744073709551615",
                                 "--data.path",
                                 "a b.txt",
                                 "--data.batch_size",
                                 "32",
                                 "--strategy.bucket_bytes",
                                 "1000",
                                 "--trainer.strategy.overlap",
                                 "false",
                                 "--ddp.shard_optimizer",
                                 "--callbacks.early_stopping_monitor",
                                 "val_loss",
                                 "--plugin",
                                 "a.so",
                                 "--plugin",
                                 "b.so",
                                 "--timeout_seconds",
                                 "12.5"})
                              .options;
  CHECK(options.subcommand == "validate");
  CHECK(options.trainer.gpus == "-1");
  CHECK(options.trainer.num_nodes == 2);
  CHECK(options.trainer.strategy == "ddp");
  CHECK(options.trainer.precision == "16");
  CHECK(options.trainer.max_time == std::chrono::hours(1));
  CHECK(options.trainer.limit_train_batches == BatchLimit{std::int64_t{10}});
  CHECK(options.trainer.limit_val_batches == BatchLimit{0.5});
  CHECK(options.trainer.gradient_clip_val == 0.1);
  CHECK(options.seed == 18446744073709551615ULL);
  CHECK(options.data.path == "a b.txt");
  CHECK(options.data.batch_size == 32);
  CHECK(options.data.args.empty());
  CHECK(options.strategy.args == GivenArguments{{"bucket_bytes", "1000"}, {"overlap", "false"}});
  CHECK(options.strategy.ddp_args == GivenArguments{{"shard_optimizer", "true"}});
  CHECK((options.callbacks == std::vector<NamedOptions>{{"early_stopping", {{"monitor", "val_loss"}}}}));
  CHECK(options.plugins == std::vector<std::string>{"a.so", "b.so"});
  CHECK(options.timeout_seconds == 12.5);
}

TEST_CASE("switches need no value", "[cli]") {
  CHECK(parse({"--deterministic"}).options.trainer.deterministic.on);
  CHECK(parse({"--deterministic", "--max_epochs", "3"}).options.trainer.max_epochs == 3);
  CHECK_FALSE(parse({"--logger", "false"}).options.trainer.logger);
  CHECK_FALSE(parse({"--logger=off"}).options.trainer.logger);
  CHECK(parse({"--fast_dev_run"}).options.trainer.fast_dev_run == 1);
  CHECK(parse({"--fast_dev_run", "7"}).options.trainer.fast_dev_run == 7);
  CHECK(parse({"--fast_dev_run=true"}).options.trainer.fast_dev_run == 1);
  const Options options = parse({"--json", "plan"}).options;
  CHECK(options.json);
  CHECK(options.subcommand == "plan");
}

TEST_CASE("components: a name and arguments that only they know", "[cli]") {
  const Options options = parse({"--model.n-layers", "6", "--model", "gpt", "--model.tied", "--optimizer",
                                 "adamw", "--optimizer.lr", "3e-4", "--lr_scheduler", "cosine",
                                 "--lr-scheduler.warmup", "-1", "--data", "text", "--data.context", "128"})
                              .options;
  CHECK(options.model == NamedOptions{"gpt", {{"n_layers", "6"}, {"tied", "true"}}});
  CHECK(options.optimizer == NamedOptions{"adamw", {{"lr", "3e-4"}}});
  CHECK(options.lr_scheduler == NamedOptions{"cosine", {{"warmup", "-1"}}});
  CHECK(options.data.name == "text");
  CHECK(options.data.args == std::map<std::string, std::string>{{"context", "128"}});
  CHECK(parse({"--model.name", "gpt"}).options.model.name == "gpt");
}

TEST_CASE("the strategy's arguments stand beside its name, under any of their names", "[cli]") {
  for (const std::vector<const char*>& args :
       {std::vector{"--strategy", "ddp", "--strategy.overlap"},
        {"--trainer.strategy", "ddp", "--trainer.strategy.overlap=true"},
        {"--strategy.name=ddp", "--strategy.overlap", "true"},
        {"--strategy.overlap=false", "--strategy.class_path=ddp", "--strategy.overlap=true"},
        {"--ddp.overlap=false", "--strategy.overlap=true", "--strategy=ddp"}}) {
    const Options options = parse(args).options;
    CHECK(options.trainer.strategy == "ddp");
    CHECK(options.strategy == StrategyOptions{.args = {{"overlap", "true"}}});
  }
  CHECK(parse({"--strategy.overlap=true", "--ddp.overlap=false"}).options.strategy ==
        StrategyOptions{.ddp_args = {{"overlap", "false"}}});
  CHECK(parse({"--ddp.overlap=true", "--strategy.overlap", "null"}).options.strategy == StrategyOptions{});
}

TEST_CASE("the strategy's arguments in files", "[cli]") {
  const Files files{
      {"both.yaml", "trainer: {strategy: ddp}\nstrategy: {overlap: true, bucket_bytes: 5}\n"},
      {"lightning.yaml",
       "trainer:\n  strategy:\n    class_path: ddp\n    init_args: {overlap: true, bucket_bytes: 5}\n"},
      {"named.yaml", "strategy: {name: ddp, overlap: true, bucket_bytes: 5}\n"},
      {"scalar.yaml", "strategy: ddp\nddp: {overlap: true, bucket_bytes: 5}\n"},
      {"unnamed.yaml", "strategy: {overlap: true}\n"},
      {"empty.yaml", "ddp:\n"},
      {"twice.yaml", "strategy: {overlap: true}\nddp: {overlap: true}\n"}};
  const GivenArguments five{{"overlap", "true"}, {"bucket_bytes", "5"}};
  for (const char* file : {"both.yaml", "lightning.yaml", "named.yaml"}) {
    INFO(file);
    const Options options = parse({"--config", file}, files).options;
    CHECK(options.trainer.strategy == "ddp");
    CHECK(options.strategy == StrategyOptions{.args = five});
  }
  CHECK(parse({"--config=scalar.yaml"}, files).options.trainer.strategy == "ddp");
  CHECK(parse({"--config=scalar.yaml"}, files).options.strategy == StrategyOptions{.ddp_args = five});
  CHECK(parse({"--config=empty.yaml"}, files).options == Options{});
  CHECK_THAT(problem_of({"--config=twice.yaml"}, files),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("line 2") &&
                 test::contains("twice.yaml") && test::contains("ddp.overlap"));

  // A later source wins, whichever name it uses.
  CHECK(parse({"--config=both.yaml", "--ddp.overlap=false"}, files).options.strategy ==
        StrategyOptions{.args = {{"bucket_bytes", "5"}}, .ddp_args = {{"overlap", "false"}}});
  CHECK(parse({"--config=scalar.yaml", "--strategy.overlap=false"}, files).options.strategy ==
        StrategyOptions{.args = {{"overlap", "false"}}, .ddp_args = {{"bucket_bytes", "5"}}});
  // Another strategy does not inherit them, unless they were meant for whichever runs.
  CHECK(parse({"--config=both.yaml", "--strategy=single"}, files).options.strategy == StrategyOptions{});
  CHECK(parse({"--config=both.yaml", "--strategy=null"}, files).options.strategy == StrategyOptions{});
  CHECK(parse({"--config=unnamed.yaml", "--strategy=ddp"}, files).options.strategy ==
        StrategyOptions{.args = {{"overlap", "true"}}});
}

TEST_CASE("files, later files and the command line, in this order", "[cli]") {
  const Files files{{"a.yaml", "trainer: {max_epochs: 1, max_steps: 10, precision: 16}\nseed: 1\n"},
                    {"b.yaml", "trainer:\n  max_epochs: 2\n  precision: bf16\n"}};
  const Options options =
      parse({"--max_epochs", "3", "--config", "a.yaml", "--config=b.yaml"}, files).options;
  CHECK(options.trainer.max_epochs == 3);
  CHECK(options.trainer.precision == "bf16");
  CHECK(options.trainer.max_steps == 10);
  CHECK(options.seed == 1);
}

TEST_CASE("null resets", "[cli]") {
  const Files files{
      {"a.yaml", "trainer: {max_epochs: 1, precision: 16, check_val_every_n_epoch: null}\nplugin: [a.so]\n"},
      {"b.yaml", "trainer:\n  precision: ~\nplugin: [b.so, c.so]\n"}};
  const Options options =
      parse({"--config", "a.yaml", "--config", "b.yaml", "--max_epochs", "null"}, files).options;
  CHECK_FALSE(options.trainer.max_epochs);
  CHECK_FALSE(options.trainer.precision);
  CHECK_FALSE(options.trainer.check_val_every_n_epoch);
  CHECK(options.plugins == std::vector<std::string>{"b.so", "c.so"});
}

TEST_CASE("another component does not inherit the arguments of the former one", "[cli]") {
  const Files files{{"gpt.yaml", "model: {layers: 4, name: gpt}\n"}};
  CHECK(parse({"--config", "gpt.yaml"}, files).options.model == NamedOptions{"gpt", {{"layers", "4"}}});
  CHECK(parse({"--config", "gpt.yaml", "--model", "gpt"}, files).options.model.args.size() == 1);
  CHECK(parse({"--config", "gpt.yaml", "--model", "mnist"}, files).options.model ==
        NamedOptions{"mnist", {}});
  CHECK(parse({"--config", "gpt.yaml", "--model.layers", "null"}, files).options.model ==
        NamedOptions{"gpt", {}});
  CHECK(parse({"--config", "gpt.yaml", "--model", "null"}, files).options.model ==
        NamedOptions{"digits", {}});
}

TEST_CASE("help, version and print_config", "[cli]") {
  CHECK(parse({"--print_config"}).print_config);
  CHECK(parse({"--version", "--nonsense"}).version);
  CHECK(parse({"plan", "-h"}).help == HelpAsked::brief);
  CHECK(parse({"plan", "-h", "--help", "--nonsense"}).help == HelpAsked::full);
  CHECK(parse({"help", "max_epochs"}).phrase == "max_epochs");
  CHECK(parse({"help", "--max_epochs"}).phrase == "--max_epochs");
  CHECK(parse({"help", "fit"}).phrase == "fit");
  CHECK_THAT(problem_of({"help", "a", "b"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                                 test::contains("b:") && test::contains("--key"));
}

TEST_CASE("plan's and info's own options", "[cli]") {
  const Options plan =
      parse({"plan", "--hardware", "hw.json", "--ranks", "8", "--ranks-per-node", "4"}).options;
  CHECK(plan.hardware_file == "hw.json");
  CHECK(plan.plan_ranks == 8);
  CHECK(plan.plan_ranks_per_node == 4);
  CHECK(parse({"info", "--hardware", "--json"}).options.show_hardware);
  CHECK_THAT(problem_of({"plan", "--hardware"}), test::contains(test::code(MessageCode::missing_value)) &&
                                                     test::contains("--hardware:") &&
                                                     test::contains("--hardware=FILE)"));
  CHECK_THAT(problem_of({"info", "--hardware", "x"}), test::contains(test::code(MessageCode::invalid_file)) &&
                                                          test::contains("--hardware:") &&
                                                          test::contains("info"));
  CHECK_THAT(problem_of({"fit", "--ranks", "2"}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("--ranks:"));
}

TEST_CASE("what does not exist is refused with the nearest name", "[cli]") {
  CHECK_THAT(problem_of({"--max_epoch", "3"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                                   test::contains("--max_epoch:") &&
                                                   test::contains("--max_epochs"));
  CHECK_THAT(problem_of({"--max_epoch"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                              test::contains("--max_epoch:") &&
                                              test::contains("--max_epochs"));
  CHECK_THAT(problem_of({"--trainer.max-epocs=3"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                                        test::contains("--trainer.max-epocs:") &&
                                                        test::contains("--trainer.max_epochs"));
  CHECK_THAT(problem_of({"--batch_size", "8"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                                    test::contains("--batch_size:") &&
                                                    test::contains("--data.batch_size"));
  CHECK_THAT(problem_of({"--lr", "0.1"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                              test::contains("--lr:") && test::contains("--optimizer.lr"));
  CHECK_THAT(problem_of({"--hiden", "9"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                               test::contains("--hiden:") && test::contains("`help`") &&
                                               test::contains("--model.hiden"));
  CHECK_THAT(problem_of({"--trainer.devices.on_each_node", "0"}),
             test::contains(test::code(MessageCode::unknown_option)) &&
                 test::contains("--trainer.devices.on_each_node:"));
  CHECK_THAT(problem_of({"--nonsense.at_all", "last"}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("--nonsense.at_all:"));
  CHECK_THAT(problem_of({"paln"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                       test::contains("paln:") && test::contains("plan"));
  CHECK_THAT(problem_of({"nurse"}), test::contains(test::code(MessageCode::unknown_option)) &&
                                        test::contains("nurse: ") && test::contains("fit, validate, test, "));
  CHECK_THAT(problem_of({"fit", "more"}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("more:"));
  CHECK_THAT(problem_of({"-np", "--seed=1"}), test::contains("two hyphens"));
}

TEST_CASE("values that do not fit are quoted", "[cli]") {
  CHECK_THAT(problem_of({"--max_epochs", "many"}), test::contains(test::code(MessageCode::invalid_value)) &&
                                                       test::contains("--max_epochs:") &&
                                                       test::contains("'many'"));
  CHECK_THAT(problem_of({"--num_nodes", "99999999999"}),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("--num_nodes:") &&
                 test::contains("'99999999999'"));
  CHECK_THAT(problem_of({"--seed", "-1"}), test::contains(test::code(MessageCode::invalid_value)) &&
                                               test::contains("--seed:") && test::contains("'-1'"));
  CHECK_THAT(problem_of({"--logger", "perhaps"}), test::contains(test::code(MessageCode::invalid_value)) &&
                                                      test::contains("--logger:") &&
                                                      test::contains("'perhaps'"));
  CHECK_THAT(problem_of({"--gradient_clip_val=x"}), test::contains(test::code(MessageCode::invalid_value)) &&
                                                        test::contains("--gradient_clip_val:") &&
                                                        test::contains("'x'"));
  CHECK_THAT(problem_of({"--limit_val_batches", "-1"}), test::contains("'-1' is negative"));
  CHECK_THAT(problem_of({"--max_epochs"}), test::contains(test::code(MessageCode::missing_value)) &&
                                               test::contains("--max_epochs:") &&
                                               test::contains("--max_epochs=N)"));
  CHECK_THAT(problem_of({"--max_epochs", "--logger"}),
             test::contains(test::code(MessageCode::missing_value)) && test::contains("--max_epochs:") &&
                 test::contains("--max_epochs=N)"));
  CHECK_THAT(problem_of({"--config"}), test::contains(test::code(MessageCode::missing_value)) &&
                                           test::contains("--config:") && test::contains("--config=FILE)"));
  CHECK_THAT(problem_of({"--print_config=yes"}), test::contains(test::code(MessageCode::invalid_value)) &&
                                                     test::contains("--print_config:") &&
                                                     test::contains("'yes'"));
}

TEST_CASE("the last of several settings counts, under any of their names", "[cli]") {
  CHECK(parse({"--max_epochs", "3", "--trainer.max-epochs", "4"}).options.trainer.max_epochs == 4);
  CHECK(parse({"--max_epochs", "many", "--max_epochs=4"}).options.trainer.max_epochs == 4);
  CHECK(parse({"--max_epochs", "3", "--max_epochs", "null"}).options.trainer.max_epochs == std::nullopt);
  CHECK(parse({"--model", "a", "--model.name", "b"}).options.model.name == "b");
  CHECK(parse({"--model.layers", "1", "--model.layers", "2"}).options.model.args.at("layers") == "2");
  CHECK(
      parse({"--weights_summary", "null", "--weights_summary", "top"}).options.trainer.enable_model_summary);
  CHECK(parse({"--plugin", "a", "--plugin", "b"}).options.plugins.size() == 2);
}

TEST_CASE("a file that says two things is refused", "[cli]") {
  CHECK_THAT(problem_of({"--config", "a.yaml"}, {{"a.yaml", "seed: 1\nseed: 2\n"}}),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("line 2") &&
                 test::contains("a.yaml"));
}

TEST_CASE("whether somebody chose the model is known", "[cli]") {
  CHECK_FALSE(parse({"--model.layers", "1"}).model_given);
  CHECK(parse({"--model", "digits"}).model_given);
  CHECK_FALSE(parse({"--model", "digits", "--model", "null"}).model_given);
  CHECK(parse({"--config", "a.yaml"}, {{"a.yaml", "model: {class_path: gpt}"}}).model_given);
}

TEST_CASE("forgotten hyphens", "[cli]") {
  CHECK_THAT(problem_of({"max_epochs=3"}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("--max_epochs=3?)"));
  CHECK_THAT(problem_of({"fit", "max-epochs", "3"}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("max-epochs:") &&
                 test::contains("--max-epochs"));
  CHECK_THAT(problem_of({"model.hidden=3"}),
             test::contains(test::code(MessageCode::unknown_option)) && test::contains("--model.hidden=3?)"));
}

TEST_CASE("a file that cannot be read says why", "[cli]") {
  const auto problems = read_command_line(std::vector{"--config", "/dev/zero"}, read_text_file).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].code == MessageCode::file_failed);
  CHECK_THAT(problems[0].message, test::contains("device") && test::contains("'/dev/zero'"));
}

TEST_CASE("another user's file names no plugins", "[cli]") {
  if (geteuid() != 0) return test::skip("only root can give a file to another user");
  const test::TempDir dir;
  const std::string file = dir.write("c.yaml", "plugin: [/x/evil.so]\nseed: 3\n");
  const auto read = [&] { return read_command_line(std::vector{"--config", file.c_str()}, read_text_file); };
  CHECK(read().problems.empty());
  REQUIRE(chown(file.c_str(), 54321, 54321) == 0);
  const auto problems = read().problems;
  REQUIRE(problems.size() == 1);
  CHECK(read().options.plugins.empty());  // or the code would run although it is refused
  CHECK(read().options.seed == 3);
  CHECK(problems[0].code == MessageCode::conflicting_options);
  dir.write("c.yaml", "seed: 3\n");
  CHECK(read().problems.empty());
}

TEST_CASE("very many wrong keys are answered at once", "[cli]") {
  std::vector<std::string> words;
  for (int i = 0; i < 60'000; ++i) words.push_back("--wrong" + std::to_string(i) + "=1");
  std::vector<const char*> args;
  for (const std::string& word : words) args.push_back(word.c_str());
  CHECK(problems_of(args).size() == 60'000);
}

TEST_CASE("YAML files that cannot be used are refused by file and line", "[cli]") {
  CHECK_THAT(problem_of({"--config", "no.yaml"}), test::contains(test::code(MessageCode::invalid_file)) &&
                                                      test::contains("--config:") &&
                                                      test::contains("no.yaml"));
  CHECK_THAT(problem_of({"--config", "a.yaml"}, {{"a.yaml", "seed: 1\ntrainer: [1, 2\n"}}),
             test::contains("a.yaml line") && test::contains("no valid YAML"));
  CHECK_THAT(problem_of({"--config", "a.yaml"}, {{"a.yaml", "- 1\n- 2\n"}}),
             test::contains(test::code(MessageCode::invalid_file)));
  CHECK_THAT(problem_of({"--config", "a.yaml"}, {{"a.yaml", "trainer:\n  max_epoch: 3\n"}}),
             test::contains(test::code(MessageCode::unknown_option)) &&
                 test::contains("--trainer.max_epochs") && test::contains("line 2") &&
                 test::contains("a.yaml"));
  CHECK_THAT(problem_of({"--config", "a.yaml"}, {{"a.yaml", "\n\nseed: x\n"}}),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("'x'") &&
                 test::contains("line 3") && test::contains("a.yaml"));
}

TEST_CASE("YAML that is empty or has empty sections changes nothing", "[cli]") {
  CHECK(parse({"--config", "a.yaml"}, {{"a.yaml", ""}}).options == Options{});
  CHECK(parse({"--config", "a.yaml"}, {{"a.yaml", "# nothing\ntrainer:\n  # max_epochs: 3\nmodel:\n"}})
            .options == Options{});
}

TEST_CASE("all problems at once", "[cli]") {
  const auto problems =
      problems_of({"--max_epoch", "3", "--config", "no.yaml", "--num_nodes", "two", "--precision"}, {});
  CHECK(problems.size() == 4);
}
