#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/data/batch.h"
#include "cxtrain/tensor/piece.h"

/// Models that are chains of blocks, as strategies see them.
namespace cxtrain {

/// The tensors that one block of a chain hands to the next block, with the samples in dimension 0. A
/// floating-point tensor gets a gradient in backward; any other tensor gets none.
struct Carry {
  std::vector<at::Tensor> tensors = {};

  Carry() = default;
  explicit Carry(at::Tensor tensor) : tensors{std::move(tensor)} {}
  explicit Carry(std::vector<at::Tensor> several) : tensors(std::move(several)) {}

  /// Returns the only tensor. Throws TrainingError if there are several, or none.
  const at::Tensor& tensor() const {
    if (tensors.size() == 1) return tensors.front();
    throw TrainingError("a block hands on " + std::to_string(tensors.size()) +
                        " tensors, and one was asked for");
  }
};

/// Brings a batch through a chain. A strategy lends one to the chain for a step.
class ChainRunner {
 public:
  virtual ~ChainRunner() = default;
  /// Returns the outputs of the last block.
  virtual Carry run(const Batch& batch) = 0;
};

/// A model that is a chain of blocks (`ChainModule`). One thread calls it.
class Chain {
 public:
  virtual ~Chain() = default;

  /// Number of blocks, at least one.
  virtual std::size_t size() const = 0;
  virtual const std::string& name_of(std::size_t block) const = 0;
  /// The cost of a forward pass of the block, in any unit that is the same for all blocks.
  virtual double cost_of(std::size_t block) const = 0;
  /// Handles of the block's parameters. Blocks may share parameters.
  virtual std::vector<at::Tensor> parameters_of(std::size_t block) const = 0;
  virtual std::vector<at::Tensor> buffers_of(std::size_t block) const = 0;

  /// Returns the carry for the first block.
  virtual Carry inputs(const Batch& batch) = 0;
  /// Runs the layers of the block. Strategies call `run_block`.
  virtual Carry forward(std::size_t block, const Carry& carry) = 0;

  /// Sets who brings batches through the chain; null: the chain itself, block after block.
  virtual void lend(ChainRunner* runner) = 0;
  /// Sets whether `run_block` keeps no activations of a block between forward and backward.
  virtual void set_recompute(bool recompute) = 0;
  virtual bool recomputes() const = 0;
  /// Takes what this rank has of hollow parameters, if the chain was built so (`KeepRanges`).
  virtual std::vector<Piece> take_kept() = 0;
  /// Sets whether this rank has the parameters of all blocks.
  virtual void set_whole(bool whole) = 0;
};

}  // namespace cxtrain
