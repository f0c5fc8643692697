#include "cxtrain/checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "checkpoint/weights_support.h"
#include "fuzz/fuzz.h"

namespace cxtrain::test {
namespace {

/// Opens and reads a file that may be damaged. What is accepted takes no more bytes than the file has.
bool reads_or_refuses(const std::string& content) {
  FaultyFilesystem files;
  put_file(files, "/w", content);
  try {
    const SafetensorsFile file(files, "/w");
    std::size_t bytes = 0;
    for (const SafetensorsEntry& entry : file.entries()) bytes += file.read(entry).nbytes();
    CHECK(bytes <= content.size());
    return true;
  } catch (const CheckpointError& error) {
    CHECK(std::string(error.what()).size() < 4096);
    return false;
  }
}

TEST_CASE("damaged safetensors files") {
  const std::vector<std::string> texts{
      safetensors_of({{"fc.weight", at::arange(12).view({3, 4})}, {"fc.bias", at::arange(3, at::kFloat)}},
                     {{"format", "pt"}}),
      safetensors_of({{"a", at::empty({0, 3})}, {"b", at::arange(5, at::kByte)}, {"c", at::arange(1)}}),
      safetensors_of({})};
  const std::vector<std::string> words =
      json_words({"0", "1e9", "9223372036854775807", "18446744073709551615", "F32", "F64", "BOOL",
                  "\"dtype\":", "\"shape\":", "\"data_offsets\":", "__metadata__", std::string(8, '\0'),
                  std::string(8, '\xff'), std::string(64, ' '), std::string(500, '[')});
  Random random(20);
  std::size_t read = 0;
  const std::size_t all = cases(10000);
  for (std::size_t n = 0; n < all; ++n) {
    std::string text = random.of(texts);
    if (random.one_in(3)) {
      text = random.damage(text, words);
    } else {
      // Damage inside the JSON only, with the length put right: what a check of the length would not find.
      const std::size_t length =
          static_cast<unsigned char>(text[0]) + 256 * static_cast<unsigned char>(text[1]);
      const std::string json = random.damage(text.substr(8, length), words);
      text = with_header(json, 0) + text.substr(8 + length);
    }
    CAPTURE(text);
    read += reads_or_refuses(text) ? 1 : 0;
  }
  WARN("safetensors: " << read << " read, " << all - read << " refused");
}

}  // namespace
}  // namespace cxtrain::test
