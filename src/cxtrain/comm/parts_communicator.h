#pragma once

#include <memory>
#include <vector>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// For ranks that have several devices each: a communicator for each of them, which carries the tensors
/// of its device. Every rank has its parts on devices of the same order, so that a part meets the same one of
/// the other ranks.
class PartsCommunicator final : public Communicator {
 public:
  struct Part {
    at::Device device;
    std::unique_ptr<Communicator> communicator;
  };
  /// At least one part; each device once.
  explicit PartsCommunicator(std::vector<Part> parts) : parts_(std::move(parts)) {}

  int rank() const override { return parts_[0].communicator->rank(); }
  int size() const override { return parts_[0].communicator->size(); }
  std::string description() const override;
  bool overlaps() const override { return parts_[0].communicator->overlaps(); }

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
  /// Throws CommunicationError for a device that is not among the parts'.
  Communicator& at(at::Device device);

  std::vector<Part> parts_;
};

}  // namespace cxtrain
