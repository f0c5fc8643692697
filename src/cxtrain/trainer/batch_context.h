#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "cxtrain/base/stage.h"

namespace cxtrain {

class Module;

/// The batch of a transfer hook (`Module::on_after_batch_transfer`): the loader that made the batch, and
/// random numbers.
class BatchContext {
 public:
  struct Place {
    Stage stage = Stage::fit;    ///< fit: a training batch; validate: also a sanity check's batch
    int dataloader_idx = 0;      ///< number of the loader
    std::int64_t epoch = 0;      ///< 0 in an evaluation
    std::int64_t batch_idx = 0;  ///< of the loader, in its epoch
    std::uint64_t seed = 0;      ///< seed of the run
  };
  /// `shard`: the number of this rank's share of the data (`DataShard`). `device`: of the batch's tensors
  /// during the hook. The module outlives the context.
  BatchContext(const Place& place, int shard, at::Device device, Module& module)
      : place_(place), shard_(shard), device_(device), module_(module) {}

  const Place& place() const { return place_; }
  Stage stage() const { return place_.stage; }
  /// Returns the device of the batch's tensors during the hook: the CPU before the transfer.
  at::Device device() const { return device_; }
  Module& module() const { return module_; }
  /// Returns a generator of `device()`, for operators that take one. The numbers depend on the place, the
  /// share of the data and the hook alone: a resumed run and a repeated run draw equal numbers. Made at the
  /// first call.
  at::Generator& generator();

 private:
  Place place_;
  int shard_;
  at::Device device_;
  Module& module_;
  at::Generator generator_;
};

}  // namespace cxtrain
