#pragma once

#include "cxtrain/data/batch.h"
#include "cxtrain/strategy/blocks.h"

/// Models that are chains of blocks, as strategies see them.
namespace cxtrain {

/// Brings a batch through a chain. A strategy lends one to the chain for a step.
class ChainRunner {
 public:
  virtual ~ChainRunner() = default;
  /// Returns the outputs of the last block.
  virtual Carry run(const Batch& batch) = 0;
};

/// The part of a chain (`ChainModule`) that other models in blocks lack: each block of a chain takes the
/// output of the block before. One thread calls it.
class Chain {
 public:
  virtual ~Chain() = default;

  /// Returns the carry for the first block.
  virtual Carry first_carry(const Batch& batch) = 0;
  /// Sets who brings batches through the chain; null: the chain itself, block after block.
  virtual void lend(ChainRunner* runner) = 0;
};

}  // namespace cxtrain
