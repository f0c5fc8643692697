#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/tensor/piece.h"

/// Models in blocks, as strategies see them.
namespace cxtrain {

/// The tensors that a block takes or returns, with the samples in dimension 0. A floating-point tensor gets a
/// gradient in backward; any other tensor gets none.
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

/// Receives a call before and after each pass of a block, on the thread that runs the pass. Backward passes
/// run on autograd's threads, while the caller of `backward` waits.
class BlockObserver {
 public:
  virtual ~BlockObserver() = default;
  virtual void before_forward(std::size_t block) = 0;
  virtual void after_forward(std::size_t block) = 0;
  virtual void before_backward(std::size_t block) = 0;
  virtual void after_backward(std::size_t block) = 0;
};

/// The blocks of a model (`BlockModule`), in the order in which a step runs them. One thread calls it.
class Blocks {
 public:
  virtual ~Blocks() = default;

  /// Number of blocks, at least one.
  virtual std::size_t size() const = 0;
  virtual const std::string& name_of(std::size_t block) const = 0;
  /// The cost of a forward pass of the block, in any unit that is the same for all blocks.
  virtual double cost_of(std::size_t block) const = 0;
  /// Handles of the block's parameters. Blocks may share parameters.
  virtual std::vector<at::Tensor> parameters_of(std::size_t block) const = 0;
  virtual std::vector<at::Tensor> buffers_of(std::size_t block) const = 0;

  /// Runs the layers of the block. Strategies call `run_block`.
  virtual Carry forward(std::size_t block, const Carry& carry) = 0;

  /// Sets who sees the passes that `run_block` begins from now on, forward and backward; null: nobody.
  virtual void set_observer(BlockObserver* observer) = 0;
  virtual BlockObserver* observer() const = 0;
  /// Sets whether `run_block` keeps no activations of a block between forward and backward.
  virtual void set_recompute(bool recompute) = 0;
  virtual bool recomputes() const = 0;
  /// Between runs: this rank's pieces of hollow parameters. A strategy takes the pieces, and its `teardown`
  /// gives back pieces of the parameters that stay hollow.
  virtual std::vector<Piece>& kept() = 0;
  /// Sets whether this rank has the parameters of all blocks.
  virtual void set_whole(bool whole) = 0;
};

}  // namespace cxtrain
