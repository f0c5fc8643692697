#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "support/fake_device/fake_device.h"

namespace cxtrain::test {

namespace {

/// CUDA's kernels of `_foreach_*_` bump the versions of what they write by themselves, since no code is
/// generated for it. The fused optimizers' do not, and neither does the CPU.
void bump_versions(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - op.schema().arguments().size();
  const std::vector<at::Tensor> written = (*stack)[first].toTensorVector();
  std::vector<std::uint32_t> versions;
  for (const at::Tensor& tensor : written)
    versions.push_back(
        tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version());
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
  for (std::size_t i = 0; i < written.size(); ++i) {
    auto* const impl = written[i].unsafeGetTensorImpl();
    if (!written[i].is_inference() && impl->version_counter().current_version() == versions[i])
      impl->bump_version();
  }
}

}  // namespace

void register_foreach_kernels() {
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::_foreach_") || !name.name.ends_with("_")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) continue;
    std::string text = name.name.substr(6);
    if (!name.overload_name.empty()) text += "." + name.overload_name;
    library->impl(text.c_str(), torch::CppFunction::makeFromBoxedFunction<&bump_versions>());
  }
}

}  // namespace cxtrain::test
