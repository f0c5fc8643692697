#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>
#include <vector>

#include "cxtrain/data/batch.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/batch_context.h"
#include "cxtrain/trainer/data_module.h"

namespace cxtrain {

/// Brings batches to a device on a stream of its own, so that a batch travels while the device still computes
/// the steps before it. The memory that batches lie in is this object's, and is used again: it holds as many
/// batches as are in use at once, and one more.
class BatchTransfer {
 public:
  /// To an accelerator.
  explicit BatchTransfer(c10::Device device);
  ~BatchTransfer();
  BatchTransfer(const BatchTransfer&) = delete;
  BatchTransfer& operator=(const BatchTransfer&) = delete;

  /// Replaces the CPU tensors of the batch and its objects by copies on the device, for the stream that the
  /// calling thread uses there; other tensors stay. The host does not wait where the tensors are page-locked.
  /// A copy is the caller's for as long as it holds it.
  void bring(Batch& batch);
  /// What batches travel on.
  const c10::Stream& stream() const { return stream_; }

 private:
  struct Slot {
    at::Tensor memory;                   ///< uint8, of the largest batch that it has held
    std::optional<c10::Event> last_use;  ///< set while nobody holds a tensor of it
  };

  /// One that nobody has held since before the last call, so that what used it is done or soon will be.
  Slot& free_slot();
  /// Looks which slots nobody holds any more.
  void note_free_slots(const c10::Stream& computing);
  std::vector<at::Tensor> copy(const std::vector<at::Tensor>& tensors, Slot& slot) const;
  void copy_with_objects(Batch& batch, Slot& slot) const;

  c10::Device device_;
  c10::Stream stream_;
  c10::Event arrived_;
  std::vector<Slot> slots_;
};

/// Brings the batches of a DataLoader to this rank's device, in the dtype and the memory format of the
/// model's inputs.
class DeviceLoader {
 public:
  /// The hooks of batches, of this rank. All outlive the loader.
  struct Hooks {
    DataModule& data;
    Module& module;
    int shard;  ///< number of this rank's share of the data
  };
  /// `dtype`: of floating-point inputs; absent: they keep their own. `channels_last`: the memory format of
  /// images.
  DeviceLoader(at::Device device, std::optional<at::ScalarType> dtype, bool channels_last,
               const Hooks& hooks);

  /// Reads the loader's next batch, between the transfer hooks; false at the end of the loader's epoch.
  bool next(DataLoader& loader, Batch& batch);
  /// Frees the device memory that batches lay in. Nobody may hold a batch any more, and the device is idle.
  void release_memory() {
    if (transfer_) transfer_.emplace(device_);
  }

 private:
  BatchContext context_of(const DataLoader& loader, at::Device device) const;

  at::Device device_;
  std::optional<at::ScalarType> dtype_;
  bool channels_last_;
  Hooks hooks_;
  std::optional<BatchTransfer> transfer_;  ///< to a device other than the CPU
};

}  // namespace cxtrain
