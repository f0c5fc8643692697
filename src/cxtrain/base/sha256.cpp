#include "cxtrain/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

void require(int ok, const char* call) {
  if (ok != 1)
    throw Error(ExitCode::failure, MessageCode::file_failed, std::string("OpenSSL: ") + call + " failed");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}

void Sha256::update(const void* data, std::size_t bytes) {
  require(EVP_DigestUpdate(context_.get(), data, bytes), "EVP_DigestUpdate");
}

std::string Sha256::hex_digest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  require(EVP_DigestFinal_ex(context_.get(), digest.data(), &length), "EVP_DigestFinal_ex");
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
  return hex_of({reinterpret_cast<const char*>(digest.data()), length});
}

}  // namespace cxtrain
