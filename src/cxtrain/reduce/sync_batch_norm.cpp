#include "cxtrain/reduce/sync_batch_norm.h"

#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/instance_norm_native.h>

#include <optional>
#include <utility>

#include "cxtrain/reduce/batch_norm_parts.h"

namespace cxtrain {
namespace {

/// Of the innermost scope that this thread is in.
thread_local Communicator* active = nullptr;

at::Tensor batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
                      const std::optional<at::Tensor>& running_var, bool training, double momentum,
                      double eps, bool cudnn_enabled) {
  if (active == nullptr || !training) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                                  cudnn_enabled);
  }
  const auto synchronised = input.is_cpu() ? batch_norm_on_host : batch_norm_on_device;
  return synchronised(input, weight, bias, running_mean, running_var, momentum, eps, *active);
}

/// LibTorch makes it a batch norm in which each sample has channels of its own.
at::Tensor instance_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                         const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
                         const std::optional<at::Tensor>& running_var, bool use_input_stats, double momentum,
                         double eps, bool cudnn_enabled) {
  struct Suspend {
    Communicator* outer = std::exchange(active, nullptr);
    ~Suspend() { active = outer; }
  } const suspend;
  return at::native::instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum,
                                   eps, cudnn_enabled);
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(Communicator& communicator)
    : communicator_(communicator), kernels_(torch::Library::IMPL, "aten", std::nullopt, __FILE__, __LINE__) {
  // The keys themselves: a kernel for the alias Autograd would not come before LibTorch's composite one.
  // PrivateUse1 is any accelerator that LibTorch does not know by name.
  for (const c10::DispatchKey key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA,
                                     c10::DispatchKey::AutogradPrivateUse1}) {
    kernels_.impl("batch_norm", torch::dispatch(key, TORCH_FN(batch_norm)));
    kernels_.impl("instance_norm", torch::dispatch(key, TORCH_FN(instance_norm)));
  }
}

SyncBatchNorm::Scope::Scope(SyncBatchNorm& sync) : outer_(std::exchange(active, &sync.communicator_)) {}
SyncBatchNorm::Scope::~Scope() { active = outer_; }

}  // namespace cxtrain
