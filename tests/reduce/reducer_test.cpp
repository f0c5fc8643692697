#include "cxtrain/reduce/reducer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/fake_communicator.h"

namespace cxtrain {
namespace {

using Calls = std::vector<std::string>;

/// Three layers in a row, 16 elements each; backward reaches c first and a last.
struct Chain {
  std::vector<NamedTensor> parameters;
  Chain() {
    for (const char* name : {"a", "b", "c"})
      parameters.push_back({name, at::full({16}, 2.0f).set_requires_grad(true)});
  }
  at::Tensor loss() const {
    return parameters[0].tensor.mul(parameters[1].tensor).mul(parameters[2].tensor).sum();
  }
};

const ReducerOptions kBucketEach{.first_bucket_bytes = 1, .bucket_bytes = 1, .overlap = true};

void step(Reducer& reducer, const Chain& chain) {
  reducer.begin_backward(true);
  reducer.zero_gradients();
  chain.loss().backward();
}

TEST_CASE("buckets go out during backward once the order is known, one join at the end") {
  SoloWorld world;
  test::FakeCommunicator communicator(2);
  Chain chain;
  Reducer reducer(chain.parameters, communicator, world, kBucketEach);
  step(reducer, chain);
  communicator.note("backward done");
  reducer.finish();
  const Calls first{"backward done", "all_reduce avg 16", "all_reduce avg 16", "all_reduce avg 16", "join"};
  CHECK(communicator.calls == first);

  communicator.calls.clear();
  step(reducer, chain);
  communicator.note("backward done");
  reducer.finish();
  const Calls later{"all_reduce avg 16", "all_reduce avg 16", "all_reduce avg 16", "backward done", "join"};
  CHECK(communicator.calls == later);
}

TEST_CASE("without overlap nothing goes out before finish") {
  SoloWorld world;
  test::FakeCommunicator communicator(2);
  Chain chain;
  ReducerOptions options = kBucketEach;
  options.overlap = false;
  Reducer reducer(chain.parameters, communicator, world, options);
  for (int i = 0; i < 3; ++i) {
    communicator.calls.clear();
    step(reducer, chain);
    CHECK(communicator.calls.empty());
    reducer.finish();
    CHECK(communicator.calls.size() == 4);
  }
}

TEST_CASE("a bucket waits for those before it, and a missing gradient for finish") {
  SoloWorld world;
  test::FakeCommunicator communicator(2);
  Chain chain;
  Reducer reducer(chain.parameters, communicator, world, kBucketEach);
  step(reducer, chain);
  reducer.finish();

  // The parameter whose bucket goes first gets no gradient this time: the others may not overtake it.
  communicator.calls.clear();
  reducer.begin_backward(true);
  reducer.zero_gradients();
  chain.parameters[0].tensor.mul(chain.parameters[1].tensor).sum().backward();
  CHECK(communicator.calls.empty());
  reducer.finish();
  CHECK(communicator.calls.size() == 4);
  CHECK(chain.parameters[2].tensor.grad().abs().sum().item<float>() == 0);
  CHECK(chain.parameters[0].tensor.grad()[0].item<float>() == 2);
}

TEST_CASE("micro-batches before the last send nothing") {
  SoloWorld world;
  test::FakeCommunicator communicator(2);
  Chain chain;
  Reducer reducer(chain.parameters, communicator, world, kBucketEach);
  for (int i = 0; i < 2; ++i) {
    communicator.calls.clear();
    for (const bool last : {false, false, true}) {
      reducer.begin_backward(last);
      chain.loss().backward();
      if (!last) CHECK(communicator.calls.empty());
    }
    reducer.finish();
    CHECK(chain.parameters[0].tensor.grad()[0].item<float>() == 12);  // three times 2 * 2
    reducer.zero_gradients();
  }
}

TEST_CASE("an error of the communicator leaves backward as it is") {
  SoloWorld world;
  test::FakeCommunicator communicator(2);
  Chain chain;
  Reducer reducer(chain.parameters, communicator, world, kBucketEach);
  step(reducer, chain);
  reducer.finish();
  communicator.fail_on_call = static_cast<int>(communicator.calls.size()) + 1;
  CHECK_THROWS_WITH(step(reducer, chain), test::contains("the wire is cut"));
}

}  // namespace
}  // namespace cxtrain
