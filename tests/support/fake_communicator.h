#pragma once

#include <ATen/ops/zeros.h>

#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/layout.h"
#include "support/reduce_op_name.h"

namespace cxtrain::test {

/// A communicator that writes down what it is asked, and lets every rank be like this one: a sum multiplies,
/// a gather repeats. What is received stands in `incoming`. It refuses arguments as every communicator does.
class FakeCommunicator final : public Communicator {
 public:
  explicit FakeCommunicator(int size, int rank = 0) : size_(size), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return "fake"; }
  bool overlaps() const override { return true; }
  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override {
    return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
  }
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    asked(std::string("all_reduce ") + name_of(op) + " " + std::to_string(tensor.numel()));
    if (op == ReduceOp::sum) tensor.mul_(size_);
  }
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override {
    check_reduce_scatter(*this, output, input);
    asked(std::string("reduce_scatter ") + name_of(op) + " " + std::to_string(output.numel()));
    flat(output).copy_(flat(input).narrow(0, rank_ * output.numel(), output.numel()));
    if (op == ReduceOp::sum) output.mul_(size_);
  }
  void all_gather(const at::Tensor& output, const at::Tensor& input) override {
    check_all_gather(*this, output, input);
    asked("all_gather " + std::to_string(input.numel()));
    for (const at::Tensor& share : flat(output).chunk(size_)) share.copy_(flat(input));
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    check_root(*this, root);
    asked("broadcast " + std::to_string(tensor.numel()));
  }
  void send(const at::Tensor& tensor, int to) override {
    check_peer("send", *this, to);
    asked("send " + std::to_string(tensor.numel()) + " to " + std::to_string(to));
  }
  void recv(const at::Tensor& tensor, int from) override {
    check_peer("recv", *this, from);
    asked("recv " + std::to_string(tensor.numel()) + " from " + std::to_string(from));
    if (incoming.empty()) return;
    tensor.copy_(incoming.front());
    incoming.pop_front();
  }
  void join() override { calls.push_back("join"); }
  /// A part of `part_size` ranks, of which this one is the first.
  std::unique_ptr<Communicator> split(int color, int key) override {
    asked("split " + std::to_string(color) + " " + std::to_string(key));
    return color < 0 ? nullptr : std::make_unique<FakeCommunicator>(part_size);
  }
  /// Something of the test's own among the calls.
  void note(const std::string& what) { calls.push_back(what); }

  std::vector<std::string> calls;
  std::deque<at::Tensor> incoming;
  int part_size = 1;
  int fail_on_call = -1;

 private:
  void asked(const std::string& call) {
    if (fail_on_call >= 0 && static_cast<int>(calls.size()) == fail_on_call)
      throw std::runtime_error("the wire is cut");
    calls.push_back(call);
  }

  int size_, rank_;
};

}  // namespace cxtrain::test
