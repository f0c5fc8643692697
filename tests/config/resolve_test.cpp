#include <algorithm>
#include <functional>
#include <limits>
#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

std::string errors_with(const std::function<void(Options&)>& change, const Hardware& hardware = machine(2)) {
  Options options;
  change(options);
  return all(resolve(options, hardware, {}).errors);
}

Plan plan_with(const std::function<void(Options&)>& change, const Hardware& hardware) {
  Options options;
  change(options);
  return resolve(options, hardware, {});
}

}  // namespace

TEST_CASE("defaults need nothing", "[config]") {
  const Plan plan = resolve({}, machine(0), {});
  CHECK(plan.ok());
  CHECK(plan.warnings.empty());
  CHECK(plan.precision == "32-true");
  CHECK_FALSE(plan.benchmark);
}

TEST_CASE("devices that are refused", "[config]") {
  const auto gpus = [](const char* text) { return [text](Options& o) { o.trainer.gpus = text; }; };
  CHECK_THAT(errors_with(gpus("0,5")), test::contains(test::code(MessageCode::no_device)) &&
                                           test::contains("gpus:") && test::contains("GPU 5") &&
                                           test::contains("node n1 has 2 GPUs"));
  CHECK_THAT(errors_with(gpus("3")), test::contains(test::code(MessageCode::no_device)) &&
                                         test::contains("gpus:") && test::contains("3 GPUs"));
  CHECK_THAT(errors_with(gpus("all")), test::contains(test::code(MessageCode::invalid_value)) &&
                                           test::contains("gpus:") && test::contains("'all'"));
  CHECK_THAT(errors_with(gpus("2"), machine(0)), test::contains(test::code(MessageCode::no_device)) &&
                                                     test::contains("node n1") && test::contains("0 GPUs"));
  Hardware hidden = machine(4);
  hidden.env["CUDA_VISIBLE_DEVICES"] = "3";
  CHECK_THAT(errors_with(gpus("2"), hidden), test::contains(test::code(MessageCode::no_device)) &&
                                                 test::contains("node n1") && test::contains("4 GPUs") &&
                                                 test::contains("CUDA_VISIBLE_DEVICES=3") &&
                                                 test::contains("shows 1"));
  CHECK_THAT(errors_with([](Options& o) { o.trainer.accelerator = "gpu"; }, machine(0)),
             test::contains(test::code(MessageCode::no_device)) && test::contains("accelerator:") &&
                 test::contains("accelerator=gpu"));
  CHECK_THAT(errors_with([](Options& o) { o.trainer.accelerator = "gup"; }),
             test::contains(test::code(MessageCode::unknown_name)) &&
                 test::contains("auto, cpu, gpu, cuda") && test::contains("'gup'"));
  CHECK_THAT(errors_with([&](Options& o) { o.trainer.accelerator = "cpu", o.trainer.gpus = "1"; }),
             test::contains("gpus=1 contradicts accelerator=cpu"));
  CHECK_THAT(errors_with([&](Options& o) { o.trainer.accelerator = "cpu", o.trainer.devices = "0,1"; }),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("devices:") &&
                 test::contains("--devices 2"));
  CHECK_THAT(errors_with([&](Options& o) { o.trainer.devices = "0"; }),
             test::contains(test::code(MessageCode::no_device)) && test::contains("devices:"));
}

TEST_CASE("gpus=0 trains on the CPU", "[config]") {
  const Plan plan = plan_with([](Options& o) { o.trainer.gpus = "0"; }, machine(4));
  CHECK(plan.ok());
  CHECK(plan.accelerator == "cpu");
}

TEST_CASE("a node with fewer GPUs than the first is named", "[config]") {
  Hardware hardware = machine(4);
  hardware.nodes.push_back({"n2", 8, {hardware.nodes[0].gpus[0]}});
  Options options;
  options.trainer.devices = "0,2";
  CHECK_THAT(all(resolve(options, hardware, under_mpirun({2, 2})).errors),
             test::contains(test::code(MessageCode::no_device)) && test::contains("GPU 2") &&
                 test::contains("node n2") && test::contains("1 GPU"));
}

TEST_CASE("a CUDA_VISIBLE_DEVICES that names no GPU is a warning", "[config]") {
  Hardware hardware = machine(4);
  hardware.env["CUDA_VISIBLE_DEVICES"] = "1,7";
  const Plan plan = plan_with([](Options&) {}, hardware);
  CHECK(plan.ok());
  CHECK(plan.ranks.at(0).gpu == 1);
  CHECK_THAT(all(plan.warnings), test::contains("'7'"));
}

TEST_CASE("GPUs whose compute mode stands in the way", "[config]") {
  Hardware hardware = machine(1);
  hardware.nodes[0].gpus[0].compute_mode = "prohibited";
  CHECK_THAT(errors_with([](Options&) {}, hardware),
             test::contains(test::code(MessageCode::no_device)) && test::contains("`prohibited`"));
  hardware.nodes[0].gpus[0].compute_mode = "exclusive_process";
  CHECK(plan_with([](Options&) {}, hardware).warnings.empty());
  CHECK_THAT(all(resolve({}, hardware, under_mpirun({2})).warnings), test::contains("exclusive"));
  Hardware two = machine(2);
  for (Gpu& gpu : two.nodes[0].gpus) gpu.compute_mode = "exclusive_process";
  CHECK(resolve({}, two, under_mpirun({2})).warnings.empty());
  CHECK_THAT(all(resolve({}, two, under_mpirun({3})).warnings), test::contains("exclusive"));
}

TEST_CASE("values out of range", "[config]") {
  struct Row {
    std::function<void(Options&)> change;
    const char* error;
  };
  const std::vector<Row> rows{
      {[](Options& o) { o.trainer.max_epochs = -2; }, "max_epochs: -2"},
      {[](Options& o) { o.trainer.max_steps = -5; }, "max_steps: -5"},
      {[](Options& o) { o.trainer.min_epochs = 5, o.trainer.max_epochs = 3; }, "min_epochs: 5"},
      {[](Options& o) { o.trainer.min_steps = 5, o.trainer.max_steps = 3; }, "min_steps: 5"},
      {[](Options& o) { o.trainer.max_time = std::chrono::seconds(-1); }, "max_time: -1"},
      {[](Options& o) { o.trainer.accumulate_grad_batches = 0; }, "accumulate_grad_batches: 0"},
      {[](Options& o) { o.trainer.gradient_clip_val = -1; }, "gradient_clip_val: -1"},
      {[](Options& o) { o.trainer.log_every_n_steps = -1; }, "log_every_n_steps: -1"},
      {[](Options& o) { o.trainer.val_check_interval = {0.0}; }, "val_check_interval: 0"},
      {[](Options& o) { o.trainer.val_check_interval = std::chrono::seconds(0); }, "val_check_interval: 0"},
      {[](Options& o) { o.trainer.val_check_interval = {std::int64_t{0}}; }, "val_check_interval: 0"},
      {[](Options& o) { o.trainer.limit_val_batches = {1.5}; }, "limit_val_batches: '1.5'"},
      {[](Options& o) { o.trainer.limit_test_batches = {std::int64_t{-3}}; }, "limit_test_batches: '-3'"},
      {[](Options& o) { o.trainer.check_val_every_n_epoch = 0; }, "check_val_every_n_epoch: 0"},
      {[](Options& o) { o.trainer.check_val_every_n_epoch.reset(); },
       "val_check_interval: 1.0 is a fraction"},
      {[](Options& o) { o.trainer.fast_dev_run = -1; }, "fast_dev_run: -1"},
      {[](Options& o) { o.trainer.max_skipped_steps = -1; }, "max_skipped_steps: -1"},
      {[](Options& o) { o.trainer.num_sanity_val_steps = -2; }, "num_sanity_val_steps: -2"},
      {[](Options& o) { o.trainer.reload_dataloaders_every_n_epochs = -1; },
       "reload_dataloaders_every_n_epochs: -1"},
      {[](Options& o) { o.trainer.track_grad_norm = 0; }, "track_grad_norm: 0"},
      {[](Options& o) { o.trainer.track_grad_norm = -2; }, "track_grad_norm: -2"},
      {[](Options& o) {
         o.trainer.enable_checkpointing = true;
         o.trainer.logger = false;
       },
       "--checkpoint.dirpath"},
      {[](Options& o) {
         o.checkpoint.args["dirpath"] = "";
         o.trainer.logger = false;
       },
       "--checkpoint.dirpath"},
      {[](Options& o) { o.trainer.devices_per_rank = 0; }, "devices_per_rank: 0"},
      {[](Options& o) {
         o.callbacks = {{"device_stats", {}}}, o.trainer.logger = false;
       },
       "callbacks.device_stats:"},
      {[](Options& o) {
         o.callbacks = {{"device_stats", {}}}, o.trainer.barebones = true;
       },
       "callbacks.device_stats:"},
      {[](Options& o) { o.trainer.num_processes = 0; }, "num_processes: 0"},
      {[](Options& o) { o.data.batch_size = 0; }, "data.batch_size: 0"},
      {[](Options& o) { o.data.num_workers = -1; }, "data.num_workers: -1"},
      {[](Options& o) { o.data.prefetch_factor = 0; }, "data.prefetch_factor: 0"},
      {[](Options& o) { o.timeout_seconds = 0; }, "timeout_seconds: 0"}};
  for (const Row& row : rows) {
    INFO(row.error);
    const std::string errors = errors_with(row.change);
    CHECK_THAT(errors, test::contains(row.error));
    CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
  }
  CHECK(errors_with([](Options& o) { o.trainer.min_steps = 5; }).empty());  // max_steps=-1 is no limit
  CHECK(errors_with([](Options& o) { o.trainer.gradient_clip_val = 0; }).empty());
  CHECK(errors_with([](Options& o) {
          o.trainer.track_grad_norm = std::numeric_limits<double>::infinity();
          o.trainer.enable_checkpointing = false;
        }).empty());
}

TEST_CASE("all errors at once", "[config]") {
  Options options;
  options.trainer.gpus = "0,9";
  options.trainer.precision = "17";
  options.trainer.max_epochs = -7;
  const Plan plan = resolve(options, machine(2), {});
  REQUIRE(plan.errors.size() == 3);
  CHECK_FALSE(plan.ok());
  CHECK(plan.ranks.empty());
}

TEST_CASE("more CPU processes than cores is a warning", "[config]") {
  const Plan plan = plan_with([](Options& o) { o.trainer.devices = "4"; }, machine(0, 2));
  CHECK(plan.ok());
  CHECK_THAT(all(plan.warnings), test::contains("4 processes") && test::contains("2 cores"));
}
