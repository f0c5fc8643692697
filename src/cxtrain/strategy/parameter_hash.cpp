#include "cxtrain/strategy/parameter_hash.h"

#include <algorithm>

#include "cxtrain/base/sha256.h"

namespace cxtrain {

std::string parameters_sha256(const Trainable& module) {
  std::vector<NamedTensor> all = module.all_parameters();
  for (NamedTensor& buffer : module.all_buffers()) all.push_back(std::move(buffer));
  std::sort(all.begin(), all.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  Sha256 hash;
  for (const NamedTensor& item : all) {
    const at::Tensor bytes = item.tensor.detach().cpu().contiguous();
    hash.update(bytes.const_data_ptr(), bytes.nbytes());
  }
  return hash.hex_digest();
}

}  // namespace cxtrain
