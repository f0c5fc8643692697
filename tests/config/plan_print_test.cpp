#include <algorithm>
#include <nlohmann/json.hpp>
#include "support/catch.h"

#include "config/resolve_support.h"
#include "support/random_texts.h"

using namespace cxtrain;
using namespace cxtrain::testing;

TEST_CASE("a plan as JSON has the contract's shape", "[config]") {
  Options options;
  options.trainer.gpus = "0,2";
  options.trainer.precision = "16";
  options.trainer.benchmark = true;
  const std::string text = to_json(resolve(options, machine(4), {}));
  CHECK(text.find('\n') == std::string::npos);
  const auto expected =
      nlohmann::ordered_json::parse(R"({"accelerator":"gpu","strategy":"ddp","launcher":"subprocess",
    "world_size":2,"num_nodes":1,"devices":[0,2],
    "ranks":[{"rank":0,"node":0,"local_rank":0,"device":"cuda:0","gpu":0,"uuid":"GPU-0"},
             {"rank":1,"node":0,"local_rank":1,"device":"cuda:2","gpu":2,"uuid":"GPU-2"}],
    "precision":"16-mixed","amp_level":null,"benchmark":true,"deterministic":false,"log_gpu_memory":null,
    "accumulate_grad_batches":1,"sync_batchnorm":false,"warnings":[],"errors":[]})");
  CHECK(text == expected.dump());
}

TEST_CASE("a plan as JSON on the CPU and with errors", "[config]") {
  Options options;
  options.trainer.precision = "16";
  options.trainer.max_epochs = -7;
  const auto json = nlohmann::json::parse(to_json(resolve(options, machine(0), {})));
  CHECK(json["devices"] == nlohmann::json::array());
  CHECK(json["ranks"][0]["device"] == "cpu");
  CHECK(json["ranks"][0]["gpu"].is_null());
  CHECK(json["ranks"][0]["uuid"].is_null());
  CHECK(json["warnings"][0]["option"] == "precision");
  CHECK(json["warnings"][0].size() == 2);
  CHECK(json["errors"][0]["option"] == "max_epochs");
  CHECK(json["errors"][0]["hint"] == "-1 means no limit");
}

/// What a user may ask for: most of it can be done, some of it cannot.
Options random_request(test::RandomTexts& random) {
  const auto one_of = [&](std::vector<std::string> values) {
    return random.chance(12) ? random.text() : values[random.pick(values.size())];
  };
  Options options;
  TrainerOptions& trainer = options.trainer;
  trainer.accelerator = one_of({"auto", "cpu", "gpu"});
  if (random.chance(2)) trainer.devices = one_of({"auto", "1", "2", "4", "0,2", "3,1", "-1"});
  if (random.chance(2)) trainer.strategy = one_of({"auto", "single", "ddp", "dp", "ddp_spawn"});
  if (random.chance(2)) trainer.precision = one_of({"32", "16-mixed", "bf16-true", "64"});
  if (random.chance(4)) trainer.amp_level = one_of({"O0", "O1", "O2"});
  if (random.chance(4)) trainer.devices_per_rank = 2;
  if (random.chance(4)) trainer.float32_matmul_precision = static_cast<MatmulPrecision>(random.pick(3));
  trainer.channels_last = random.chance(4);
  if (random.chance(4)) trainer.log_gpu_memory = static_cast<GpuMemoryLog>(random.pick(2));
  if (random.chance(2)) trainer.benchmark = random.chance(2);
  if (random.chance(2))
    trainer.deterministic = random.chance(2) ? Deterministic::warn() : Deterministic(true);
  trainer.accumulate_grad_batches = static_cast<std::int64_t>(random.pick(4));
  trainer.sync_batchnorm = random.chance(3);
  if (random.chance(4)) options.strategy.args = {{"bucket_bytes", one_of({"1000", "0"})}};
  if (random.chance(8)) options.strategy.args[random.text()] = random.text();
  return options;
}

nlohmann::json text_or_none(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

void check_problems(const nlohmann::json& json, const std::vector<Problem>& problems, bool with_hint) {
  REQUIRE(json.size() == problems.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    CHECK(json[i]["option"] == problems[i].option);
    CHECK(json[i]["message"] == problems[i].message);
    CHECK(json[i].contains("hint") == with_hint);
    if (with_hint) CHECK(json[i]["hint"] == problems[i].hint);
  }
}

TEST_CASE("any plan as JSON holds what the plan does", "[config]") {
  int good = 0, refused = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    test::RandomTexts random(seed);
    const Options options = random_request(random);
    const Hardware hardware = machine(static_cast<int>(random.pick(5)));
    const WorldFacts launched = random.chance(3) ? under_mpirun({2, 2}) : WorldFacts{};
    const Plan plan = resolve(options, hardware, launched);
    ++(plan.ok() ? good : refused);
    const std::string text = to_json(plan);
    CAPTURE(seed, text);
    const auto json = nlohmann::json::parse(text);
    CHECK(json["accelerator"] == plan.accelerator);
    CHECK(json["strategy"] == plan.strategy);
    CHECK(json["launcher"] == plan.launcher);
    CHECK(json["world_size"] == plan.world_size);
    CHECK(json["num_nodes"] == plan.num_nodes);
    CHECK(json["devices"] == nlohmann::json(plan.devices));
    CHECK(json["precision"] == plan.precision);
    CHECK(json["amp_level"] == text_or_none(plan.amp_level));
    CHECK(json["benchmark"] == plan.benchmark);
    CHECK(json["deterministic"] ==
          (plan.deterministic_warn_only ? nlohmann::json("warn") : nlohmann::json(plan.deterministic)));
    CHECK(json["log_gpu_memory"] ==
          text_or_none(std::string(plan.log_gpu_memory ? word_of(*plan.log_gpu_memory) : "")));
    CHECK(json["accumulate_grad_batches"] == plan.accumulate_grad_batches);
    CHECK(json["sync_batchnorm"] == plan.sync_batchnorm);
    CHECK(json.value("devices_per_rank", 1) == plan.devices_per_rank);
    CHECK(json.value("replicas", 1) == plan.replicas);
    CHECK(json.value("channels_last", false) == plan.channels_last);
    CHECK(json.value("float32_matmul_precision", "") ==
          std::string(plan.float32_matmul_precision ? word_of(*plan.float32_matmul_precision) : ""));
    REQUIRE(json["ranks"].size() == plan.ranks.size());
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      const RankPlan& rank = plan.ranks[r];
      const auto& written = json["ranks"][r];
      CHECK(written["rank"] == rank.rank);
      CHECK(written["node"] == rank.node);
      CHECK(written["local_rank"] == rank.local_rank);
      CHECK(written["device"] == rank.device);
      CHECK(written["gpu"] == (rank.gpu ? nlohmann::json(*rank.gpu) : nlohmann::json(nullptr)));
      CHECK(written["uuid"] == text_or_none(rank.uuid));
    }
    check_problems(json["warnings"], plan.warnings, false);
    check_problems(json["errors"], plan.errors, true);
  }
  CHECK(good > 50);
  CHECK(refused > 50);
}

TEST_CASE("text that is no UTF-8 does not break the JSON", "[config]") {
  Options options;
  options.trainer.precision = "\xff\xfe";
  CHECK(nlohmann::json::accept(to_json(resolve(options, machine(0), {}))));
}

TEST_CASE("a plan as a table", "[config]") {
  Options options;
  Hardware hardware = machine(8);
  hardware.env["CUDA_VISIBLE_DEVICES"] = "4,5,6,7";
  const std::string text = to_text(resolve(options, hardware, under_mpirun({4, 4})));
  CHECK(text ==
        "  strategy    ddp\n"
        "  world       8 ranks on 2 nodes, started by mpirun\n"
        "  devices     nodes 0-1: ranks 0-7 on cuda:0-3 (GPU 4-7 of the machine)\n"
        "  precision   32-true\n"
        "  switches    benchmark off, deterministic off, sync_batchnorm off\n");
  CHECK(devices_text(resolve(options, hardware, under_mpirun({4, 4}))) ==
        "nodes 0-1: ranks 0-7 on cuda:0-3 (GPU 4-7 of the machine)");
}

TEST_CASE("a table stays short for many ranks", "[config]") {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  CHECK(lines(to_text(resolve({}, machine(8), under_mpirun({8, 8, 8, 8, 8, 8, 8, 8})))) <= 10);
  const std::string uneven = to_text(resolve({}, machine(8), under_mpirun({8, 7, 8, 7, 8, 7, 8, 7})));
  CHECK(lines(uneven) <= 10);
  CHECK_THAT(uneven, test::contains("and nodes 4-7"));
}

TEST_CASE("a table shows warnings, errors and dp's replicas", "[config]") {
  Options options;
  options.trainer.strategy = "dp";
  options.trainer.devices = "2";
  options.trainer.accumulate_grad_batches = 4;
  const std::string text = to_text(resolve(options, machine(2), {}));
  CHECK_THAT(text,
             test::contains("rank 0 on cuda:0-1, 2 replicas\n") && test::contains("4 batches per step"));
  options.trainer.precision = "x";
  CHECK_THAT(to_text(resolve(options, machine(2), {})), test::contains("ERROR       --precision: 'x'"));
  const std::string shared = to_text(resolve({}, machine(2), under_mpirun({3})));
  CHECK_THAT(shared, test::contains("ranks 0-2 on cuda:0-1 in turns\n") &&
                         test::contains("warning     --devices: 3 ranks share"));
}

TEST_CASE("a table and the JSON tell what was asked for beyond the usual", "[config]") {
  Options options;
  options.trainer.devices = "2,0,1,3";
  options.trainer.devices_per_rank = 2;
  options.trainer.amp_level = "O2";
  options.trainer.float32_matmul_precision = MatmulPrecision::high;
  options.trainer.deterministic = Deterministic::warn();
  options.trainer.log_gpu_memory = GpuMemoryLog::min_max;
  options.trainer.profiler = Profiler::simple;
  options.strategy.args = {{"bucket_bytes", "1000"}, {"overlap", "true"}};
  const Plan plan = resolve(options, machine(4), {});
  CHECK(to_text(plan) ==
        "  strategy    ddp, bucket_bytes=1000, overlap=true\n"
        "  world       2 ranks on 1 node, started by this program under mpirun\n"
        "  devices     node 0: ranks 0-1 on cuda:2,0-1,3, 2 for each\n"
        "  precision   16-mixed (amp_level O2), float32 products high\n"
        "  switches    benchmark off, deterministic warn, sync_batchnorm off\n"
        "  logs        GPU memory, min_max\n"
        "  profiler    simple\n");
  const auto json = nlohmann::json::parse(to_json(plan));
  CHECK(json["devices_per_rank"] == 2);
  CHECK(json["ranks"][0]["device"] == "cuda:2");
  CHECK(json["ranks"][0]["devices"] == nlohmann::json{"cuda:2", "cuda:0"});
  CHECK(json["ranks"][1]["gpus"] == nlohmann::json{1, 3});
  CHECK(json["amp_level"] == "O2");
  CHECK(json["deterministic"] == "warn");
  CHECK(json["log_gpu_memory"] == "min_max");
  CHECK(json["profiler"] == "simple");
  CHECK(json["float32_matmul_precision"] == "high");
  CHECK(json["strategy_arguments"] == nlohmann::json{{"bucket_bytes", "1000"}, {"overlap", "true"}});
}
