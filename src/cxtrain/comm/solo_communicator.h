#pragma once

#include <ATen/ops/zeros.h>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// A world of one: nothing to say to anybody.
class SoloCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string description() const override { return "none"; }
  bool overlaps() const override { return false; }
  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override {
    return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
  }
  void all_reduce(const at::Tensor&, ReduceOp) override {}
  void broadcast(const at::Tensor&, int) override {}
  void join() override {}
};

}  // namespace cxtrain
