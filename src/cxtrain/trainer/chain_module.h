#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/strategy/chain.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// A Module whose forward pass is a chain of blocks. Every strategy trains it; `pipeline` needs it, and puts
/// consecutive blocks on different ranks.
///
///     class Net : public cxtrain::ChainModule {
///      public:
///       Net() {
///         add_block("embed", Embed(256));
///         for (int i = 0; i < 8; ++i) add_block("blocks." + std::to_string(i), Block(256));
///         add_block("head", Head(256));
///       }
///       cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
///         return torch::cross_entropy_loss(run(batch).tensor(), batch[1]);
///       }
///     };
///
/// Under `pipeline` the step methods run on the ranks with the last block. Elsewhere the blocks run without
/// them: only blocks use parameters, and `inputs` alone reads what the first block needs.
class ChainModule : public Module {
 public:
  Chain* chain() final { return &chain_; }

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
        return block->forward(carry);
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
      chain_.add({name + "." + std::to_string(number++), layer.ptr(), 0,
                  [layer](const Carry& carry) mutable { return Carry(layer.forward(carry.tensor())); }});
    }
    return net;
  }

  /// Returns what the first block gets of a batch; by default its first tensor.
  virtual Carry inputs(const Batch& batch) { return Carry(batch[0]); }

  /// Brings a batch through the blocks, and returns the outputs of the last block. A step calls it once.
  /// Throws TrainingError outside of steps if other ranks have some of the blocks.
  Carry run(const Batch& batch);
  /// Returns whether this rank has all blocks, so that `run` works outside of steps, too.
  bool is_whole() const { return chain_.whole; }

 private:
  using Forward = std::function<Carry(const Carry&)>;
  struct Block {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    double cost;
    Forward forward;
  };
  /// The blocks, as strategies see them.
  class Blocks final : public Chain {
   public:
    explicit Blocks(ChainModule& module) : module_(module) {}
    void add(Block block);

    std::size_t size() const override { return blocks_.size(); }
    const std::string& name_of(std::size_t block) const override { return blocks_[block].name; }
    double cost_of(std::size_t block) const override;
    std::vector<at::Tensor> parameters_of(std::size_t block) const override {
      return blocks_[block].module->parameters();
    }
    std::vector<at::Tensor> buffers_of(std::size_t block) const override {
      return blocks_[block].module->buffers();
    }
    Carry inputs(const Batch& batch) override { return module_.inputs(batch); }
    Carry forward(std::size_t block, const Carry& carry) override { return blocks_[block].forward(carry); }
    void lend(ChainRunner* lent) override { runner = lent; }
    void set_recompute(bool recompute) override { recompute_ = recompute; }
    bool recomputes() const override { return recompute_; }
    std::vector<Piece> take_kept() override { return std::exchange(kept_, {}); }
    void set_whole(bool is_whole) override { whole = is_whole; }

    ChainRunner* runner = nullptr;
    bool whole = true;

   private:
    ChainModule& module_;
    std::vector<Block> blocks_;
    std::vector<Piece> kept_;
    bool recompute_ = false;
  };

  void append(const std::string& name, std::shared_ptr<torch::nn::Module> module, double cost,
              Forward forward);

  Blocks chain_{*this};
};

}  // namespace cxtrain
