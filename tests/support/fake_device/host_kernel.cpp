#include "support/fake_device/host_kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <string_view>

#include "support/fake_device/generator.h"
#include "support/fake_device/launch.h"

namespace cxtrain::test {

namespace {

/// An operator's call on its way through the CPU's kernel.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), schema_(op.schema()), stack_(*stack), first_(stack->size() - schema_.arguments().size()) {}

  void run(const c10::OperatorHandle& kernel) {
    find_device();
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) note_accesses(i);
    const c10::DeviceGuard guard(*device_);
    const Launch launch(schema_.name(), *device_, accesses_);
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) argument(i) = to_host(i);
    {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      kernel.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    }
    std::vector<at::Tensor> made;
    for (const at::Tensor& tensor : written_) tensors_.adopt_resized(tensor, made);
    for (std::size_t i = stack_.size() - schema_.returns().size(); i < stack_.size(); ++i)
      stack_[i] = to_device(stack_[i], made);
    for (const at::Tensor& tensor : made) launch.made(tensor);
    if (host_has_to_know()) launch.wait(schema_.name());
  }

 private:
  c10::IValue& argument(std::size_t index) { return stack_[first_ + index]; }

  /// Calls `visit(tensor, is_index)` for each defined tensor among the arguments.
  template <typename Visit>
  void each_tensor(const c10::IValue& value, Visit visit) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor(), false);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector())
        if (tensor.defined()) visit(tensor, false);
    } else if (value.isOptionalTensorList()) {
      for (const auto& tensor : value.toOptionalTensorVector())
        if (tensor && tensor->defined()) visit(*tensor, true);
    }
  }

  /// The one device of all tensors. As for CUDA, a scalar or an index may be the CPU's.
  void find_device() {
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      if (argument(i).isDevice() && !device_) device_ = argument(i).toDevice();
      each_tensor(argument(i), [&](const at::Tensor& tensor, bool) {
        if (tensor.device().type() == c10::DeviceType::PrivateUse1 && (!device_ || !tensor_seen_)) {
          device_ = tensor.device();
          tensor_seen_ = true;
        }
      });
    }
    TORCH_CHECK(device_, schema_.name(), ": no argument says on which fake device");
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      each_tensor(argument(i), [&](const at::Tensor& tensor, bool is_index) {
        const bool allowed =
            tensor.device() == *device_ || (tensor.device().is_cpu() && (tensor.dim() == 0 || is_index));
        TORCH_CHECK(allowed,
                    "Expected all tensors to be on the same device, but found at least two devices, ",
                    *device_, " and ", tensor.device(), "! (when checking argument for argument ",
                    schema_.arguments()[i].name(), " in method ", schema_.name(), ")");
      });
    }
  }

  bool is_written(std::size_t index) {
    const c10::Argument& argument = schema_.arguments()[index];
    if (argument.alias_info() != nullptr) return argument.alias_info()->isWrite();
    // Its schema does not say that it updates its statistics.
    const bool statistics = argument.name() == "running_mean" || argument.name() == "running_var";
    return schema_.name() == "aten::native_batch_norm" && statistics && this->argument(5).toBool();
  }

  bool is_view() const {
    for (const c10::Argument& result : schema_.returns()) {
      if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
    }
    return false;
  }

  void note_accesses(std::size_t index) {
    const bool written = is_written(index);
    if (!written && is_view()) return;
    each_tensor(argument(index), [&](const at::Tensor& tensor, bool) {
      if (tensor.device().is_cpu()) return;
      accesses_.push_back(written ? writes(tensor) : reads(tensor));
      if (written) written_.push_back(tensor);
    });
  }

  c10::IValue to_host(std::size_t index) {
    const c10::IValue& value = argument(index);
    if (value.isTensor()) return tensors_.to_host(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(tensors_.to_host(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(tensors_.to_host(*tensor)) : std::nullopt);
      return list;
    }
    if (value.isDevice()) return c10::Device(c10::DeviceType::CPU);
    if (value.isGenerator()) return engine_of(value.toGenerator());
    if (value.isNone() && takes_generator(index)) return engine_of(default_generator(device_->index()));
    return value;
  }

  bool takes_generator(std::size_t index) const {
    const auto type = schema_.arguments()[index].type()->cast<c10::OptionalType>();
    return type && type->getElementType()->kind() == c10::TypeKind::GeneratorType;
  }

  at::Generator engine_of(const at::Generator& generator) const {
    TORCH_CHECK(generator.device() == *device_, "Expected a generator of ", *device_, " but found one of ",
                generator.device());
    return generator.get<FakeGenerator>()->engine();
  }

  c10::IValue to_device(const c10::IValue& value, std::vector<at::Tensor>& made) {
    if (value.isTensor()) return tensors_.to_device(value.toTensor(), *device_, made);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector())
        list.push_back(tensors_.to_device(tensor, *device_, made));
      return list;
    }
    return value;
  }

  /// Of indexing only masks need it, and these are turned into numbers by an operator of their own.
  bool host_has_to_know() const {
    if (std::string_view(schema_.name()).starts_with("aten::index")) return false;
    return op_.hasTag(at::Tag::data_dependent_output) || op_.hasTag(at::Tag::dynamic_output_shape);
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  std::size_t first_;
  std::optional<c10::Device> device_;
  bool tensor_seen_ = false;
  std::vector<Access> accesses_;
  std::vector<at::Tensor> written_;
  HostTensors tensors_;
};

}  // namespace

void run_on_host(const c10::OperatorHandle& op, const c10::OperatorHandle& kernel, torch::jit::Stack* stack) {
  Call(op, stack).run(kernel);
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run_on_host(op, op, stack); }

}  // namespace cxtrain::test

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<static_cast<void (*)(
                       const c10::OperatorHandle&, torch::jit::Stack*)>(&cxtrain::test::run_on_host)>());
}
