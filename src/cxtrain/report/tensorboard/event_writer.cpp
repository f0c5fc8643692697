#include "cxtrain/report/tensorboard/event_writer.h"

#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <cmath>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/process.h"
#include "event.pb.h"

namespace cxtrain {
namespace {

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// CRC-32C, rotated and offset so that the checksum of data that holds checksums stays meaningful (TFRecord's
/// format).
std::uint32_t masked_crc(std::string_view data) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(data.data(), data.size());
  const std::uint32_t sum = crc.checksum();
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

std::string events_path(Filesystem& files, const std::string& directory) {
  const std::string name = directory + "/" + std::string(kEventsPrefix) +
                           std::to_string(static_cast<std::int64_t>(seconds_since_1970())) + "." +
                           hostname() + "." + std::to_string(getpid());
  std::string path = name;
  for (int i = 1; files.status(path); ++i) path = name + "." + std::to_string(i);
  return path;
}

tensorboard::Event event_of(std::int64_t step, double wall_time) {
  tensorboard::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  return event;
}

}  // namespace

std::uint64_t length_of_record(std::string_view text) {
  std::uint64_t length = 0;
  for (std::size_t i = sizeof length; i-- > 0;) length = length << 8 | static_cast<unsigned char>(text[i]);
  return length;
}

std::size_t whole_records(std::string_view content) {
  std::size_t whole = 0;
  while (content.size() - whole >= kHeadOfRecord + kTailOfRecord) {
    const std::string_view rest = content.substr(whole);
    const std::uint64_t length = length_of_record(rest);
    if (length > rest.size() - kHeadOfRecord - kTailOfRecord) break;
    const std::size_t size = kHeadOfRecord + length + kTailOfRecord;
    if (tf_record(rest.substr(kHeadOfRecord, length)) != rest.substr(0, size)) break;
    whole += size;
  }
  return whole;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  std::string record = length + little_endian(masked_crc(length));
  record += data;
  return record + little_endian(masked_crc(data));
}

bool read_row_time(std::string_view event, std::int64_t& step, double& seconds) {
  tensorboard::Event read;
  if (!read.ParseFromArray(event.data(), static_cast<int>(event.size()))) return false;
  step = read.step();
  seconds = read.wall_time();
  const auto& values = read.summary().value();
  return step >= 0 && std::isfinite(seconds) &&
         std::ranges::any_of(values, [](const auto& value) { return value.has_simple_value(); });
}

EventWriter::EventWriter(Filesystem& files, const std::string& directory)
    : file_(files, events_path(files, directory)) {
  tensorboard::Event event;
  event.set_wall_time(seconds_since_1970());
  event.set_file_version("brain.Event:2");
  file_.append(tf_record(event.SerializeAsString()));
  file_.flush();
}

void EventWriter::add_scalars(std::int64_t step, double wall_time,
                              std::span<const std::pair<std::string, double>> scalars) {
  tensorboard::Event event = event_of(step, wall_time);
  for (const auto& [tag, value] : scalars) {
    tensorboard::Summary::Value* added = event.mutable_summary()->add_value();
    added->set_tag(tag);
    added->set_simple_value(static_cast<float>(value));
  }
  file_.append(tf_record(event.SerializeAsString()));
}

void EventWriter::add_image(std::int64_t step, double wall_time, std::string_view tag,
                            const EncodedImage& image) {
  tensorboard::Event event = event_of(step, wall_time);
  tensorboard::Summary::Value* added = event.mutable_summary()->add_value();
  added->set_tag(std::string(tag));
  added->mutable_image()->set_height(static_cast<std::int32_t>(image.height));
  added->mutable_image()->set_width(static_cast<std::int32_t>(image.width));
  added->mutable_image()->set_colorspace(static_cast<std::int32_t>(image.channels));
  added->mutable_image()->set_encoded_image_string(image.png);
  file_.append(tf_record(event.SerializeAsString()));
}

/// As torch.utils.tensorboard's `add_text`: a tensor of one string.
void EventWriter::add_text(std::int64_t step, double wall_time, std::string_view tag, std::string_view text) {
  constexpr int kString = 7;
  tensorboard::Event event = event_of(step, wall_time);
  tensorboard::Summary::Value* added = event.mutable_summary()->add_value();
  added->set_tag(std::string(tag) + "/text_summary");
  added->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  added->mutable_tensor()->set_dtype(kString);
  added->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  added->mutable_tensor()->add_string_val(std::string(text));
  file_.append(tf_record(event.SerializeAsString()));
}

void EventWriter::add_hyperparameters(double wall_time, const Hyperparameters& hparams) {
  tensorboard::HParamsPluginData data;
  data.mutable_session_start_info()->set_start_time_secs(wall_time);
  for (const auto& [name, text] : hparams) {
    tensorboard::HParam& added = (*data.mutable_session_start_info()->mutable_hparams())[name];
    const auto value = typed_value(text);
    if (const bool* flag = std::get_if<bool>(&value)) added.set_bool_value(*flag);
    if (const double* number = std::get_if<double>(&value)) added.set_number_value(*number);
    if (const std::string* word = std::get_if<std::string>(&value)) added.set_string_value(*word);
  }
  tensorboard::Event event;
  event.set_wall_time(wall_time);
  tensorboard::Summary::Value* added = event.mutable_summary()->add_value();
  added->set_tag("_hparams_/session_start_info");
  tensorboard::PluginData& plugin = *added->mutable_metadata()->mutable_plugin_data();
  plugin.set_plugin_name("hparams");
  plugin.set_content(data.SerializeAsString());
  file_.append(tf_record(event.SerializeAsString()));
}

}  // namespace cxtrain
