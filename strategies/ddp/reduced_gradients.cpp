#include "reduced_gradients.h"

#include <set>
#include <sstream>
#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {

ReducedGradients::ReducedGradients(std::vector<NamedTensor> parameters, Communicator& communicator,
                                   World& world, const ReducerOptions& options, TensorSync* buffers)
    : parameters_(std::move(parameters)),
      communicator_(communicator),
      world_(world),
      options_(options),
      buffers_(buffers) {
  make_reducer();
}

void ReducedGradients::make_reducer() {
  reducer_.reset();  // its hooks and memory before the next one's
  reducer_ = std::make_unique<Reducer>(parameters_, communicator_, world_, options_);
  if (!saved_order_fits()) {
    saved_order_.clear();
    saved_exact_parameters_.reset();
  }
  if (!saved_order_.empty()) reducer_->set_order(saved_order_);
  if (saved_exact_parameters_) reducer_->set_exact_parameters(*saved_exact_parameters_);
}

/// Whether the saved training had gradients of the parameters that have gradients now.
bool ReducedGradients::saved_order_fits() const {
  std::set<std::string> names(saved_order_.begin(), saved_order_.end());
  for (const NamedTensor& parameter : parameters_) {
    if (parameter.tensor.requires_grad() && names.erase(parameter.name) == 0) return false;
  }
  return names.empty();
}

void ReducedGradients::begin_backward(bool completes_step) {
  if (const std::string name = reducer_->unfrozen(); !name.empty()) {
    throw TrainingError("parameter " + name +
                        " was unfrozen after the step's gradients had begun, and its gradient would not be "
                        "averaged; unfreeze it where a step begins, for example in on_train_epoch_start, and "
                        "in manual optimization call zero_grad() before manual_backward()");
  }
  reducer_->begin_backward(completes_step);
}

void ReducedGradients::complete() {
  saved_order_.clear();
  saved_exact_parameters_.reset();
  reducer_->finish();
}

std::string ReducedGradients::order() const {
  std::string order;
  for (const std::string& name : reducer_->order()) order += name + '\n';
  return order;
}

void ReducedGradients::set_order(const std::string& lines) {
  std::istringstream saved(lines);
  saved_order_.clear();
  for (std::string name; std::getline(saved, name);) saved_order_.push_back(name);
  if (!saved_order_.empty()) reducer_->set_order(saved_order_);
}

void ReducedGradients::save(StateDict& state) const {
  if (const auto number = reducer_->exact_parameters()) state.set("exact_parameters", *number);
}

void ReducedGradients::load(const StateDict& state) {
  if (!state.has("exact_parameters")) return;
  saved_exact_parameters_ = state.integer("exact_parameters");
  reducer_->set_exact_parameters(*saved_exact_parameters_);
}

}  // namespace cxtrain
