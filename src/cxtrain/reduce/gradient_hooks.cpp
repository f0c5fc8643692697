#include "cxtrain/reduce/gradient_hooks.h"

#include <c10/core/Event.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/transformed.h"

namespace cxtrain {
namespace {

struct GradientHook final : torch::autograd::PostAccumulateGradHook {
  GradientHook(GradientListener& l, std::size_t i) : listener(l), index(i) {}
  void operator()(const torch::autograd::Variable&) override { listener.on_gradient(index); }

  GradientListener& listener;
  std::size_t index;
};

}  // namespace

void hook_gradients(std::span<const at::Tensor> parameters, GradientListener& listener) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters[i],
                                                   std::make_unique<GradientHook>(listener, i));
  }
}

void unhook_gradients(std::span<const at::Tensor> parameters) {
  for (const at::Tensor& parameter : parameters)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

bool reducible_in_pool(const MemPool* pool, const at::Tensor& gradient, const at::Tensor& expected) {
  return pool != nullptr && pool->contains(gradient.const_data_ptr()) &&
         gradient.storage().use_count() == 1 && gradient.storage().nbytes() == expected.nbytes() &&
         gradient.strides() == expected.strides() && gradient.scalar_type() == expected.scalar_type() &&
         !gradient.requires_grad();
}

TrainingError second_gradient(const std::string& parameter, const std::string& part) {
  return TrainingError("the gradient of " + parameter + " came a second time in one step, after its " + part +
                       " had been reduced; --strategy.overlap false reduces all " + part +
                       "s after backward");
}

void warn_of_missing_gradients(const std::string& names) {
  log_warning("no gradient reached " + names +
              " in this step; counted as zero (if the forward pass leaves them out "
              "on purpose, --strategy.find_unused_parameters true keeps them without a gradient)");
}

std::vector<bool> touched_on_any_rank(const std::vector<bool>& touched, World& world) {
  const bool all = std::ranges::all_of(touched, [](bool here) { return here; });
  if (!world.any_rank(!all)) return touched;
  std::vector<double> ranks(touched.begin(), touched.end());
  world.sum(ranks);
  return transformed(ranks, [](double number) { return number > 0; });
}

void GradientStreams::note(c10::Device device) {
  const c10::Stream stream = current_stream(device);
  if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
}

void GradientStreams::join_first() const {
  for (const c10::Stream& other : streams_) {
    if (other == first()) continue;
    c10::Event made(other.device_type());
    made.record(other);
    made.block(first());
  }
}

}  // namespace cxtrain
