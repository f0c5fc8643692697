#include "cxtrain/strategy/block_pass.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/precision/policy.h"

namespace cxtrain {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::isDifferentiableType;
using torch::autograd::variable_list;

/// States of random generators.
class GeneratorStates {
 public:
  /// The states of the CPU's generator and of the generators of the tensors' devices.
  explicit GeneratorStates(const variable_list& tensors) {
    std::set<std::pair<c10::DeviceType, c10::DeviceIndex>> devices{{c10::DeviceType::CPU, -1}};
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.is_cpu()) devices.emplace(tensor.device().type(), tensor.device().index());
    }
    for (const auto& [type, index] : devices) {
      at::Generator generator = at::globalContext().defaultGenerator(at::Device(type, index));
      const std::lock_guard<std::mutex> lock(generator.mutex());
      states_.emplace_back(generator, generator.get_state());
    }
  }
  void restore() {
    for (auto& [generator, state] : states_) {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

/// The values of a block's buffers.
class BufferValues {
 public:
  explicit BufferValues(std::vector<at::Tensor> buffers) : buffers_(std::move(buffers)) {
    for (const at::Tensor& buffer : buffers_) values_.push_back(buffer.detach().clone());
  }
  /// Writes the values back. Autograd's version counters stay: the graph of the block may have saved a
  /// buffer, whose value changes no gradient.
  void restore() {
    const at::AutoDispatchBelowADInplaceOrView same_versions;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(values_[i]);
  }

 private:
  std::vector<at::Tensor> buffers_, values_;
};

/// Converted weights are not kept for other blocks while it lives: they belong to the graph of one block.
class NoAutocastCache {
 public:
  NoAutocastCache() : was_enabled_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoAutocastCache() { at::autocast::set_autocast_cache_enabled(was_enabled_); }
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  bool was_enabled_;
};

/// The tensor without its history. In-place changes of either tensor count for both.
at::Tensor without_history(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return at::Tensor(
      impl.shallow_copy_and_detach(impl.version_counter(), /*allow_tensor_metadata_change=*/true));
}

/// One pass of a block through the graph.
struct BlockPass final : torch::CustomClassHolder {
  BlockPass(Blocks& of, std::size_t number, variable_list carry)
      : blocks(of), block(number), observer(of.observer()), inputs(std::move(carry)) {
    for (at::Tensor& parameter : blocks.parameters_of(block)) {
      if (parameter.requires_grad()) parameters.push_back(std::move(parameter));
    }
    for (const at::Tensor& input : inputs) versions.push_back(input._version());
    const at::Tensor& any = inputs.empty() ? parameters.front() : inputs.front();
    device = any.device().type();
    if (at::autocast::is_autocast_enabled(device)) autocast = at::autocast::get_autocast_dtype(device);
  }

  /// Tensors on the devices that the block draws random numbers on.
  variable_list tensors() const {
    variable_list all = inputs;
    all.insert(all.end(), parameters.begin(), parameters.end());
    return all;
  }

  variable_list forward() {
    if (observer != nullptr) observer->before_forward(block);
    const NoAutocastCache apart;
    Carry carry;
    if (blocks.recomputes()) {
      generators.emplace(tensors());
      carry = blocks.forward(block, Carry(inputs));
    } else {
      carry = run_with_graph();
    }
    variable_list handed_on;
    for (const at::Tensor& output : carry.tensors) handed_on.push_back(without_history(output));
    if (observer != nullptr) observer->after_forward(block);
    return handed_on;
  }

  /// Runs the block with a graph of its own, which begins at `leaves`.
  Carry run_with_graph() {
    leaves.clear();
    for (const at::Tensor& input : inputs)
      leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
    const at::AutoGradMode graph(true);
    Carry carry = blocks.forward(block, Carry(leaves));
    outputs = carry.tensors;
    return carry;
  }

  void run_again() {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i]._version() != versions[i])
        throw TrainingError("the block `" + blocks.name_of(block) +
                            "`, or the block behind it, changes its input in place, and "
                            "trainer.recompute_blocks needs the input in backward");
    }
    // Meanwhile generators draw again what they have drawn in the forward pass.
    GeneratorStates present(tensors());
    generators->restore();
    const auto draws = c10::make_scope_exit([&present] { present.restore(); });
    BufferValues buffers(blocks.buffers_of(block));
    const AutocastGuard as_before(device, autocast);
    const NoAutocastCache apart;
    run_with_graph();
    buffers.restore();
  }

  /// Returns the gradients of the inputs, then of the parameters. Undefined: there is none.
  variable_list backward(const variable_list& gradients) {
    if (c10::GradMode::is_enabled())
      throw TrainingError("the block `" + blocks.name_of(block) +
                          "` has no second derivatives under this strategy or trainer.recompute_blocks");
    if (observer != nullptr) observer->before_backward(block);
    if (generators) run_again();
    variable_list from, with, wanted;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
      from.push_back(outputs[i]);
      with.push_back(gradients[i]);
    }
    for (const at::Tensor& leaf : leaves) {
      if (leaf.requires_grad()) wanted.push_back(leaf);
    }
    wanted.insert(wanted.end(), parameters.begin(), parameters.end());
    outputs.clear();
    variable_list found(wanted.size());
    if (!from.empty())
      found = torch::autograd::grad(from, wanted, with, /*retain_graph=*/std::nullopt,
                                    /*create_graph=*/false, /*allow_unused=*/true);
    variable_list result;
    std::size_t next = 0;
    for (const at::Tensor& leaf : leaves)
      result.push_back(leaf.requires_grad() ? std::move(found[next++]) : at::Tensor());
    leaves.clear();
    result.insert(result.end(), std::make_move_iterator(found.begin() + static_cast<std::ptrdiff_t>(next)),
                  std::make_move_iterator(found.end()));
    if (observer != nullptr) observer->after_backward(block);
    return result;
  }

  Blocks& blocks;
  std::size_t block;
  BlockObserver* observer;
  c10::DeviceType device = c10::DeviceType::CPU;
  std::optional<c10::ScalarType> autocast = {};
  variable_list inputs, parameters;
  std::vector<std::int64_t> versions;              ///< of the inputs
  std::optional<GeneratorStates> generators = {};  ///< before the forward pass, if backward repeats it
  variable_list leaves, outputs;                   ///< of the block's own graph
};

/// The function that autograd sees.
struct BlockFunction : torch::autograd::Function<BlockFunction> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<BlockPass>& pass,
                               at::TensorList /*inputs and parameters*/) {
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    context->set_materialize_grads(false);
    variable_list outputs = pass->forward();
    variable_list integers;
    std::copy_if(outputs.begin(), outputs.end(), std::back_inserter(integers),
                 [](const at::Tensor& output) { return !isDifferentiableType(output.scalar_type()); });
    context->mark_non_differentiable(integers);
    return outputs;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const c10::intrusive_ptr<torch::CustomClassHolder> saved = context->saved_data["pass"].toCapsule();
    variable_list result{at::Tensor()};  // the argument `pass` has no gradient
    for (at::Tensor& gradient : static_cast<BlockPass&>(*saved).backward(gradients))
      result.push_back(std::move(gradient));
    return result;
  }
};

}  // namespace

Carry run_block(Blocks& blocks, std::size_t block, const Carry& carry) {
  BlockObserver* const observer = blocks.observer();
  const bool with_graph = c10::GradMode::is_enabled();
  if (with_graph && (observer != nullptr || blocks.recomputes())) {
    const auto pass = c10::make_intrusive<BlockPass>(blocks, block, carry.tensors);
    const variable_list tensors = pass->tensors();
    return Carry(BlockFunction::apply(pass, at::TensorList(tensors)));
  }
  if (observer == nullptr) return blocks.forward(block, carry);
  observer->before_forward(block);
  Carry outputs = blocks.forward(block, carry);
  observer->after_forward(block);
  return outputs;
}

}  // namespace cxtrain
