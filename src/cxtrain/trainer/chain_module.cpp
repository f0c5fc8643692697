#include "cxtrain/trainer/chain_module.h"

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/strategy/block_pass.h"
#include "cxtrain/strategy/keep_ranges.h"

namespace cxtrain {
namespace {

/// Returns the module at a path below `root`; makes modules without parameters where there are none.
std::shared_ptr<torch::nn::Module> module_at(torch::nn::Module& root, const std::string& path) {
  const std::size_t dot = path.find('.');
  const std::string child = path.substr(0, dot);
  const auto children = root.named_children();
  const std::shared_ptr<torch::nn::Module>* const found = children.find(child);
  const auto module =
      found != nullptr ? *found : root.register_module(child, std::make_shared<torch::nn::Module>(child));
  return dot == std::string::npos ? module : module_at(*module, path.substr(dot + 1));
}

}  // namespace

void ChainModule::append(const std::string& name, std::shared_ptr<torch::nn::Module> module, double cost,
                         Forward forward) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) {
    register_module(name, module);
  } else {
    module_at(*this, name.substr(0, dot))->register_module(name.substr(dot + 1), module);
  }
  chain_.add({name, std::move(module), cost, std::move(forward)});
}

void ChainModule::Blocks::add(Block block) {
  const auto same = [&](const Block& other) { return other.name == block.name; };
  if (block.name.empty() || std::any_of(blocks_.begin(), blocks_.end(), same))
    throw ConfigError("model", "has two blocks named `" + block.name + "`, or one without a name",
                      "give add_block another name", MessageCode::bad_model);
  blocks_.push_back(std::move(block));
  KeepRanges* const keeps = KeepRanges::current();
  if (keeps == nullptr) return;
  for (Piece& piece : keeps->keep(*blocks_.back().module, blocks_.back().name))
    kept_.push_back(std::move(piece));
}

Carry ChainModule::run(const Batch& batch) {
  if (chain_.runner != nullptr) return chain_.runner->run(batch);
  if (!chain_.whole)
    throw TrainingError(
        "run() is called outside of a step, and other ranks have some of the model's blocks; ask is_whole() "
        "first");
  Carry carry = inputs(batch);
  for (std::size_t block = 0; block < chain_.size(); ++block) carry = run_block(chain_, block, carry);
  return carry;
}

double ChainModule::Blocks::cost_of(std::size_t block) const {
  if (blocks_[block].cost > 0) return blocks_[block].cost;
  double parameters = 1;
  for (const at::Tensor& parameter : blocks_[block].module->parameters())
    parameters += static_cast<double>(parameter.numel());
  return parameters;
}

}  // namespace cxtrain
