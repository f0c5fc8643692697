#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cxtrain/base/append_file.h"
#include "cxtrain/config/hyperparameters.h"

namespace cxtrain {

/// An image as a PNG file.
struct EncodedImage {
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 0;  ///< 1: grey, 3: red, green, blue
  std::string png;
};

/// A TensorBoard events file: a sequence of TFRecords, each one `Event` message.
class EventWriter {
 public:
  /// Creates `directory`/events.out.tfevents.<unix time>.<host>.<pid>, or with a number behind that where
  /// there is such a file. Throws Error when that fails.
  EventWriter(Filesystem& files, const std::string& directory);

  /// One event with these values at this step. `wall_time`: seconds since 1970.
  void add_scalars(std::int64_t step, double wall_time,
                   std::span<const std::pair<std::string, double>> scalars);
  /// One event with this image, for TensorBoard's plugin "images".
  void add_image(std::int64_t step, double wall_time, std::string_view tag, const EncodedImage& image);
  /// One event with this text in UTF-8, for TensorBoard's plugin "text".
  void add_text(std::int64_t step, double wall_time, std::string_view tag, std::string_view text);
  /// One event for TensorBoard's plugin "hparams": a session with these hyperparameters.
  void add_hyperparameters(double wall_time, const Hyperparameters& hparams);
  void flush() { file_.flush(); }
  const std::string& path() const { return file_.path(); }
  /// Bytes in the file after a flush.
  std::uint64_t size() const { return file_.size(); }

 private:
  AppendFile file_;
};

inline constexpr std::string_view kEventsPrefix = "events.out.tfevents.";

/// Bytes of a TFRecord before and after its data.
inline constexpr std::size_t kHeadOfRecord = sizeof(std::uint64_t) + sizeof(std::uint32_t),
                             kTailOfRecord = sizeof(std::uint32_t);

/// The bytes of the data of the TFRecord that a text of at least `kHeadOfRecord` bytes begins with.
std::uint64_t length_of_record(std::string_view text);

/// How many bytes at the beginning of a text are whole records with right checksums.
std::size_t whole_records(std::string_view content);

/// A TFRecord around `data`: length, masked CRC-32C of the length, data, masked CRC-32C of the data;
/// little-endian.
std::string tf_record(std::string_view data);

/// Reads the step and the seconds since 1970 of an `Event` message of less than 2 GiB. Returns false if it is
/// not a row of metrics: those of images, texts and hyperparameters have no scalar.
bool read_row_time(std::string_view event, std::int64_t& step, double& seconds);

}  // namespace cxtrain
