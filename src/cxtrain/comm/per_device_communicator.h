#pragma once

#include <memory>
#include <vector>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// For ranks that have several devices each: a communicator for each device, which carries the tensors that
/// lie there. All ranks name their devices in the same order: the n-th communicator of a rank talks to the
/// n-th of the others.
class PerDeviceCommunicator final : public Communicator {
 public:
  struct Member {
    at::Device device;
    std::unique_ptr<Communicator> communicator;
  };
  /// At least one member; no device twice.
  explicit PerDeviceCommunicator(std::vector<Member> members) : members_(std::move(members)) {}

  int rank() const override { return members_[0].communicator->rank(); }
  int size() const override { return members_[0].communicator->size(); }
  std::string description() const override;
  bool overlaps() const override { return members_[0].communicator->overlaps(); }

  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override {
    return at(device).allocate(numel, dtype, device);
  }
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    at(tensor.device()).all_reduce(tensor, op);
  }
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override {
    at(output.device()).reduce_scatter(output, input, op);
  }
  void all_gather(const at::Tensor& output, const at::Tensor& input) override {
    at(output.device()).all_gather(output, input);
  }
  void broadcast(const at::Tensor& tensor, int root) override { at(tensor.device()).broadcast(tensor, root); }
  void send(const at::Tensor& tensor, int to) override { at(tensor.device()).send(tensor, to); }
  void recv(const at::Tensor& tensor, int from) override { at(tensor.device()).recv(tensor, from); }
  void join() override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  /// Throws CommunicationError for a device that is not among the members'.
  Communicator& at(at::Device device);

  std::vector<Member> members_;
};

}  // namespace cxtrain
