#include "power_sgd_gradients.h"

#include <algorithm>
#include <utility>

#include "cxtrain/reduce/gradient_hooks.h"

namespace cxtrain {

PowerSgdGradients::PowerSgdGradients(std::vector<NamedTensor> parameters, Communicator& communicator,
                                     World& world, TensorSync* buffers, const Settings& settings)
    : parameters_(std::move(parameters)),
      world_(world),
      buffers_(buffers),
      find_unused_parameters_(settings.find_unused_parameters),
      power_sgd_(parameters_, communicator, settings.rank, settings.seed) {}

void PowerSgdGradients::zero_gradients() {
  is_complete_ = false;
  for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

void PowerSgdGradients::complete() {
  if (std::exchange(is_complete_, true)) return;
  std::vector<bool> touched;
  std::string untouched;
  for (const NamedTensor& parameter : parameters_) {
    touched.push_back(parameter.tensor.grad().defined());
    if (!touched.back() && parameter.tensor.requires_grad())
      untouched += (untouched.empty() ? "" : ", ") + parameter.name;
  }
  power_sgd_.average();
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

void PowerSgdGradients::bring_buffers() {
  if (buffers_ != nullptr) buffers_->broadcast();
}

}  // namespace cxtrain
