#include "reduced_gradients.h"

#include <sstream>
#include <utility>

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
}

void ReducedGradients::zero_gradients() {
  if (reducer_->outdated()) make_reducer();
  reducer_->zero_gradients();
}

void ReducedGradients::bring_buffers() {
  if (buffers_ != nullptr) buffers_->broadcast();
}

std::string ReducedGradients::order() const {
  std::string order;
  for (const std::string& name : reducer_->order()) order += name + '\n';
  return order;
}

void ReducedGradients::set_order(const std::string& lines) {
  std::istringstream saved(lines);
  std::vector<std::string> order;
  for (std::string name; std::getline(saved, name);) order.push_back(name);
  if (!order.empty()) reducer_->set_order(order);
}

void ReducedGradients::save(StateDict& state) const {
  if (const auto number = reducer_->exact_parameters()) state.set("exact_parameters", *number);
}

void ReducedGradients::load(const StateDict& state) {
  if (state.has("exact_parameters")) reducer_->set_exact_parameters(state.integer("exact_parameters"));
}

}  // namespace cxtrain
