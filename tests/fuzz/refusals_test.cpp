#include <sys/stat.h>

#include <filesystem>

#include "fuzz/fuzz.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

// Inputs that were once accepted in silence, hung, crashed, or were refused in words that help nobody. They
// run in forks, as the fuzz tests do, since there are many of them.
namespace cxtrain::test {
namespace {

struct Refusal {
  std::vector<std::string> arguments;
  std::string says;
  std::optional<MessageCode> reason = {};
};

void check_refusals(const std::vector<Refusal>& refusals) {
  for (const Refusal& row : refusals) {
    for (const bool plan : {true, false}) {
      const TempDir dir;
      std::vector<std::string> arguments = row.arguments;
      if (plan) arguments.insert(arguments.begin(), "plan");
      arguments.push_back("--default_root_dir=" + dir.path());
      const ForkedResult result = check_case(arguments);
      CAPTURE(plan, row.arguments, result.output, result.errors);
      CHECK(result.status == 2);
      CHECK_THAT(result.output + result.errors, contains(row.says));
      if (row.reason) CHECK_THAT(result.output + result.errors, contains(code(*row.reason)));
      CHECK(std::filesystem::is_empty(dir.path()));  // before a run gets its folder
    }
  }
}

TEST_CASE("numbers that cannot train are refused, by plan as by fit") {
  std::vector<Refusal> refusals;
  for (const char* wrong : {"nan", "inf", "-inf", "-1"}) {
    refusals.push_back({{"--model.lr", wrong}, "model.lr: '" + std::string(wrong) + "' is"});
    refusals.push_back({{"--optimizer.lr", wrong}, "optimizer.lr: '" + std::string(wrong) + "' is"});
    refusals.push_back({{"--optimizer=sgd", "--optimizer.momentum", wrong}, "optimizer.momentum"});
  }
  for (const char* wrong : {"1", "2", "7", "65536", "nan", "-inf"}) {
    refusals.push_back({{"--optimizer.beta1", wrong}, "optimizer.beta1"});
    refusals.push_back({{"--optimizer=adamw", "--optimizer.beta2", wrong}, "optimizer.beta2"});
  }
  for (const char* wrong : {"0", "nan"}) refusals.push_back({{"--optimizer.eps", wrong}, "optimizer.eps"});
  for (const char* wrong : {"nan", "inf"})
    refusals.push_back({{"--optimizer.weight_decay", wrong}, "weight_decay"});
  refusals.push_back({{"--lr_scheduler=step", "--lr_scheduler.gamma=nan"}, "lr_scheduler.gamma"});
  refusals.push_back({{"--lr_scheduler.warmup=-1"}, "lr_scheduler.warmup"});
  refusals.push_back({{"--model=gpt", "--model.warmup=-9223372036854775808"}, "model.warmup"});
  refusals.push_back({{"--model=gpt", "--model.temperature=inf"}, "model.temperature"});
  refusals.push_back({{"--model=gpt", "--model.sample_bytes=-1"}, "model.sample_bytes"});
  for (const char* wrong : {"-1", "nan", "x", "9223372036854775808"}) {
    for (const char* name : {"bucket_bytes", "first_bucket_bytes"}) {
      const std::string is = name + std::string("=") + wrong;
      refusals.push_back({{"--strategy=ddp", "--strategy." + is}, std::string("strategy.") + name + ": '"});
      refusals.push_back({{"--strategy=ddp", "--ddp." + is}, std::string("ddp.") + name + ": '"});
    }
    refusals.push_back({{"--strategy=ddp", std::string("--strategy.overlap=") + wrong},
                        "strategy.overlap: '" + std::string(wrong) + "'"});
  }
  refusals.push_back({{"--model=simple", "--model.out=0"}, "model.out"});
  refusals.push_back({{"--model=simple", "--model.samples=-1"}, "model.samples"});
  check_refusals(refusals);
}

TEST_CASE("names and arguments that do not exist are refused, by plan as by fit") {
  check_refusals(
      {{{"--model=nope"}, "`nope`", MessageCode::unknown_name},
       {{"--model=gpt", "--model.layer=3"}, "--model.layers?", MessageCode::unknown_option},
       {{"--model.weigths=x"}, "--model.weights?", MessageCode::unknown_option},
       {{"--model.weights=/nope"}, "'/nope'", MessageCode::checkpoint_missing},
       {{"--model.weights=" + std::string(5000, 'x')}, "model.weights: ", MessageCode::file_failed},
       {{"--model.weights=/dev/null"}, "'/dev/null'", MessageCode::bad_checkpoint},
       {{"--model.weights=/nope", "--model.weights_map=a"},
        "model.weights_map: 'a'",
        MessageCode::invalid_value},
       {{"--model.weights_map=a="}, "model.weights_map: ", MessageCode::conflicting_options},
       {{"--data=nope"}, "`nope`", MessageCode::unknown_name},
       {{"--data.pth=x"}, "--data.path?", MessageCode::unknown_option},
       {{"--plugin=/nope"}, "/nope", MessageCode::plugin_failed},
       {{"--optimizer=x"}, "optimizer: ", MessageCode::unknown_name},
       {{"--lr_scheduler=x"}, "lr_scheduler: ", MessageCode::unknown_name},
       {{"--optimizer.lrr=3"}, "--optimizer.lr?", MessageCode::unknown_option},
       {{"--strategy=DDP"}, "ddp?", MessageCode::unknown_name},
       {{"--strategy=ddp", "--strategy.bucket_byte=3"},
        "--strategy.bucket_bytes?",
        MessageCode::unknown_option},
       {{"--strategy=ddp", "--ddp.bucket_byte=3"}, "--ddp.bucket_bytes?", MessageCode::unknown_option},
       {{"--strategy=single", "--ddp.bucket_byte=3"}, "ddp.bucket_byte: ", MessageCode::unknown_option},
       {{"--strategy=single", "--strategy.bucket_bytes=3"},
        "strategy.bucket_bytes: ",
        MessageCode::unknown_option},
       {{"--accelerator=cpu", "--strategy.bucket_bytes=3"}, "ddp, ddp_spawn", MessageCode::unknown_option},
       {{"--gpus=,"}, "gpus: ", MessageCode::invalid_value},
       {{"max_epochs=3"}, "--max_epochs=3?", MessageCode::unknown_option}});
}

TEST_CASE("sizes that do not fit name their option") {
  std::vector<Refusal> refusals;
  for (const char* size : {"2147483648", "1000000000000", "9223372036854775807"}) {
    const std::string is = std::string("=") + size;
    refusals.push_back({{"--data.batch_size" + is}, "data.batch_size"});
    refusals.push_back({{"--data.num_workers" + is}, "data.num_workers"});
    refusals.push_back({{"--devices_per_rank" + is}, "devices_per_rank"});
    refusals.push_back({{"--devices" + is}, "devices"});
  }
  refusals.push_back({{"--devices_per_rank=2147483647"}, "devices_per_rank"});
  refusals.push_back({{"--data.num_workers=100000"}, "data.num_workers"});
  refusals.push_back({{"--model=gpt", "--model.layers=1000000000000"}, "model.layers"});
  refusals.push_back({{"--model=gpt", "--model.sample_bytes=9223372036854775807"}, "model.sample_bytes"});
  // What only building the model tells.
  for (const char* size : {"2147483647", "1000000000000", "9223372036854775807"}) {
    const std::string is = std::string("=") + size;
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"--model.hidden" + is},
                                               {"--model=simple", "--model.in" + is},
                                               {"--model=simple", "--model.samples" + is},
                                               {"--model=gpt", "--model.width" + is, "--model.heads=1"},
                                               {"--model=gpt", "--model.context" + is},
                                               {"--model=seq2seq", "--model.width" + is}}) {
      refusals.push_back({arguments, "model."});
    }
  }
  refusals.push_back({{"--model=gpt", "--model.width=7", "--model.heads=2"}, "model.heads: 2"});
  check_refusals(refusals);
}

TEST_CASE("plan builds a model for another machine without memory") {
  const TempDir dir;
  const std::string file = dir.write("hardware.json", R"({"nodes":[{"hostname":"n1","cores":4,"gpus":[]}]})");
  // 300 GB of parameters.
  const ForkedResult large = check_case({"plan", "--hardware", file, "--model=gpt", "--model.width=8192",
                                         "--model.layers=96", "--model.heads=64"});
  CAPTURE(large.errors);
  CHECK(large.status == 0);
  const ForkedResult odd =
      check_case({"plan", "--hardware", file, "--model=gpt", "--model.width=7", "--model.heads=2"});
  CHECK(odd.status == 2);
}

TEST_CASE("mistakes of all kinds are told together") {
  const ForkedResult result =
      fork_program({"--max_epoch=3", "--optimizer.lrr=3", "--model=nope", "--precision=17", "--gpus=,"});
  CHECK(result.status == 2);
  for (const char* part : {"--max_epochs", "--optimizer.lr?", "nope", "17", "gpus: "})
    CHECK(result.errors.find(part) != std::string::npos);
}

TEST_CASE("files that are none are refused at once") {
  const TempDir dir;
  REQUIRE(mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  for (const std::string& file :
       {dir.file("pipe"), std::string("/dev/zero"), std::string("/dev/full"), dir.path()}) {
    for (const char* option : {"--config", "--hardware", "--data.path", "--model.weights"}) {
      const std::string path = file;
      std::vector<std::string> arguments{option, path};
      if (std::string(option) == "--hardware") arguments.insert(arguments.begin(), "plan");
      CHECK(check_case(arguments).status == 2);
    }
    for (const char* model : {"gpt", "seq2seq"})
      CHECK(check_case({"--model", model, "--data.path", file}).status == 2);
  }
  CHECK(check_case({"plan", "--config", dir.write("empty.yaml", "")}).status == 0);
}

TEST_CASE("a file of ten megabytes of wrong keys is answered at once") {
  const TempDir dir;
  std::string wrong;
  while (wrong.size() < 10'000'000) wrong += "wrong_key_" + std::to_string(wrong.size()) + ": 1\n";
  CHECK(check_case({"plan", "--config", dir.write("c.yaml", wrong)}).status == 2);
  CHECK(check_case({"plan", "--config", dir.write("c.yaml", wrong.substr(0, 1'000'000))}).status == 2);
  CHECK(check_case({"plan", "--config", dir.write("c.yaml", wrong.substr(0, 200'000))}).status == 2);
}

TEST_CASE("help and info list what there is; print_config has every argument") {
  const ForkedResult help = fork_program({"--model", "gpt", "--help"});
  CHECK(help.status == 0);
  for (const char* part : {"--max_epochs N", "--model.weights PATH", "\nModels (--model)\n",
                           "--model.layers N", "transformer blocks [4]", "\nOptimizers (--optimizer)\n",
                           "\nStrategies (--strategy)\n", "  ddp_spawn", "  cosine"})
    CHECK(help.output.find(part) != std::string::npos);
  CHECK(help.output.find("--model.hidden") == std::string::npos);
  const ForkedResult info = fork_program({"info"});
  for (const char* part : {"--model.hidden N", "--optimizer.beta1 X", "--lr_scheduler.milestones N,N"})
    CHECK(info.output.find(part) != std::string::npos);
  const TempDir dir;
  const ForkedResult first = fork_program({"--model=gpt", "--optimizer=sgd", "--print_config"});
  CHECK(first.output.find("\n  sample_bytes: 200\n") != std::string::npos);
  CHECK(first.output.find("\n  nesterov: false\n") != std::string::npos);
  const ForkedResult again = fork_program({"--config", dir.write("c.yaml", first.output), "--print_config"});
  CHECK(again.output == first.output);
}

TEST_CASE("print_config has the arguments of a strategy that is named, and those given of one that is not") {
  const TempDir dir;
  const auto config = [&](std::vector<std::string> arguments) {
    arguments.emplace_back("--print_config");
    const ForkedResult first = fork_program(arguments);
    CAPTURE(arguments, first.errors);
    CHECK(first.status == 0);
    const ForkedResult again =
        fork_program({"--config", dir.write("c.yaml", first.output), "--print_config"});
    CHECK(again.output == first.output);
    std::string text = first.output;
    const std::size_t others = text.find("\ncheckpoint:");  // between them
    REQUIRE(others != std::string::npos);
    text.erase(others, std::min(text.find("\nddp:", others), text.size() - 1) - others);
    return text.substr(std::min({text.find("\nstrategy:"), text.find("\nddp:"), text.size()}));
  };
  CHECK(config({"--strategy=ddp", "--strategy.overlap", "--ddp.bucket_bytes=1000"}) ==
        "\nstrategy:\n  broadcast_buffers: true\n  bucket_bytes: 1000\n  comm_hook: none\n  "
        "find_unused_parameters: false\n  "
        "first_bucket_bytes: 1048576\n  model_averaging_period: 0\n  model_averaging_start: 0\n  network: "
        "auto\n"
        "  outer_lr: 1\n  outer_momentum: 0\n  overlap: true\n  powersgd_rank: 1\n  powersgd_start: 1000\n  "
        "shard_optimizer: auto\n");
  CHECK(config({"--strategy=ddp_find_unused_parameters_true"}).find("find_unused_parameters: true\n") !=
        std::string::npos);
  CHECK(config({"--strategy.overlap"}) == "\nstrategy:\n  overlap: true\n");
  CHECK(config({"--strategy=single", "--ddp.overlap"}) == "\nddp:\n  overlap: true\n");
  CHECK(config({"--strategy=single"}).empty());
  CHECK(config({}).empty());
  const ForkedResult refused = fork_program({"--strategy.overlaps", "--print_config"});
  CHECK(refused.status == 2);
  CHECK(refused.errors.find("--strategy.overlap?") != std::string::npos);
}

TEST_CASE("help lists the arguments of a strategy that is named, info those of all") {
  const std::string argument = "--strategy.overlap BOOL|auto";
  CHECK(fork_program({"--help"}).output.find(argument) == std::string::npos);
  for (const char* strategy : {"ddp", "ddp_spawn", "ddp_find_unused_parameters_false"})
    CHECK(fork_program({"--strategy", strategy, "--help"}).output.find(argument) != std::string::npos);
  CHECK(fork_program({"info"}).output.find(argument) != std::string::npos);
}

TEST_CASE("an older name of an argument that the strategy lacks is ignored with a warning") {
  const ForkedResult plan = fork_program({"plan", "--accelerator=cpu", "--strategy=single", "--ddp.overlap"});
  CHECK(plan.status == 0);
  CHECK(plan.output.find("warning     --ddp.overlap: ") != std::string::npos);
}

}  // namespace
}  // namespace cxtrain::test
