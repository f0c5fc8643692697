#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/batch_context.h"
#include "cxtrain/trainer/batch_transfer.h"
#include "cxtrain/trainer/data_module.h"

namespace cxtrain {

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
  void release_memory();

 private:
  BatchContext context_of(const DataLoader& loader, at::Device device) const;

  at::Device device_;
  std::optional<at::ScalarType> dtype_;
  bool channels_last_;
  Hooks hooks_;
  std::optional<BatchTransfer> transfer_;  ///< to a device other than the CPU
};

}  // namespace cxtrain
