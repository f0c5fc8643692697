#pragma once

#include <cstdint>
#include <string>

#include "cxtrain/optim/schedule.h"

namespace cxtrain {

/// Where a training stands. The data's position is a pure function of (seed, epoch, batch); the learning rate
/// one of (epoch, global_step) and `plateau`. The optimizer, the loss scale, the metrics of the running
/// epoch, and callbacks keep state of their own.
struct TrainState {
  std::int64_t epoch = 0;        ///< epochs completed
  std::int64_t batch = 0;        ///< micro-batches done in the current epoch
  std::int64_t global_step = 0;  ///< optimizer steps done
  std::int64_t samples = 0;      ///< trained on, over all ranks
  std::uint64_t seed = 0;
  PlateauState plateau;

  std::string cpu_rng;   ///< of this rank, as `capture_rng` reads it
  std::string cuda_rng;  ///< empty on CPU
};

/// Reads the random generators of this rank and its device into the state, and back.
void capture_rng(TrainState& state, int cuda_device);
void restore_rng(const TrainState& state, int cuda_device);

/// Seeds the generators of this rank: every rank alike, so that ranks build the same model. -1: no CUDA
/// device.
void seed_everything(std::uint64_t seed, int cuda_device);

}  // namespace cxtrain
