#include "cxtrain/base/abstract_address.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace cxtrain {

AbstractAddress::AbstractAddress(std::string_view name) {
  address_.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof address_.sun_path - 1);  // a zero comes first
  std::memcpy(address_.sun_path + 1, name.data(), size);
  size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

}  // namespace cxtrain
