#include "cxtrain/reduce/optimizer_shards.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "cxtrain/comm/node_memory.h"

namespace cxtrain {
namespace {

/// Puts the tensor's values at `place`, and the tensor there. It keeps the memory.
void move_to(const at::Tensor& tensor, std::byte* place, const std::shared_ptr<SharedMemory>& memory) {
  const at::Tensor there = at::from_blob(
      place, tensor.sizes(), tensor.strides(), [memory](void*) {}, tensor.options().requires_grad(false));
  there.copy_(tensor);
  at::Tensor(tensor).set_data(there);
}

}  // namespace

std::string OptimizerShards::obstacle(const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.is_cpu()) return name + " is not in host memory";
    if (!tensor.is_non_overlapping_and_dense()) return name + " does not lie in one piece";
    if (tensor.storage().use_count() > 1 || tensor.storage().nbytes() != tensor.nbytes())
      return name + " shares its memory with another tensor";
  }
  return {};
}

std::unique_ptr<OptimizerShards> OptimizerShards::divide(const std::vector<NamedTensor>& parameters,
                                                         Communicator& communicator, World& world) {
  if (world.max(obstacle(parameters).empty() ? 0 : 1) != 0) return nullptr;
  NodeMemory* const node_memory = communicator.node_memory();
  if (node_memory == nullptr) return nullptr;
  const std::vector<ParameterShape> shapes = shapes_of(parameters);
  const std::size_t bytes = plan_shards(shapes, 1).ends.back();
  std::unique_ptr<NodeReplicas> replicas = node_memory->node_replicas(bytes);
  if (replicas == nullptr) return nullptr;
  ShardPlan plan = plan_shards(shapes, replicas->size());
  return std::unique_ptr<OptimizerShards>(
      new OptimizerShards(std::move(plan), std::move(replicas), parameters));
}

OptimizerShards::OptimizerShards(ShardPlan plan, std::unique_ptr<NodeReplicas> replicas,
                                 const std::vector<NamedTensor>& parameters)
    : plan_(std::move(plan)), replicas_(std::move(replicas)) {
  const at::NoGradGuard no_grad;
  const std::shared_ptr<SharedMemory> memory = replicas_->mine();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    move_to(parameters[i].tensor, memory->data() + plan_.offsets[i], memory);
    parameters_.push_back(parameters[i].tensor);
  }
}

std::span<const ElementRange> OptimizerShards::mine() const {
  return plan_.shards[static_cast<std::size_t>(replicas_->rank())];
}

void OptimizerShards::all_gather() {
  replicas_->all_gather(plan_.ends);
  // Autograd is to know, as of any change in place.
  for (const at::Tensor& parameter : parameters_) parameter.unsafeGetTensorImpl()->bump_version();
}

}  // namespace cxtrain
