#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cxtrain {

/// XXH3 with 128 bits of bytes that come in parts: finds damage at the speed of memory, and is no protection
/// against anybody who means harm.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::string_view bytes);
  /// Of all bytes so far: 32 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_of(std::string_view bytes);

}  // namespace cxtrain
