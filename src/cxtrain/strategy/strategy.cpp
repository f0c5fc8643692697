#include "cxtrain/strategy/strategy.h"

#include "cxtrain/base/error.h"
#include "cxtrain/base/sha256.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {

at::Tensor Strategy::all_gather(const at::Tensor& /*own*/, bool /*gradients*/) {
  throw TrainingError("this strategy has no all_gather for the model's steps; --strategy ddp has one");
}

std::string parameters_sha256(Strategy& strategy) {
  Sha256 hash;
  strategy.visit_whole([&](const NamedTensor& named) {
    const at::Tensor values = on_host(named.tensor);
    hash.update(values.const_data_ptr(), values.nbytes());
  });
  return hash.hex_digest();
}

}  // namespace cxtrain
