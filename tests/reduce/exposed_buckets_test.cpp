#include "cxtrain/reduce/buckets.h"

#include <vector>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("buckets that travel beside backward are not rounded, and those behind it are") {
  const std::vector<BucketTimes> buckets{
      {.ready = 1, .travel = 1}, {.ready = 3, .travel = 1}, {.ready = 5, .travel = 2}};
  // Whole, the last one arrives at 7, rounded at 6; the others are there before 5.
  CHECK(first_exposed_bucket(buckets, 5) == 2);
  CHECK(first_exposed_bucket(buckets, 7) == 3);  // nothing comes after backward
}

TEST_CASE("on a network that is slower than backward all buckets are rounded") {
  std::vector<BucketTimes> buckets;
  for (int i = 1; i <= 8; ++i) buckets.push_back({.ready = 0.1 * i, .travel = 3});
  CHECK(first_exposed_bucket(buckets, 0.8) <= 1);  // a twentieth of the time is less than one bucket's
  for (BucketTimes& bucket : buckets) bucket.ready = 0.8;  // without overlap
  CHECK(first_exposed_bucket(buckets, 0.8) == 0);
}

TEST_CASE("buckets that wait for the ones before them count as exposed") {
  // The second bucket holds up the third.
  const std::vector<BucketTimes> buckets{
      {.ready = 1, .travel = 0.5}, {.ready = 4, .travel = 4}, {.ready = 5, .travel = 1}};
  CHECK(first_exposed_bucket(buckets, 5) == 1);
  CHECK(first_exposed_bucket({}, 5) == 0);
}

}  // namespace
}  // namespace cxtrain
