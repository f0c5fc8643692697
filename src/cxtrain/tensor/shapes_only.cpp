#include "cxtrain/tensor/shapes_only.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace cxtrain {
namespace {

/// Runs every operator with the device `meta` in place of the device that it is asked for.
void run_on_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "device") first[static_cast<std::ptrdiff_t>(i)] = at::Device(at::kMeta);
  }
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::DeferredInit);
  op.callBoxed(stack);
}

/// The key `DeferredInit` is LibTorch's place for such a mode: nothing in LibTorch itself uses the key.
c10::DispatchKey registered_key() {
  static const torch::Library mode = [] {
    torch::Library library(torch::Library::IMPL, "_", c10::DispatchKey::DeferredInit, __FILE__, __LINE__);
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_meta>());
    return library;
  }();
  return c10::DispatchKey::DeferredInit;
}

}  // namespace

ShapesOnly::ShapesOnly() : mode_(registered_key()) {}

bool ShapesOnly::active() { return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::DeferredInit); }

}  // namespace cxtrain
