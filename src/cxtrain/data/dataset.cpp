#include "cxtrain/data/dataset.h"

#include <stdexcept>

namespace cxtrain {

void Dataset::collate(std::span<const std::int64_t>, Batch&) const {
  throw std::logic_error("a Dataset has to override one of the two collate()");
}

}  // namespace cxtrain
