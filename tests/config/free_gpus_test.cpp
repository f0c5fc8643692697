#include "cxtrain/config/devices.h"

#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

/// Eight GPUs, of which 0 and 3 have processes, 4 holds memory, 5 is busy and 6 is prohibited.
Hardware busy_machine() {
  Hardware hardware = machine(8);
  std::vector<Gpu>& gpus = hardware.nodes[0].gpus;
  for (Gpu& gpu : gpus) gpu.memory_used_mib = 4;
  gpus[0].processes = 1;
  gpus[3].processes = 2;
  gpus[3].memory_used_mib = 40210;
  gpus[4].memory_used_mib = 9000;
  gpus[5].utilization = 98;
  gpus[6].compute_mode = "prohibited";
  return hardware;
}

Plan plan_with(const char* gpus, bool auto_select, const Hardware& hardware,
               const WorldFacts& launched = {}) {
  Options options;
  if (gpus) options.trainer.gpus = gpus;
  options.trainer.auto_select_gpus = auto_select;
  return resolve(options, hardware, launched);
}

}  // namespace

TEST_CASE("a GPU is free unless somebody uses it", "[config]") {
  const std::vector<Gpu> gpus = busy_machine().nodes[0].gpus;
  CHECK(*pick_free_gpus(gpus, 0, "n1") == List{1, 2, 7});
  CHECK(*pick_free_gpus(gpus, 2, "n1") == List{1, 2});
  CHECK_THAT(pick_free_gpus(gpus, 4, "n1").error,
             test::contains("node n1") && test::contains("GPU 0") && test::contains("GPU 3") &&
                 test::contains("GPU 4") && test::contains("GPU 5") && test::contains("GPU 6") &&
                 test::contains("4 free GPUs") && test::contains("8 visible") &&
                 test::contains("2 processes") && test::contains("40210 MiB") && test::contains("9000 MiB") &&
                 test::contains("auto_select_gpus") && test::contains("98"));
  Gpu desktop;
  desktop.memory_used_mib = 350;
  desktop.utilization = 4;
  CHECK(occupied_by(desktop).empty());
}

TEST_CASE("auto_select_gpus picks the free ones; without it the first ones are taken", "[config]") {
  const Hardware hardware = busy_machine();
  CHECK(plan_with("2", true, hardware).devices == List{1, 2});
  CHECK(plan_with("-1", true, hardware).devices == List{1, 2, 7});
  CHECK(plan_with("auto", true, hardware).devices == List{1, 2, 7});
  CHECK(plan_with(nullptr, true, hardware).devices == List{1});
  CHECK(plan_with("2", false, hardware).devices == List{0, 1});
  CHECK(plan_with(nullptr, false, hardware).devices == List{0});
  CHECK(plan_with(nullptr, true, hardware, under_mpirun({2})).devices == List{1, 2});
  CHECK(plan_with("auto", true, hardware, under_mpirun({3, 1})).devices == List{1, 2, 7});
}

TEST_CASE("auto_select_gpus counts within CUDA_VISIBLE_DEVICES", "[config]") {
  Hardware hardware = busy_machine();
  hardware.env["CUDA_VISIBLE_DEVICES"] = "3,7,0,2";
  const Plan plan = plan_with("2", true, hardware);
  CHECK(plan.devices == List{1, 3});
  CHECK(plan.ranks.at(0).gpu == 7);
  CHECK(plan.ranks.at(1).gpu == 2);
}

TEST_CASE("auto_select_gpus: too few free GPUs name the occupied ones", "[config]") {
  Hardware hardware = machine(4);
  hardware.nodes[0].gpus[1].processes = 3;
  hardware.nodes[0].gpus[2].memory_used_mib = 2000;
  CHECK_THAT(all(plan_with("3", true, hardware).errors),
             test::contains(test::code(MessageCode::no_device)) && test::contains("gpus:") &&
                 test::contains("--auto_select_gpus") && test::contains("node n1") &&
                 test::contains("GPU 1") && test::contains("GPU 2") && test::contains("3 free GPUs") &&
                 test::contains("4 visible") && test::contains("3 processes") && test::contains("2000 MiB"));
  for (Gpu& gpu : hardware.nodes[0].gpus) gpu.processes = 1;
  CHECK_THAT(all(plan_with("-1", true, hardware).errors),
             test::contains(test::code(MessageCode::no_device)) && test::contains("node n1") &&
                 test::contains("4 visible") && test::contains("auto_select_gpus"));
}

TEST_CASE("auto_select_gpus says where nobody tells which GPUs are free", "[config]") {
  Hardware hardware = machine(2);
  const std::string told = "on node n1";
  CHECK_THAT(all(plan_with("1", true, hardware).warnings), test::contains(told));
  CHECK_THAT(all(plan_with("1", false, hardware).warnings), !test::contains(told));
  for (Gpu& gpu : hardware.nodes[0].gpus) gpu.processes = 0;
  CHECK_THAT(all(plan_with("1", true, hardware).warnings), !test::contains(told));
  hardware.nodes.push_back(machine(2).nodes[0]);
  hardware.nodes[1].hostname = "n2";
  for (const char* asked : {static_cast<const char*>(nullptr), "auto", "2"})
    CHECK_THAT(all(plan_with(asked, true, hardware, under_mpirun({2, 2})).warnings),
               test::contains("node n2"));
}

TEST_CASE("auto_select_gpus has no effect on lists and on the CPU, and says so", "[config]") {
  const Plan list = plan_with("3,0", true, busy_machine());
  CHECK(list.devices == List{3, 0});
  CHECK_THAT(all(list.warnings), test::contains("auto_select_gpus"));
  CHECK_THAT(all(plan_with(nullptr, true, machine(0)).warnings), test::contains("auto_select_gpus"));
}

TEST_CASE("auto_select_gpus picks on every node what is free there", "[config]") {
  Hardware hardware = machine(4);
  hardware.nodes.push_back(hardware.nodes[0]);
  hardware.nodes[1].hostname = "n2";
  hardware.nodes[0].gpus[0].processes = 1;
  hardware.nodes[1].gpus[1].processes = 1;
  hardware.nodes[1].gpus[2].processes = 1;
  const Plan plan = plan_with("2", true, hardware, under_mpirun({2, 2}));
  REQUIRE(plan.ok());
  CHECK(devices_of(plan) == std::vector<std::string>{"cuda:1", "cuda:2", "cuda:0", "cuda:3"});
  hardware.nodes[1].gpus[3].processes = 1;
  CHECK_THAT(all(plan_with("2", true, hardware, under_mpirun({2, 2})).errors),
             test::contains(test::code(MessageCode::no_device)) && test::contains("node n2") &&
                 test::contains("2 free GPUs") && test::contains("4 visible") &&
                 test::contains("auto_select_gpus"));
}
