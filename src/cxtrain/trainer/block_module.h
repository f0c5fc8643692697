#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/strategy/blocks.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// A Module whose layers are in blocks, which its steps run by `run_block`. A block may take the outputs of
/// several earlier blocks. Every strategy but `pipeline` trains it. Stage 3 of `zero` needs blocks where
/// ranks share no memory: a rank then has the parameters of one or two blocks at a time.
///
///     class Net : public cxtrain::BlockModule {
///      public:
///       Net() {
///         fine_ = add_block("fine", Encoder(1, 16));
///         coarse_ = add_block("coarse", Encoder(16, 32));
///         decoder_ = add_block("decoder", Decoder(16, 32));
///       }
///       at::Tensor forward(const at::Tensor& images) {
///         const at::Tensor fine = run_block(fine_, images);
///         const at::Tensor coarse = run_block(coarse_, fine);
///         return run_block(decoder_, cxtrain::Carry({fine, coarse})).tensor();
///       }
///       ...
///       Encoder fine_{nullptr}, coarse_{nullptr};
///       Decoder decoder_{nullptr};
///     };
///
/// In a `ChainModule` each block takes the output of the block before.
///
/// With `--devices_per_rank n` consecutive blocks of about equal cost lie on each device. A block gets its
/// inputs on its device, and leaves its outputs there: a step moves them where it needs them.
class BlockModule : public Module {
 public:
  /// Places the blocks by cost. Throws ConfigError if blocks on different devices share a parameter. A model
  /// that overrides it places its blocks itself, and moves tensors from block to block by `to_part`.
  void place_parts() override;

 protected:
  /// Appends a block and registers it as a submodule; dots in the name make a tree ("blocks.0"). `Holder`: a
  /// module holder (TORCH_MODULE) whose `forward` takes a tensor or a Carry and returns either. A block that
  /// registers a parameter of an earlier block shares it (tied weights). `cost`: of a forward pass, in any
  /// unit that is the same for all blocks; 0: the number of the block's parameters.
  template <class Holder>
  Holder add_block(const std::string& name, Holder block, double cost = 0) {
    append(name, block.ptr(), cost, [block](const Carry& carry) mutable -> Carry {
      if constexpr (requires { block->forward(carry.tensor()); }) {
        return Carry(block->forward(carry.tensor()));
      } else {
        return Carry(block->forward(carry));
      }
    });
    return block;
  }
  /// Appends each layer of a `torch::nn::Sequential` as a block, and registers the Sequential. Each layer
  /// takes a tensor and returns one.
  template <class Sequential>
  Sequential add_blocks(const std::string& name, Sequential net) {
    register_module(name, net);
    int number = 0;
    for (auto& layer : *net) {
      blocks_.add({name + "." + std::to_string(number++), layer.ptr(), 0,
                   [layer](const Carry& carry) mutable { return Carry(layer.forward(carry.tensor())); }});
    }
    return net;
  }

  /// Runs a block that `add_block` returned. Where blocks are gathered, a step runs each block at most once,
  /// in the order of `add_block`. Throws TrainingError for a module that is no block of the model, and
  /// outside of steps if other ranks have some of the blocks.
  template <class Holder>
  Carry run_block(const Holder& block, const Carry& carry) {
    return run_block_of(block.ptr().get(), carry);
  }
  /// The same, for a block that takes a tensor and returns one.
  template <class Holder>
  at::Tensor run_block(const Holder& block, const at::Tensor& input) {
    return run_block(block, Carry(input)).tensor();
  }

  /// Returns whether this rank has all blocks, so that they run outside of steps, too.
  bool is_whole() const { return blocks_.is_whole; }
  /// Throws TrainingError if blocks cannot run now. `call`: of the model's code.
  void require_blocks(const char* call) const;

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    double cost;
    std::function<Carry(const Carry&)> forward;
  };
  /// The blocks, as strategies see them.
  class BlockList final : public Blocks {
   public:
    void add(Entry entry);
    /// Returns the number of the block that is this module; `size()`: there is none.
    std::size_t number_of(const torch::nn::Module* module) const;
    /// Moves blocks to these devices, one for each block; none: they stay where they are.
    void place(std::vector<at::Device> devices);

    std::size_t size() const override { return blocks_.size(); }
    const std::string& name_of(std::size_t block) const override { return blocks_[block].name; }
    double cost_of(std::size_t block) const override;
    std::vector<at::Tensor> parameters_of(std::size_t block) const override {
      return blocks_[block].module->parameters();
    }
    std::vector<at::Tensor> buffers_of(std::size_t block) const override {
      return blocks_[block].module->buffers();
    }
    Carry forward(std::size_t block, const Carry& carry) override;
    void set_observer(BlockObserver* observer) override { observer_ = observer; }
    BlockObserver* observer() const override { return observer_; }
    void set_recompute(bool recompute) override { recompute_ = recompute; }
    bool recomputes() const override { return recompute_; }
    std::vector<Piece>& kept() override { return kept_; }
    void set_whole(bool whole) override { is_whole = whole; }

    bool is_whole = true;

   private:
    std::vector<Entry> blocks_;
    std::vector<at::Device> devices_;  ///< of the blocks; empty: they move no inputs
    std::vector<Piece> kept_;
    BlockObserver* observer_ = nullptr;
    bool recompute_ = false;
  };

  Blocks* blocks() final { return &blocks_; }
  void append(const std::string& name, std::shared_ptr<torch::nn::Module> module, double cost,
              std::function<Carry(const Carry&)> forward);
  Carry run_block_of(const torch::nn::Module* module, const Carry& carry);

  BlockList blocks_;
};

}  // namespace cxtrain
