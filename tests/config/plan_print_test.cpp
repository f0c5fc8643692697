#include <algorithm>
#include <nlohmann/json.hpp>
#include "support/catch.h"

#include "config/resolve_support.h"

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
}

TEST_CASE("a table stays short for many ranks", "[config]") {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  CHECK(lines(to_text(resolve({}, machine(8), under_mpirun({8, 8, 8, 8, 8, 8, 8, 8})))) <= 10);
  const std::string uneven = to_text(resolve({}, machine(8), under_mpirun({8, 7, 8, 7, 8, 7, 8, 7})));
  CHECK(lines(uneven) <= 10);
  CHECK_THAT(uneven, cxtrain::test::contains("and nodes 4-7"));
}

TEST_CASE("a table shows warnings, errors and dp's replicas", "[config]") {
  Options options;
  options.trainer.strategy = "dp";
  options.trainer.devices = "2";
  options.trainer.accumulate_grad_batches = 4;
  const std::string text = to_text(resolve(options, machine(2), {}));
  CHECK_THAT(text, cxtrain::test::contains("rank 0 on cuda:0-1, 2 replicas\n") &&
                       cxtrain::test::contains("4 batches per step"));
  options.trainer.precision = "x";
  CHECK_THAT(to_text(resolve(options, machine(2), {})),
             cxtrain::test::contains("ERROR       precision: 'x' is no precision"));
  const std::string shared = to_text(resolve({}, machine(2), under_mpirun({3})));
  CHECK_THAT(shared, cxtrain::test::contains("ranks 0-2 on cuda:0-1 in turns\n") &&
                         cxtrain::test::contains("warning     devices: 3 ranks share"));
}

TEST_CASE("a table and the JSON tell what was asked for beyond the usual", "[config]") {
  Options options;
  options.trainer.devices = "2,0,1,3";
  options.trainer.devices_per_rank = 2;
  options.trainer.amp_level = "O2";
  options.trainer.float32_matmul_precision = "high";
  options.trainer.deterministic = Deterministic::warn();
  options.trainer.log_gpu_memory = "min_max";
  options.strategy.args = {{"bucket_bytes", "1000"}, {"overlap", "true"}};
  const Plan plan = resolve(options, machine(4), {});
  CHECK(to_text(plan) ==
        "  strategy    ddp, bucket_bytes=1000, overlap=true\n"
        "  world       2 ranks on 1 node, started by this program under mpirun\n"
        "  devices     node 0: ranks 0-1 on cuda:2,0-1,3, 2 for each\n"
        "  precision   16-mixed (amp_level O2), float32 products high\n"
        "  switches    benchmark off, deterministic warn, sync_batchnorm off\n"
        "  logs        GPU memory, min_max\n");
  const auto json = nlohmann::json::parse(to_json(plan));
  CHECK(json["devices_per_rank"] == 2);
  CHECK(json["ranks"][0]["device"] == "cuda:2");
  CHECK(json["ranks"][0]["devices"] == nlohmann::json{"cuda:2", "cuda:0"});
  CHECK(json["ranks"][1]["gpus"] == nlohmann::json{1, 3});
  CHECK(json["amp_level"] == "O2");
  CHECK(json["deterministic"] == "warn");
  CHECK(json["log_gpu_memory"] == "min_max");
  CHECK(json["float32_matmul_precision"] == "high");
  CHECK(json["strategy_arguments"] == nlohmann::json{{"bucket_bytes", "1000"}, {"overlap", "true"}});
}
