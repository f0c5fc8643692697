#include "cxtrain/trainer/block_module.h"

#include <algorithm>
#include <map>

#include "cxtrain/base/error.h"
#include "cxtrain/strategy/block_pass.h"
#include "cxtrain/strategy/block_ranges.h"
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

void BlockModule::append(const std::string& name, std::shared_ptr<torch::nn::Module> module, double cost,
                         std::function<Carry(const Carry&)> forward) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) {
    register_module(name, module);
  } else {
    module_at(*this, name.substr(0, dot))->register_module(name.substr(dot + 1), module);
  }
  blocks_.add({name, std::move(module), cost, std::move(forward)});
}

void BlockModule::place_parts() {
  const std::size_t parts = std::min(device_count(), blocks_.size());
  if (parts < 2) return blocks_.place({});
  const std::vector<BlockRange> ranges = cut_by_cost(blocks_, parts);
  std::vector<at::Device> devices;
  for (std::size_t part = 0; part < parts; ++part)
    devices.insert(devices.end(), ranges[part].end - ranges[part].begin, part_device(part));
  blocks_.place(std::move(devices));
}

void BlockModule::require_blocks(const char* call) const {
  if (blocks_.is_whole || blocks_.observer() != nullptr) return;
  throw TrainingError(std::string(call) +
                      " is called outside of a step, and other ranks have some of the model's blocks; ask "
                      "is_whole() first");
}

Carry BlockModule::run_block_of(const torch::nn::Module* module, const Carry& carry) {
  require_blocks("run_block()");
  const std::size_t block = blocks_.number_of(module);
  if (block == blocks_.size())
    throw TrainingError(
        "run_block() got a module that is no block of the model; pass a module that add_block returned");
  return cxtrain::run_block(blocks_, block, carry);
}

void BlockModule::BlockList::add(Entry entry) {
  const auto same = [&](const Entry& other) { return other.name == entry.name; };
  if (entry.name.empty() || std::ranges::any_of(blocks_, same))
    throw ConfigError("model", "has two blocks named `" + entry.name + "`, or one without a name",
                      "give add_block another name", MessageCode::bad_model);
  blocks_.push_back(std::move(entry));
  KeepRanges* const keeps = KeepRanges::current();
  if (keeps == nullptr) return;
  for (Piece& piece : keeps->keep(*blocks_.back().module, blocks_.back().name))
    kept_.push_back(std::move(piece));
}

std::size_t BlockModule::BlockList::number_of(const torch::nn::Module* module) const {
  const auto is_it = [&](const Entry& entry) { return entry.module.get() == module; };
  return static_cast<std::size_t>(std::ranges::find_if(blocks_, is_it) - blocks_.begin());
}

void BlockModule::BlockList::place(std::vector<at::Device> devices) {
  devices_ = std::move(devices);
  std::map<const at::TensorImpl*, std::size_t> first_block;
  for (std::size_t block = 0; block < devices_.size(); ++block) {
    for (const at::Tensor& parameter : parameters_of(block)) {
      const std::size_t first = first_block.emplace(parameter.unsafeGetTensorImpl(), block).first->second;
      if (devices_[first] != devices_[block])
        throw ConfigError("trainer.devices_per_rank",
                          "the blocks `" + name_of(first) + "` and `" + name_of(block) +
                              "` share a parameter, and would lie on two devices",
                          "--devices_per_rank 1, or override place_parts()",
                          MessageCode::conflicting_options);
    }
    blocks_[block].module->to(devices_[block]);
  }
}

Carry BlockModule::BlockList::forward(std::size_t block, const Carry& carry) {
  if (devices_.empty()) return blocks_[block].forward(carry);
  Carry here;
  for (const at::Tensor& tensor : carry.tensors) {
    here.tensors.push_back(
        tensor.defined() ? tensor.to(devices_[block], tensor.scalar_type(), /*non_blocking=*/true) : tensor);
  }
  return blocks_[block].forward(here);
}

double BlockModule::BlockList::cost_of(std::size_t block) const {
  if (blocks_[block].cost > 0) return blocks_[block].cost;
  double parameters = 1;
  for (const at::Tensor& parameter : blocks_[block].module->parameters())
    parameters += static_cast<double>(parameter.numel());
  return parameters;
}

}  // namespace cxtrain
