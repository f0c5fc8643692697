#include "cxtrain/device/resources.h"

#include <cstring>
#include <memory>

#include "support/catch.h"

using namespace cxtrain;

TEST_CASE("peak memory grows with what was touched, and stays", "[device]") {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const std::int64_t before = peak_resident_bytes();
  CHECK(before > 0);
  {
    const auto block = std::make_unique_for_overwrite<char[]>(kBytes);
    std::memset(block.get(), 1, kBytes);
  }
  CHECK(peak_resident_bytes() > static_cast<std::int64_t>(kBytes));
}

namespace {

class SetClock final : public Clock {
 public:
  double now() const override { return time; }
  double time = 100;
};

double used_seconds = 0;

}  // namespace

TEST_CASE("the load is processor time over time since the sample before", "[device]") {
  SetClock clock;
  used_seconds = 5;
  CpuLoad load(clock, [] { return used_seconds; });
  clock.time = 104;
  used_seconds = 7;
  CHECK(load.sample().cpu_percent == Catch::Approx(50));
  clock.time = 105;
  used_seconds = 10;
  CHECK(load.sample().cpu_percent == Catch::Approx(300));
  CHECK(load.sample().cpu_percent == 0);  // no time has passed
}

TEST_CASE("this process works and has memory", "[device]") {
  const double before = process_cpu_seconds();
  volatile double sum = 0;
  while (process_cpu_seconds() < before + 0.02) sum = sum + 1;
  const SteadyClock clock;
  const CpuSample sample = CpuLoad(clock).sample();
  CHECK(sample.memory_percent > 0);
  CHECK(sample.memory_percent < 100);
  CHECK(sample.swap_percent >= 0);
}
