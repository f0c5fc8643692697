#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string_view>

namespace cxtrain {

/// The address of a local socket that has a name and no file: it is gone with the last process that has it
/// open.
class AbstractAddress {
 public:
  /// A name of more than 107 bytes is cut.
  explicit AbstractAddress(std::string_view name);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_;
};

}  // namespace cxtrain
