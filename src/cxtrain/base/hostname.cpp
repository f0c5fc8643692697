#include "cxtrain/base/hostname.h"

#include <unistd.h>

#include <array>
#include <climits>

namespace cxtrain {

std::string hostname() {
  std::array<char, HOST_NAME_MAX + 1>
      name{};  // one more than is written: a name cut short has no end of its own
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace cxtrain
