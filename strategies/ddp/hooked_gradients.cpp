#include "hooked_gradients.h"

#include <algorithm>
#include <utility>

#include "cxtrain/reduce/gradient_hooks.h"

namespace cxtrain {

HookedGradients::HookedGradients(std::vector<NamedTensor> parameters, std::shared_ptr<AveragingHook> hook,
                                 Communicator& communicator, World& world, TensorSync* buffers,
                                 bool find_unused_parameters)
    : OrderedExchange(buffers),
      parameters_(std::move(parameters)),
      hook_(std::move(hook)),
      world_(world),
      find_unused_parameters_(find_unused_parameters) {
  hook_->prepare(parameters_, communicator);
}

void HookedGradients::zero_gradients() {
  is_complete_ = false;
  for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

void HookedGradients::complete() {
  if (std::exchange(is_complete_, true)) return;
  std::vector<bool> touched;
  std::string untouched;
  for (const NamedTensor& parameter : parameters_) {
    touched.push_back(parameter.tensor.grad().defined());
    if (!touched.back() && parameter.tensor.requires_grad())
      untouched += (untouched.empty() ? "" : ", ") + parameter.name;
  }
  hook_->average();
  if (find_unused_parameters_) {
    touched = touched_on_any_rank(touched, world_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!touched[i]) parameters_[i].tensor.mutable_grad().reset();
    }
    return;
  }
  const bool skipped = std::find(touched.begin(), touched.end(), true) == touched.end();
  if (untouched.empty() || skipped || std::exchange(warned_unused_, true)) return;
  warn_of_missing_gradients(untouched);
}

}  // namespace cxtrain
