#include "cxtrain/device/nvml.h"

#include <dlfcn.h>

#include <cmath>
#include <memory>

#include "device/fake_driver.h"
#include "support/catch.h"

using namespace cxtrain;
using test::EnvironmentVariable;

namespace {

constexpr const char* kFake = test::kFakeDriver;
using Words = std::vector<std::string>;

/// Keeps the library, and so its count of sessions, while it lives.
class Sessions {
 public:
  Sessions() { REQUIRE(library_); }
  int open() const { return reinterpret_cast<int (*)()>(dlsym(library_.get(), "fake_nvml_sessions"))(); }

 private:
  std::unique_ptr<void, int (*)(void*)> library_{dlopen(kFake, RTLD_NOW | RTLD_LOCAL), dlclose};
};

}  // namespace

TEST_CASE("GPUs as the management library describes them", "[device]") {
  const std::vector<Gpu> gpus = read_gpus_from_nvml(kFake);
  REQUIRE(gpus.size() == 5);
  CHECK(gpus[0].index == 0);
  CHECK(gpus[0].name == "Fake A");
  CHECK(gpus[0].uuid == "GPU-0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a");
  CHECK(gpus[0].compute_capability == "8.6");
  CHECK(gpus[0].mig == Mig::none);
  CHECK(gpus[0].memory_total_mib == 1000);
  CHECK(gpus[0].memory_used_mib == 100);  // without the 700 that the driver keeps for itself
  CHECK(gpus[0].utilization == 73);
  CHECK(gpus[0].compute_mode == "default");
  CHECK(gpus[0].processes == 0);
  CHECK(gpus[1].index == 1);
  CHECK(gpus[1].memory_used_mib == 800);         // an old driver does not tell its own share
  CHECK_FALSE(gpus[1].utilization.has_value());  // nor how busy the GPU is
  CHECK(gpus[1].compute_mode == "exclusive_process");
  CHECK(gpus[1].processes == 2);
  CHECK(gpus[1].compute_capability.empty());
  CHECK(gpus[1].mig == Mig::none);
  CHECK(gpus[2].mig == Mig::divided);
  CHECK(gpus[3].mig == Mig::instance);
  CHECK(gpus[3].index == 3);
  CHECK(gpus[3].name == "Fake C MIG 1g.5gb");
  CHECK(gpus[3].uuid == "MIG-0d0d0d0d-0d0d-0d0d-0d0d-0d0d0d0d0d0d");
  CHECK(gpus[4].index == 4);
  CHECK(cuda_version_from_nvml(kFake) == "12.4");
  CHECK(cuda_version_from_nvml("libno_such_driver.so.1").empty());
  CHECK(driver_version_from_nvml(kFake) == "580.65.06");
  CHECK(driver_version_from_nvml("libno_such_driver.so.1").empty());
}

TEST_CASE("a monitor samples a GPU again and again, in one session", "[device]") {
  const Sessions sessions;
  {
    const std::unique_ptr<GpuMonitor> monitor = open_gpu_monitor(kFake);
    const GpuSample first = monitor->sample(0), second = monitor->sample(0);
    CHECK(first.utilization_percent == 73);
    CHECK(first.memory_used_mib == 100);
    CHECK(first.memory_free_mib == 200);
    CHECK(second.temperature_celsius == first.temperature_celsius + 1);
    CHECK(sessions.open() == 1);
  }
  CHECK(sessions.open() == 0);
}

TEST_CASE("what a GPU does not tell is unknown", "[device]") {
  const GpuSample old = open_gpu_monitor(kFake)->sample(1);
  CHECK(old.memory_used_mib == 800);
  CHECK(std::isnan(old.utilization_percent));
  CHECK(std::isnan(old.temperature_celsius));
  for (const GpuSample& sample :
       {open_gpu_monitor(kFake)->sample(7), open_gpu_monitor("libno_such_driver.so.1")->sample(0)}) {
    CHECK(std::isnan(sample.memory_used_mib));
    CHECK(std::isnan(sample.utilization_percent));
  }
}

TEST_CASE("the driver tells how healthy GPUs are", "[device]") {
  const Sessions sessions;
  const EnvironmentVariable errors("FAKE_NVML_ECC_ERRORS", "3");
  const EnvironmentVariable clocks("FAKE_NVML_CLOCKS", "511");  // all reasons that NVML has
  const std::vector<GpuHealth> all = read_gpu_health(kFake);
  CHECK(sessions.open() == 0);
  const std::vector<Gpu> gpus = read_gpus_from_nvml(kFake);
  REQUIRE(all.size() == gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) CHECK(all[i].uuid == gpus[i].uuid);
  CHECK(all[0].compute_mode == "default");
  CHECK(all[0].ecc_uncorrected == 3);  // neither corrected ones, nor those of the GPU's whole life
  CHECK(all[0].throttled_by ==
        Words{"hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown", "hw_slowdown"});
  CHECK(all[1].compute_mode == "exclusive_process");
}

TEST_CASE("an instance has the health of its GPU where it does not tell itself", "[device]") {
  const std::vector<GpuHealth> all = read_gpu_health(kFake);
  REQUIRE(all.size() == 5);
  for (std::size_t i = 2; i < 5; ++i) {
    CHECK(all[i].compute_mode == "default");
    CHECK(all[i].ecc_uncorrected == 5);
    CHECK(all[i].throttled_by == Words{"hw_power_brake_slowdown"});
    CHECK(all[i].reaches.empty());
  }
}

TEST_CASE("clocks that are low for want of work, or as somebody has set them, are no fault", "[device]") {
  const EnvironmentVariable clocks("FAKE_NVML_CLOCKS",
                                   "279");  // idle, set clocks, limit of power, sync boost, display
  CHECK(read_gpu_health(kFake).at(0).throttled_by == Words{});
}

TEST_CASE("a GPU reaches another one's memory where it may read and write it", "[device]") {
  struct Case {
    const char *reads, *writes;
    std::optional<bool> expected;
  };
  for (const Case& one :
       {Case{"0", "0", true}, Case{"3", "0", false}, Case{"0", "5", false}, Case{"6", "0", std::nullopt},
        Case{"0", "6", std::nullopt}, Case{"6", "1", false}}) {
    INFO(one.reads << " " << one.writes);
    const EnvironmentVariable reads("FAKE_NVML_READS", one.reads), writes("FAKE_NVML_WRITES", one.writes);
    const std::vector<GpuHealth> all = read_gpu_health(kFake);
    REQUIRE(all.size() == 5);
    std::map<std::string, bool> expected;
    if (one.expected) expected[all[1].uuid] = *one.expected;
    CHECK(all[0].reaches == expected);
    CHECK(all[1].reaches == std::map<std::string, bool>{{all[0].uuid, true}});
  }
}

TEST_CASE("health that a GPU does not tell is unknown", "[device]") {
  const GpuHealth old = read_gpu_health(kFake).at(1);
  CHECK_FALSE(old.ecc_uncorrected.has_value());
  CHECK_FALSE(old.throttled_by.has_value());
  const auto refused = [](const char* function) {
    const EnvironmentVariable refuses("FAKE_NVML_REFUSES", function);
    return read_gpu_health(kFake).at(0);
  };
  CHECK_FALSE(refused("nvmlDeviceGetComputeMode").compute_mode.has_value());
  CHECK_FALSE(refused("nvmlDeviceGetTotalEccErrors").ecc_uncorrected.has_value());
  CHECK(refused("nvmlDeviceGetEccMode").ecc_uncorrected == 0);
  CHECK(refused("nvmlDeviceGetCurrentClocksEventReasons").throttled_by == Words{});  // the older one tells
  CHECK(refused("nvmlDeviceGetP2PStatus").reaches.empty());
  {
    const EnvironmentVariable off("FAKE_NVML_ECC", "0");
    CHECK_FALSE(read_gpu_health(kFake).at(0).ecc_uncorrected.has_value());
  }
  const EnvironmentVariable none("FAKE_NVML_ECC_ERRORS", "18446744073709551615");  // NVML's word for no value
  CHECK_FALSE(read_gpu_health(kFake).at(0).ecc_uncorrected.has_value());
  CHECK(read_gpu_health("libno_such_driver.so.1").empty());
}

TEST_CASE("health that an old driver has no function for is unknown", "[device]") {
  const test::TempDir dir;
  const std::string old = test::driver_without(
      {"nvmlDeviceGetComputeMode", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetEccMode",
       "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
       "nvmlDeviceGetP2PStatus", "nvmlSystemGetDriverVersion"},
      dir);
  const std::vector<GpuHealth> all = read_gpu_health(old.c_str());
  REQUIRE(all.size() == 5);
  for (const GpuHealth& health : all) {
    CHECK_FALSE(health.uuid.empty());
    CHECK_FALSE(health.compute_mode.has_value());
    CHECK_FALSE(health.ecc_uncorrected.has_value());
    CHECK_FALSE(health.throttled_by.has_value());
    CHECK(health.reaches.empty());
  }
  CHECK(driver_version_from_nvml(old.c_str()).empty());
}

TEST_CASE("a driver from before R535 tells why clocks are low by the older name", "[device]") {
  const test::TempDir dir;
  const std::string old = test::driver_without({"nvmlDeviceGetCurrentClocksEventReasons"}, dir);
  const EnvironmentVariable clocks("FAKE_NVML_CLOCKS", "8");
  CHECK(read_gpu_health(old.c_str()).at(0).throttled_by == Words{"hw_slowdown"});
}
