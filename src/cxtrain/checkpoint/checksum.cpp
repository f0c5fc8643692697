#include "cxtrain/checkpoint/checksum.h"

#include <cinttypes>

#include "cxtrain/base/text.h"

// In the header, so that it is compiled for what the build is for.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cxtrain {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
Checksum::~Checksum() = default;

void Checksum::add(std::string_view bytes) { XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size()); }

std::string Checksum::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return formatted("%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
}

std::string checksum_of(std::string_view bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.text();
}

}  // namespace cxtrain
