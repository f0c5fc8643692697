#include "cxtrain/cli/commands.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include "support/catch.h"
#include "support/error_text.h"

#include "cxtrain/device/hardware.h"
#include "support/own_strategies.h"

using namespace cxtrain;
using Json = nlohmann::json;

namespace {

/// A file that goes with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::string name = std::filesystem::temp_directory_path() / "cxtrain_plan_XXXXXX";
    const int descriptor = mkstemp(name.data());
    REQUIRE(descriptor >= 0);
    close(descriptor);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr const char* kFourGpus =
    R"({"nodes":[{"hostname":"n1","cores":8,"gpus":[{"index":0},{"index":1},{"index":2},{"index":3,"uuid":"GPU-d"}]}],)"
    R"("env":{"CUDA_VISIBLE_DEVICES":"3,2"}})";

Json plan_json(Options options, int expected_status) {
  options.json = true;
  std::ostringstream out;
  CHECK(print_plan(make_plan(options, testing::own_strategies()), options, out) == expected_status);
  return Json::parse(out.str());
}

}  // namespace

TEST_CASE("plan: a hardware file and imagined ranks", "[cli]") {
  const TemporaryFile file(kFourGpus);
  Options options;
  options.hardware_file = file.path();
  options.plan_ranks = 4;
  options.plan_ranks_per_node = 2;
  const Json plan = plan_json(options, 0);
  CHECK(plan["launcher"] == "mpirun");
  CHECK(plan["strategy"] == "ddp");
  CHECK(plan["num_nodes"] == 2);
  CHECK(plan["ranks"][2]["node"] == 1);
  CHECK(plan["ranks"][2]["gpu"] == 3);
  CHECK(plan["ranks"][2]["uuid"] == "GPU-d");
}

TEST_CASE("plan: without ranks, as if started alone", "[cli]") {
  const TemporaryFile file(kFourGpus);
  Options options;
  options.hardware_file = file.path();
  options.trainer.devices = "2";
  CHECK(plan_json(options, 0)["launcher"] == "subprocess");
  std::ostringstream text;
  CHECK(print_plan(make_plan(options, testing::own_strategies()), options, text) == 0);
  CHECK_THAT(text.str(), test::contains("2 ranks") && test::contains("1 node"));
}

TEST_CASE("plan: errors keep the shape and end with status 2", "[cli]") {
  const TemporaryFile damaged("{");
  Options options;
  options.hardware_file = "no/such/file.json";
  options.trainer.strategy = "dpp";
  CHECK_THAT(plan_json(options, 2)["errors"][0]["message"].get<std::string>(),
             test::contains("No such file") && test::contains("'no/such/file.json'"));
  options.hardware_file = damaged.path();
  CHECK_THAT(plan_json(options, 2)["errors"][0]["message"].get<std::string>(), test::contains("JSON"));

  const TemporaryFile file(kFourGpus);
  options.hardware_file = file.path();
  KnownStrategies strategies = testing::own_strategies();
  strategies.erase("ddp_spawn");
  CHECK_THAT(make_plan(options, strategies).plan.errors.at(0).hint, test::contains("ddp"));
  options.trainer.strategy = "banana";
  CHECK_THAT(make_plan(options, strategies).plan.errors.at(0).hint,
             test::contains("ddp, dp, pipeline, single"));
  options.trainer.strategy.reset();
  options.plan_ranks_per_node = 2;
  CHECK(plan_json(options, 2)["errors"][0]["option"] == "ranks_per_node");
  options.plan_ranks = 0;
  CHECK(plan_json(options, 2)["errors"][0]["option"] == "ranks");
}

TEST_CASE("a refused command line and the plan's own errors are told together", "[cli]") {
  Options options;
  options.trainer.precision = "17";
  options.json = true;
  std::ostringstream out;
  CHECK(print_plan(make_plan(options, testing::own_strategies()), options, out,
                   {{"--bogus", "is wrong", ""}}) == 2);
  const Json errors = Json::parse(out.str())["errors"];
  REQUIRE(errors.size() == 2);
  CHECK(errors[0]["option"] == "--bogus");
  CHECK(errors[1]["option"] == "precision");
  options.json = false;
  CHECK_THROWS_WITH(
      print_plan(make_plan(options, testing::own_strategies()), options, out, {{"--bogus", "is wrong", ""}}),
      test::contains("--bogus") && test::contains("precision"));
}

TEST_CASE("plan: more ranks than any machine has", "[cli]") {
  Options options;
  options.plan_ranks = 2147483647;
  CHECK_THAT(make_plan(options, testing::own_strategies()).plan.errors.at(0).message,
             test::contains("100000"));
  options.plan_ranks = 4;
  options.plan_ranks_per_node = 2147483647;
  CHECK(make_plan(options, testing::own_strategies()).plan.errors.at(0).option == "ranks_per_node");
  options.plan_ranks_per_node.reset();
  options.plan_ranks = -2147483648;
  CHECK_THAT(make_plan(options, testing::own_strategies()).plan.errors.at(0).message, test::contains("1"));
  CHECK(make_plan(options, testing::own_strategies()).plan.errors.at(0).code == MessageCode::out_of_range);
  options.plan_ranks = 100'000;
  CHECK(make_plan(options, testing::own_strategies()).plan.ok());
}

TEST_CASE("info prints a hardware file that plan reads", "[cli]") {
  Options options;
  options.json = options.show_hardware = true;
  std::ostringstream out;
  CHECK(run_info(options, {}, {}, out) == 0);
  const Hardware hardware = parse_hardware(out.str(), "info");
  CHECK(hardware.nodes.size() == 1);
  CHECK(hardware.nodes[0].hostname == probe_hardware().nodes[0].hostname);
}

TEST_CASE("info tells versions and the machine", "[cli]") {
  const std::vector<std::string> extra{"LibTorch 9.8.7"};
  std::ostringstream out, json;
  Options options;
  const std::vector<ComponentSection> sections{
      {"Models", "model", {{"gpt", "a small GPT", {field::describe("layers", 4, "blocks")}}}}};
  run_info(options, extra, {"cxtrain_mpi", options, {}, sections, 100}, out);
  CHECK_THAT(out.str(), Catch::Matchers::StartsWith("cxtrain ") && test::contains("LibTorch 9.8.7\n") &&
                            test::contains(" core"));
  CHECK_THAT(out.str(), test::contains("\nModels (--model)\n  gpt   ") &&
                            test::contains("\n    --model.layers N  ") && test::contains("  blocks [4]\n"));
  options.json = true;
  run_info(options, extra, {"cxtrain_mpi", options, {}, sections, 100}, json);
  CHECK(Json::parse(json.str())["components"][0]["arguments"][0]["default"] == "4");
  CHECK(Json::parse(json.str())["about"][0] == "LibTorch 9.8.7");
}
