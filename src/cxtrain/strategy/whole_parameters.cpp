#include "cxtrain/strategy/whole_parameters.h"

#include <utility>

#include "cxtrain/tensor/norms.h"

namespace cxtrain {

WholeParameters::WholeParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                                 Steps steps)
    : masters_(std::move(parameters), precision),
      pieces_(whole_pieces(masters_.parameters())),
      steps_(std::move(steps)) {}

void WholeParameters::synchronize() {
  steps_.complete_gradients();
  masters_.take_gradients();
}

std::vector<at::Tensor> WholeParameters::gradient_norms(double order) {
  return norms(masters_.gradients(), order);
}

void WholeParameters::publish() {
  masters_.forget_gradients();
  masters_.write_back();
  steps_.bring_buffers();
}

}  // namespace cxtrain
