#include "cxtrain/comm/solo_communicator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/base/error.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("alone, a share is the whole, whatever the strides; and there is nobody to send to") {
  SoloCommunicator alone;
  const at::Tensor values = at::arange(12, at::kFloat).view({3, 4}).t();
  const at::Tensor other = at::zeros({12});
  alone.reduce_scatter(other, values, ReduceOp::avg);
  CHECK(at::equal(other, at::arange(12, at::kFloat)));
  alone.reduce_scatter(values, values, ReduceOp::sum);
  other.zero_();
  alone.all_gather(other, values);
  CHECK(at::equal(other, at::arange(12, at::kFloat)));
  alone.all_gather(at::zeros({0}), at::zeros({0}));

  CHECK_THROWS_AS(alone.all_gather(other, at::zeros({11})), CommunicationError);
  CHECK_THROWS_AS(alone.broadcast(other, 1), CommunicationError);
  CHECK_THROWS_AS(alone.send(other, 0), CommunicationError);
  CHECK_THROWS_AS(alone.recv(other, 1), CommunicationError);
  CHECK(alone.node_memory() == nullptr);
  CHECK(alone.split(-1, 0) == nullptr);
  CHECK(alone.split(0, 9)->size() == 1);
}

}  // namespace
}  // namespace cxtrain
