#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/cuda/nccl_handle.h"
#include "cxtrain/cuda/stream_work.h"

namespace cxtrain {

/// Collectives between GPUs, one per rank, over NCCL.
///
/// They run on one high-priority stream of their own, which waits for the caller's current stream at each of
/// them, so that they run beside what the caller submits next. A part (`split`) shares the stream: kernels of
/// two communicators that start in another order on each rank could wait for each other for ever. No method
/// waits for the GPU; the world's watchdog ends the process when a collective does not end, or NCCL finds an
/// error in the background (a lost peer). NCCL adds 16-bit floats pairwise in their own type along its ring
/// or tree, other than host memory, where they accumulate in float32; `avg` divides before it adds.
class NcclCommunicator final : public Communicator {
 public:
  /// Collective over the world, which outlives it. `device`: this rank's own, other than any other rank's.
  /// Sends messages as large as gradients' at once: NCCL connects what it needs at the first of each kind,
  /// and takes memory of the device for it, which a training step may have used up. Throws
  /// CommunicationError.
  NcclCommunicator(World& world, c10::Device device, const NcclLibrary& library = nccl_library());
  ~NcclCommunicator() override;

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  std::string description() const override { return "NCCL " + nccl_version_text(comm_->version()); }
  bool overlaps() const override { return true; }

  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override;
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override;
  void all_gather(const at::Tensor& output, const at::Tensor& input) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int to) override;
  void recv(const at::Tensor& tensor, int from) override;
  void join() override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  /// A part of another one.
  NcclCommunicator(c10::Stream stream, std::unique_ptr<NcclHandle> comm);
  void connect_all();
  void require_here(const char* operation, const at::Tensor& tensor) const;
  /// Enqueues `operation(stream)`, which uses the tensors, after the current stream's work.
  template <class Operation>
  void submit(const char* name, std::initializer_list<const at::Tensor*> tensors, Operation operation);

  c10::Stream stream_;
  c10::Event submitted_, finished_;
  /// What the stream may use still. Given back when the caller's stream has waited for it (`join`), so that
  /// the allocator gives the memory to nobody before.
  std::vector<at::Tensor> used_;
  std::unique_ptr<NcclHandle> comm_;
  StreamWork work_;  ///< ends before what it asks
};

}  // namespace cxtrain
