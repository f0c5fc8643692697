#include "cxtrain/strategy/strategy.h"

#include "cxtrain/base/sha256.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {

std::string parameters_sha256(Strategy& strategy) {
  Sha256 hash;
  strategy.visit_whole([&](const NamedTensor& named) {
    const at::Tensor values = on_host(named.tensor);
    hash.update(values.const_data_ptr(), values.nbytes());
  });
  return hash.hex_digest();
}

}  // namespace cxtrain
