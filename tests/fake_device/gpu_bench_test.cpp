#include <cmath>

#include "fixture.h"
#include "gpu_bench/measurement.h"

/// The measurements that gpu_bench makes on a GPU, on a device of no speed: that they use streams and events
/// in a right order (the fake device finds races), and give figures that a reader can have.
namespace cxtrain::gpu_bench {
namespace {

using Fixture = test::TwoFakeDevices;

/// A figure, which has to be there; a time, a size or a ratio is not negative.
double value(const Figures& figures, const std::string& name) {
  CAPTURE(name, figures.json().dump());
  REQUIRE(figures.json().contains(name));
  const double found = figures.json().at(name).at("value").get<double>();
  CHECK(std::isfinite(found));
  CHECK(found >= 0);
  CHECK(figures.json().at(name).at("unit").is_string());
  return found;
}

TEST_CASE_METHOD(Fixture, "copies between host and device have a bandwidth each way") {
  const Figures figures = measure_host_copies({.device = device, .tiny = true});
  for (const char* name : {"page-locked to device", "pageable to device", "device to page-locked"})
    CHECK(value(figures, name) > 0);
}

TEST_CASE_METHOD(Fixture, "a copy on a stream of its own is timed beside what is computed meanwhile") {
  const Figures figures = measure_copy_overlap({.device = device, .tiny = true});
  const double copy = value(figures, "copy"), computation = value(figures, "computation");
  const double both = value(figures, "both at once");
  CHECK(figures.json().at("hidden share").at("value").get<double>() ==
        Catch::Approx((copy + computation - both) / std::min(copy, computation)));
}

TEST_CASE_METHOD(Fixture,
                 "one call for a bucket's gradients and a copy for each are timed on host and device") {
  const Figures figures = measure_bucket_copies({.device = device, .tiny = true});
  CHECK(value(figures, "160 copies, done") >= value(figures, "160 copies, host"));
  CHECK(value(figures, "one call, done") >= value(figures, "one call, host"));
  CHECK(value(figures, "160 copies over one call") > 0);
}

TEST_CASE_METHOD(Fixture,
                 "synchronised batch norm is compared with the native one in numbers, time and memory") {
  const Figures figures = measure_sync_batch_norm({.device = device, .tiny = true});
  CHECK(value(figures, "output differs by Float") < 1e-4);
  CHECK(value(figures, "gradient differs by Float") < 1e-4);
  CHECK(value(figures, "synchronised over native Float") > 0);
  CHECK(value(figures, "memory of a step native Float") > 0);
  CHECK(value(figures, "memory of a step synchronised Float") > 0);
  CHECK(value(figures, "synchronised Half") > 0);
}

TEST_CASE_METHOD(Fixture, "a CPU has no bus and no streams to be measured") {
  CHECK_THROWS_AS(measure_host_copies({}), NotMeasurable);
  CHECK_THROWS_AS(measure_copy_overlap({}), NotMeasurable);
}

}  // namespace
}  // namespace cxtrain::gpu_bench
