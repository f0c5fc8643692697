#include "cxtrain/trainer/data_fingerprint.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <sstream>
#include <system_error>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/tensor/host_bytes.h"
#include "cxtrain/trainer/generators.h"

namespace cxtrain {
namespace {

constexpr std::int64_t kMaxSamples = 64;
/// Each part has as many samples as all before it together, and each is read twice. Another one is begun
/// where it is likely to end before this.
constexpr double kMaxSeconds = 0.004;
constexpr std::string_view kSamples = " samples", kBetween = "; ";

/// Puts back what is drawn of the processor's random numbers meanwhile.
auto keep_random_numbers() {
  return c10::make_scope_exit([state = generator_state(at::kCPU)] { set_generator_state(at::kCPU, state); });
}

/// Sample `number` of those that are looked at: the first, the middle, the quarters, the eighths ... of a
/// dataset, so that those before any number lie evenly.
std::int64_t place_of(std::int64_t number, std::int64_t size) {
  std::int64_t reversed = 0;
  for (std::int64_t bit = 1; bit < kMaxSamples; bit *= 2) reversed = 2 * reversed + number / bit % 2;
  return size / kMaxSamples * reversed + size % kMaxSamples * reversed / kMaxSamples;
}

Batch read_samples(const Dataset& dataset, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> indices;
  for (std::int64_t number = begin; number < end; ++number)
    indices.push_back(place_of(number, dataset.size()));
  Batch batch;
  collate_samples(dataset, indices, SampleContext{}, batch);
  return batch;
}

/// "Float [64]": without the dimension that counts samples.
std::string describe_samples(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return c10::str(c10::toString(tensor.scalar_type()), ' ', tensor.sizes().slice(tensor.dim() > 0 ? 1 : 0));
}

/// "Float [64], Long []": the tensors, then the classes of objects.
std::string describe_content(const Batch& batch) {
  std::string text = joined(batch.tensors, ", ", describe_samples);
  for (const Batch::Object& object : batch.objects)
    text += (text.empty() ? "" : ", ") + class_of(*object.value);
  return text;
}

void add(Checksum& checksum, const at::Tensor& tensor) {
  if (tensor.defined()) checksum.add(host_bytes(on_host(tensor)));
}

void add(Checksum& checksum, Batch batch) {
  checksum.add(describe_content(batch));  // the padding of a batch of sequences counts, too
  for (const at::Tensor& tensor : batch.tensors) add(checksum, tensor);
  batch.change_object_tensors([&checksum](at::Tensor& tensor) {
    checksum.add(describe_samples(tensor));
    add(checksum, tensor);
  });
}

/// Of what was saved from what is there now. Samples that are seldom others than the last time may have
/// looked the same twice: they are looked at again before they count as the same each time.
std::string lasting_difference(const std::string& saved, const std::string& own, const Dataset& dataset) {
  constexpr int kLooks = 20;
  const std::optional<DataFingerprint> before = data_fingerprint_from(saved),
                                       now = data_fingerprint_from(own);
  if (!before || !now) return {};
  const std::string other = difference(*before, *now);
  if (other.empty() || before->samples != now->samples) return other;
  for (int look = 0; look < kLooks; ++look) {
    const DataFingerprint again = fingerprint_of(dataset, SteadyClock());
    if (again.content.empty() || !difference(*now, again).empty()) return {};
  }
  return other;
}

}  // namespace

DataFingerprint fingerprint_of(const Dataset& dataset, const Clock& clock) {
  DataFingerprint fingerprint{.samples = dataset.size()};
  const auto kept = keep_random_numbers();
  const at::NoGradGuard no_grad;
  const double began = clock.now();
  Checksum first, second;
  try {
    for (std::int64_t begin = 0, end = 1; begin < std::min(kMaxSamples, dataset.size()); begin = end) {
      end = std::max<std::int64_t>(1, 2 * begin);
      const Batch batch = read_samples(dataset, begin, end);
      add(first, batch);
      // A dataset may give out the same memory each time: this one is done with by now.
      const Batch again = read_samples(dataset, begin, end);
      add(second, again);
      if (first.text() != second.text()) return {.samples = fingerprint.samples};
      if (begin == 0) fingerprint.sample = describe_content(batch);
      fingerprint.content.push_back(first.text().substr(0, 16));
      if (2 * (clock.now() - began) > kMaxSeconds) break;
    }
  } catch (const std::exception&) {
    // The training comes upon it, where it is told with its step.
    return {.samples = fingerprint.samples};
  }
  return fingerprint;
}

std::string to_text(const DataFingerprint& fingerprint) {
  std::string text = std::to_string(fingerprint.samples) + std::string(kSamples);
  if (fingerprint.content.empty()) return text;
  text += std::string(kBetween) + fingerprint.sample + std::string(kBetween);
  for (const std::string& hash : fingerprint.content) text += (text.back() == ' ' ? "" : " ") + hash;
  return text;
}

std::optional<DataFingerprint> data_fingerprint_from(std::string_view text) {
  DataFingerprint fingerprint;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fingerprint.samples);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || !text.starts_with(kSamples)) return std::nullopt;
  text.remove_prefix(kSamples.size());
  if (text.empty()) return fingerprint;
  const std::size_t last = text.rfind(kBetween);
  if (!text.starts_with(kBetween) || last == 0) return std::nullopt;
  fingerprint.sample = text.substr(kBetween.size(), last - kBetween.size());
  std::istringstream hashes{std::string(text.substr(last + kBetween.size()))};
  for (std::string hash; hashes >> hash;) fingerprint.content.push_back(hash);
  return fingerprint;
}

std::string difference(const DataFingerprint& saved, const DataFingerprint& now) {
  if (saved.samples != now.samples) {
    return std::to_string(saved.samples) + " samples, and now " + std::to_string(now.samples);
  }
  const std::size_t known = std::min(saved.content.size(), now.content.size());
  if (known == 0) return {};
  if (saved.sample != now.sample) return "samples of " + saved.sample + ", and now of " + now.sample;
  if (saved.content[known - 1] != now.content[known - 1]) {
    return "as many samples with another content";
  }
  return {};
}

void require_data_of_checkpoint(World& world, const std::string& saved, const std::string& own,
                                const Dataset& dataset) {
  const std::string other = world.broadcast(world.is_root() ? lasting_difference(saved, own, dataset) : "");
  if (other.empty()) return;
  throw AgreedError(
      ExitCode::refused, MessageCode::data_changed,
      "the run of the checkpoint had other data: " + other +
          "; resume it with its data, or set --data.fingerprint false if you changed the data on "
          "purpose");
}

}  // namespace cxtrain
