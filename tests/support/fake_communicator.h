#pragma once

#include <ATen/ops/zeros.h>

#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"

namespace cxtrain::test {

/// A communicator that writes down what it is asked, and lets every rank be like this one: a sum multiplies.
class FakeCommunicator final : public Communicator {
 public:
  explicit FakeCommunicator(int size) : size_(size) {}

  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::string description() const override { return "fake"; }
  bool overlaps() const override { return true; }
  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override {
    return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
  }
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    if (fail_on_call >= 0 && static_cast<int>(calls.size()) == fail_on_call)
      throw std::runtime_error("the wire is cut");
    calls.push_back(std::string("all_reduce ") + to_string(op) + " " + std::to_string(tensor.numel()));
    if (op == ReduceOp::sum) tensor.mul_(size_);
  }
  void broadcast(const at::Tensor& tensor, int) override {
    calls.push_back("broadcast " + std::to_string(tensor.numel()));
  }
  void join() override { calls.push_back("join"); }
  /// Something of the test's own among the calls.
  void note(const std::string& what) { calls.push_back(what); }

  std::vector<std::string> calls;
  int fail_on_call = -1;

 private:
  int size_;
};

}  // namespace cxtrain::test
