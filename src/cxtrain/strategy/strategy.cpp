#include "cxtrain/strategy/strategy.h"

#include "cxtrain/base/sha256.h"

namespace cxtrain {

std::string parameters_sha256(Strategy& strategy) {
  Sha256 hash;
  strategy.visit_whole([&](const NamedTensor& named) {
    const at::Tensor bytes = named.tensor.detach().cpu().contiguous();
    hash.update(bytes.const_data_ptr(), bytes.nbytes());
  });
  return hash.hex_digest();
}

}  // namespace cxtrain
