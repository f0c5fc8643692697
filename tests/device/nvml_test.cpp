#include "cxtrain/device/nvml.h"

#include <dlfcn.h>

#include <cmath>
#include <memory>
#include "support/catch.h"

using namespace cxtrain;

namespace {

constexpr const char* kFake = CXTRAIN_TEST_PLUGIN_DIR "/fake_nvml.so";

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
  CHECK(gpus[1].memory_used_mib == 800);  // an old driver does not tell its own share
  CHECK(gpus[1].utilization == 0);
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
