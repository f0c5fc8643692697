#include "cxtrain/strategy/whole_parameters.h"

#include <utility>

#include "cxtrain/tensor/norms.h"

namespace cxtrain {

WholeParameters::WholeParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                                 GradientExchange& exchange)
    : masters_(std::move(parameters), precision),
      pieces_(whole_pieces(masters_.parameters())),
      exchange_(exchange) {}

void WholeParameters::synchronize() {
  exchange_.complete();
  masters_.take_gradients();
}

std::vector<at::Tensor> WholeParameters::gradient_norms(double order) {
  return norms(masters_.gradients(), order);
}

void WholeParameters::publish() {
  masters_.forget_gradients();
  masters_.write_back();
  exchange_.bring_buffers();
}

}  // namespace cxtrain
