#pragma once

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// A world of one: nothing to say to anybody.
class SoloCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string description() const override { return "none"; }
  bool overlaps() const override { return false; }
  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override;
  void all_reduce(const at::Tensor&, ReduceOp) override {}
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override;
  void all_gather(const at::Tensor& output, const at::Tensor& input) override;
  void broadcast(const at::Tensor&, int root) override { check_root(*this, root); }
  // There is nobody to talk to: both are refused.
  void send(const at::Tensor&, int to) override { check_peer("send", *this, to); }
  void recv(const at::Tensor&, int from) override { check_peer("recv", *this, from); }
  void join() override {}
  std::unique_ptr<Communicator> split(int color, int) override {
    return color < 0 ? nullptr : std::make_unique<SoloCommunicator>();
  }
};

}  // namespace cxtrain
