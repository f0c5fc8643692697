#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct evp_md_ctx_st;

namespace cxtrain {

/// SHA-256 of bytes that arrive in pieces (OpenSSL's).
class Sha256 {
 public:
  Sha256();
  void update(const void* data, std::size_t bytes);
  /// The digest as 64 lower-case hexadecimal digits. The object starts anew afterwards.
  std::string hex_digest();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace cxtrain
