#include <limits>
#include <nlohmann/json.hpp>
#include "support/catch.h"

#include "cxtrain/base/filesystem.h"
#include "cxtrain/report/model_summary.h"
#include "cxtrain/report/run_files.h"
#include "support/temp_dir.h"

namespace {

using namespace cxtrain;
using test::TempDir;

}  // namespace

TEST_CASE("the model summary is a table with totals", "[summary]") {
  const std::vector<LayerRow> rows{
      {.name = "hidden", .type = "Linear", .params = 8320, .bytes = 33280, .trainable = 8320},
      {.name = "embedding", .type = "Embedding", .params = 1'000'000, .bytes = 2'000'000, .trainable = 0},
      {.name = "act", .type = "ReLU"}};
  CHECK(model_summary(rows) ==
        "  | Name      | Type      | Params | Size (MB)\n"
        "----------------------------------------------\n"
        "0 | hidden    | Linear    | 8.3 K  | 0.033    \n"
        "1 | embedding | Embedding | 1.0 M  | 2.000    \n"
        "2 | act       | ReLU      | 0      | 0.000    \n"
        "----------------------------------------------\n"
        "8.3 K     Trainable params\n"
        "1.0 M     Non-trainable params\n"
        "1.0 M     Total params\n"
        "2.033     Total estimated model params size (MB)\n");
}

TEST_CASE("counts are short", "[summary]") {
  CHECK(human_count(0) == "0  ");
  CHECK(human_count(999) == "999  ");
  CHECK(human_count(1000) == "1.0 K");
  CHECK(human_count(123'456) == "123 K");
  CHECK(human_count(999'960) == "1.0 M");
  CHECK(human_count(81'926'400) == "81.9 M");
  CHECK(human_count(7'000'000'000) == "7.0 B");
}

TEST_CASE("run.json has the fields of its contract", "[summary]") {
  const TempDir dir;
  RealFilesystem files;
  RunSummary summary{.status = "done",
                     .stopped_by = {},
                     .world_size = 4,
                     .strategy = "ddp",
                     .precision = "16-mixed",
                     .epochs = 2,
                     .global_step = 90,
                     .metrics = {{"train_loss", 0.5}, {"val_loss", std::numeric_limits<double>::quiet_NaN()}},
                     .seconds = 1.5,
                     .samples_per_second = 1000,
                     .samples_per_step = 64,
                     .first_step_seconds = 0.25,
                     .peak_memory_bytes = std::int64_t{1} << 40,
                     .parameters_sha256 = "ab",
                     .parameters_equal_on_all_ranks = true};
  write_atomically(files, dir.file("run.json"), to_json(summary));
  const auto json = nlohmann::json::parse(test::slurp(dir.file("run.json")));
  CHECK(json ==
        nlohmann::json::parse(R"({"status": "done", "exit_code": 0, "world_size": 4, "strategy": "ddp",
    "precision": "16-mixed", "epochs": 2, "global_step": 90, "metrics": {"train_loss": 0.5, "val_loss": null},
    "seconds": 1.5, "samples_per_second": 1000.0, "samples_per_step": 64, "first_step_seconds": 0.25, "peak_memory_bytes": 1099511627776, "pss_bytes": 0, "peak_device_memory_bytes": 0,
    "parameters_sha256": "ab", "parameters_equal_on_all_ranks": true})"));

  summary.exit_code = 1;
  write_atomically(files, dir.file("run.json"), to_json(summary));
  CHECK(nlohmann::json::parse(test::slurp(dir.file("run.json")))["exit_code"] == 1);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) ==
        1);  // no temporary file is left
  CHECK_THROWS_WITH(write_atomically(files, dir.file("none/run.json"), to_json(summary)),
                    cxtrain::test::contains("none/run.json"));
}

TEST_CASE("run.json has an object of metrics even when there are none", "[summary]") {
  CHECK(nlohmann::json::parse(to_json(RunSummary{}))["metrics"].is_object());
  CHECK(nlohmann::json::parse(to_json(RunSummary{}))["parameters_equal_on_all_ranks"].is_null());
}
