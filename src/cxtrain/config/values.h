#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cxtrain/base/field_types.h"

/// Types of option values: how each is read from a text, and how it is written so that it reads back as an
/// equal value. Pure. The whole text must be the value; blanks around it are ignored.
namespace cxtrain {

/// Result of reading a text: a value, or the reason why there is none (a sentence that quotes the text).
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string error;

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }

  static Parsed of(T value) { return {std::move(value), {}}; }
  static Parsed refused(std::string why) { return {std::nullopt, std::move(why)}; }
};

std::string_view trim(std::string_view text);

/// Returns the key of an option by its word on a command line: "max_epochs" for "--max-epochs=3".
inline std::string option_key(std::string_view word) {
  if (word.starts_with("--")) word.remove_prefix(2);
  std::string key(word.substr(0, word.find('=')));
  std::ranges::replace(key, '-', '_');
  return key;
}

/// Reads a decimal number with an optional sign; absent if it is not a `Number` or does not fit. `Number`:
/// int, int64_t, uint64_t or double.
template <class Number>
std::optional<Number> parse_number(std::string_view text);
std::optional<std::int64_t> parse_integer(std::string_view text);
/// Reads a decimal or scientific number ("3e-4"), "inf", "nan".
std::optional<double> parse_real(std::string_view text);
/// Reads true, yes, on, 1 and false, no, off, 0, in any case.
std::optional<bool> parse_boolean(std::string_view text);

/// Returns the shortest decimal that reads back as an equal number.
std::string format_real(double value);
std::string format_real(float value);

/// The number of batches of a loader that reads a stream: more than any epoch has.
inline constexpr std::int64_t kUnknownBatches = std::int64_t{1} << 50;

/// Number of batches of a loader to use: a count (`10`), or a fraction of them (`0.25`). `1.0` is all
/// batches, `1` is one batch.
struct BatchLimit {
  std::variant<double, std::int64_t> value = 1.0;

  bool is_fraction() const { return std::holds_alternative<double>(value); }
  bool is_zero() const {
    return std::visit([](auto number) { return number == 0; }, value);
  }
  /// Returns the number of batches to run of a loader with `available` batches (Lightning:
  /// `int(available * fraction)`).
  std::int64_t apply(std::int64_t available) const;
  bool operator==(const BatchLimit&) const = default;
};

/// Reads "10" as ten batches, and "0.5" or "1.0" as a fraction of them. A point or an exponent makes the
/// difference, as the type does in Lightning. Negative numbers and fractions above 1 are rejected.
Parsed<BatchLimit> parse_batch_limit(std::string_view text);
/// The inverse of `parse_batch_limit`: "10", "0.5", "1.0".
std::string format_batch_limit(const BatchLimit& limit);
/// Returns the number of batches that a run takes of a loader with `available` batches: `limit.apply`. Throws
/// ConfigError, with `option` and the arithmetic, for a fraction that gives less than one batch, and for a
/// fraction below 1 of unknown batches. 0 means none
/// and is not an error.
std::int64_t limited_batches(const BatchLimit& limit, const std::string& option, std::int64_t available);

/// Interval between validations: a number of batches, a fraction of an epoch, or a time.
struct CheckInterval {
  std::variant<BatchLimit, std::chrono::seconds> value = BatchLimit{};

  CheckInterval() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.val_check_interval = 0.25`
  CheckInterval(BatchLimit limit) : value(limit) {}
  CheckInterval(double fraction) : value(BatchLimit{fraction}) {}
  CheckInterval(std::int64_t batches) : value(BatchLimit{batches}) {}
  CheckInterval(std::chrono::seconds time) : value(time) {}
  // NOLINTEND(google-explicit-constructor)

  const BatchLimit* batches() const { return std::get_if<BatchLimit>(&value); }
  const std::chrono::seconds* time() const { return std::get_if<std::chrono::seconds>(&value); }
  bool operator==(const CheckInterval&) const = default;
};

/// Reads a text with a colon as `parse_duration` does, any other as `parse_batch_limit` does.
Parsed<CheckInterval> parse_check_interval(std::string_view text);
/// The inverse of `parse_check_interval`.
std::string format_check_interval(const CheckInterval& interval);

/// A request for devices as the user typed it, which `resolve()` parses: a count, a list ("0,2"), "-1" or
/// "auto".
class Devices {
 public:
  Devices() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.devices = 4`, `.devices = "0,2"`
  Devices(int count) : text_(std::to_string(count)) {}
  Devices(std::string text) : text_(std::move(text)) {}
  Devices(const char* text) : text_(text) {}
  // NOLINTEND(google-explicit-constructor)

  const std::string& text() const { return text_; }
  bool operator==(const Devices&) const = default;

 private:
  std::string text_;
};

/// `true`: only algorithms that repeat bit for bit, and an error for an operation without such an algorithm.
/// `warn`: a warning instead of the error.
struct Deterministic {
  bool on = false;
  bool warn_only = false;

  Deterministic() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `.deterministic = true`
  Deterministic(bool yes) : on(yes) {}
  static Deterministic warn() {
    Deterministic made(true);
    made.warn_only = true;
    return made;
  }
  bool operator==(const Deterministic&) const = default;
};

/// Reads "DD:HH:MM:SS" (Lightning's `max_time`) or "HH:MM:SS". A field may be larger than a clock shows:
/// "00:36:00:00" is a day and a half.
Parsed<std::chrono::seconds> parse_duration(std::string_view text);
/// The inverse of `parse_duration`, with days: "01:12:00:00".
std::string format_duration(std::chrono::seconds duration);

/// Reads a time as `parse_duration` does, or seconds; an empty text is 0.
Parsed<std::chrono::duration<double>> parse_seconds(const std::string& text);

/// Reads "30,80"; an empty text is an empty list.
Parsed<std::vector<std::int64_t>> parse_integers(std::string_view text);
/// The inverse of `parse_integers`.
std::string format_integers(const std::vector<std::int64_t>& numbers);

/// A precision in Lightning's spelling.
struct Precision {
  std::string name;        ///< canonical: 16-mixed, bf16-mixed, 16-true, bf16-true, 32-true, 64-true
  bool shorthand = false;  ///< typed as plain `16`, `bf16`, `32` or `64`
};

/// Reads any of Lightning's spellings: "16", "16-mixed", "bf16-true" ...
Parsed<Precision> parse_precision(std::string_view text);

/// Returns the index of `text` in `words`.
Parsed<std::size_t> parse_word(std::string_view text, std::span<const std::string_view> words);

template <Choice Enum>
Parsed<Enum> parse_choice(std::string_view text) {
  const Parsed<std::size_t> index = parse_word(text, ChoiceOf<Enum>::words);
  return index ? Parsed<Enum>::of(static_cast<Enum>(*index)) : Parsed<Enum>::refused(index.error);
}

/// Target of clipping: the norm of all gradients together, or each element.
enum class GradientClipAlgorithm { norm, value };
template <>
struct ChoiceOf<GradientClipAlgorithm> {
  static constexpr std::array<std::string_view, 2> words{"norm", "value"};
};

/// Method of the search for a batch size.
enum class BatchScaling {
  power,     ///< doubles until memory is exhausted
  binsearch  ///< ... and then halves the interval between a size that fits and a size that does not
};
template <>
struct ChoiceOf<BatchScaling> {
  static constexpr std::array<std::string_view, 2> words{"power", "binsearch"};
};

/// Exactness of float32 matrix products: torch.set_float32_matmul_precision. All except `highest` allow TF32.
enum class MatmulPrecision { highest, high, medium };
template <>
struct ChoiceOf<MatmulPrecision> {
  static constexpr std::array<std::string_view, 3> words{"highest", "high", "medium"};
};

/// GPU memory to log: of each GPU, or the least and the most.
enum class GpuMemoryLog { all, min_max };
template <>
struct ChoiceOf<GpuMemoryLog> {
  static constexpr std::array<std::string_view, 2> words{"all", "min_max"};
};

/// Measurement of where the time of a fit goes.
enum class Profiler {
  simple,  ///< the time of each phase of a step
  trace,   ///< also the operations of a few steps, as a trace
};
template <>
struct ChoiceOf<Profiler> {
  static constexpr std::array<std::string_view, 2> words{"simple", "trace"};
};
/// Reads a profiler's name; `pytorch` is Lightning's name of `trace`.
Parsed<Profiler> parse_profiler(std::string_view text);

/// Signal by which a batch system requests that a run saves and ends: Lightning's `requeue_signal`.
enum class RequeueSignal { none, sigusr1, sigusr2, sighup };
template <>
struct ChoiceOf<RequeueSignal> {
  static constexpr std::array<std::string_view, 4> words{"none", "SIGUSR1", "SIGUSR2", "SIGHUP"};
};

/// Returns the system's number of the signal; 0 for `none`.
int signal_number(RequeueSignal signal);

/// How gradients of CPU ranks travel between nodes. `automatic`: by TCP beside backward, unless MPI is much
/// faster.
enum class NetworkWay { automatic, mpi, tcp };
template <>
struct ChoiceOf<NetworkWay> {
  static constexpr std::array<std::string_view, 3> words{"auto", "mpi", "tcp"};
};

/// Whether a monitored metric improves by getting smaller or larger.
enum class MonitorMode { min, max };
template <>
struct ChoiceOf<MonitorMode> {
  static constexpr std::array<std::string_view, 2> words{"min", "max"};
};

/// Treatment of the last global batch of an epoch if the shards do not divide it.
enum class Uneven {
  pad,    ///< wraps around to the start of the epoch's order, so that all shards have equally many samples
  drop,   ///< does not read the remaining samples in this epoch
  exact,  ///< reads every sample once: some shards have one sample fewer, or none
};
template <>
struct ChoiceOf<Uneven> {
  static constexpr std::array<std::string_view, 3> words{"pad", "drop", "exact"};
};

}  // namespace cxtrain
