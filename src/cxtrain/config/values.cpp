#include "cxtrain/config/values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <csignal>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/config/did_you_mean.h"

namespace cxtrain {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  text = trim(text);
  // from_chars knows no plus sign; "+-1" must not slip through by dropping it.
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number number{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}
template std::optional<int> parse_number(std::string_view text);
template std::optional<std::int64_t> parse_number(std::string_view text);
template std::optional<std::uint64_t> parse_number(std::string_view text);
template std::optional<double> parse_number(std::string_view text);

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<std::int64_t> parse_integer(std::string_view text) { return parse_number<std::int64_t>(text); }

std::optional<double> parse_real(std::string_view text) { return parse_number<double>(text); }

std::optional<bool> parse_boolean(std::string_view text) {
  std::string word(trim(text));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

namespace {

template <class Real>
std::string shortest_text(Real value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

}  // namespace

std::string format_real(double value) { return shortest_text(value); }
std::string format_real(float value) { return shortest_text(value); }

std::int64_t BatchLimit::apply(std::int64_t available) const {
  if (is_fraction()) {
    return static_cast<std::int64_t>(static_cast<double>(available) * std::get<double>(value));
  }
  return std::min(available, std::get<std::int64_t>(value));
}

std::int64_t limited_batches(const BatchLimit& limit, const std::string& option, std::int64_t available) {
  if (available == kUnknownBatches && limit.is_fraction() && !limit.is_zero() && limit != BatchLimit{1.0})
    throw ConfigError("trainer." + option,
                      format_batch_limit(limit) +
                          " of a stream was asked for, and the number of batches of a stream is unknown",
                      "use 1.0 for all batches, or a count (`100`)", MessageCode::conflicting_options);
  const std::int64_t batches = limit.apply(available);
  if (batches > 0 || available == 0 || limit.is_zero()) return batches;
  const std::string typed = format_batch_limit(limit);
  throw ConfigError(
      "trainer." + option,
      typed + " of " + std::to_string(available) + (available == 1 ? " batch" : " batches") +
          " is less than one: " + typed + " * " + std::to_string(available) + " = " +
          format_real(static_cast<double>(available) * std::get<double>(limit.value)),
      "use --" + option + " " +
          format_batch_limit({std::min(1.0, std::ceil(1e4 / static_cast<double>(available)) / 1e4)}) +
          " or more, or 1 for one batch; 0 for none",
      MessageCode::out_of_range);
}

Parsed<BatchLimit> parse_batch_limit(std::string_view text) {
  const std::string typed = "'" + std::string(text) + "'";
  if (const auto count = parse_integer(text)) {
    if (*count >= 0) return Parsed<BatchLimit>::of({*count});
    return Parsed<BatchLimit>::refused(
        typed +
        " is negative; batches are counted from 0 (`10`), or a fraction of them is "
        "given (`0.5`)");
  }
  const auto fraction = parse_real(text);
  if (!fraction) {
    return Parsed<BatchLimit>::refused(
        typed + " is neither a number of batches (`10`) nor a fraction of them (`0.5`)");
  }
  if (!(*fraction >= 0.0 && *fraction <= 1.0)) {
    return Parsed<BatchLimit>::refused(
        typed + " is a fraction outside 0.0 to 1.0; a number of batches has no point (`10`)");
  }
  return Parsed<BatchLimit>::of({*fraction});
}

std::string format_batch_limit(const BatchLimit& limit) {
  if (!limit.is_fraction()) return std::to_string(std::get<std::int64_t>(limit.value));
  const std::string text = format_real(std::get<double>(limit.value));
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

Parsed<CheckInterval> parse_check_interval(std::string_view text) {
  if (text.find(':') != std::string_view::npos) {
    const auto time = parse_duration(text);
    return time ? Parsed<CheckInterval>::of(*time) : Parsed<CheckInterval>::refused(time.error);
  }
  const auto batches = parse_batch_limit(text);
  return batches ? Parsed<CheckInterval>::of(*batches) : Parsed<CheckInterval>::refused(batches.error);
}

std::string format_check_interval(const CheckInterval& interval) {
  return interval.time() ? format_duration(*interval.time()) : format_batch_limit(*interval.batches());
}

Parsed<std::chrono::seconds> parse_duration(std::string_view text) {
  constexpr std::size_t kMaxDigits = 6;  // days: 2,700 years; nothing can overflow
  const auto refused = Parsed<std::chrono::seconds>::refused(
      "'" + std::string(text) + "' is not a time of the form DD:HH:MM:SS (a day and a half: 01:12:00:00)");
  std::vector<std::int64_t> fields;
  std::string_view rest = trim(text);
  while (true) {
    const std::string_view field = rest.substr(0, rest.find(':'));
    const bool digits = std::ranges::all_of(field, [](char c) { return c >= '0' && c <= '9'; });
    if (field.empty() || !digits || field.size() > kMaxDigits) return refused;
    fields.push_back(*parse_integer(field));
    if (field.size() == rest.size()) break;
    rest.remove_prefix(field.size() + 1);
  }
  if (fields.size() == 3) fields.insert(fields.begin(), 0);
  if (fields.size() != 4) return refused;
  return Parsed<std::chrono::seconds>::of(
      std::chrono::seconds(((fields[0] * 24 + fields[1]) * 60 + fields[2]) * 60 + fields[3]));
}

std::string format_duration(std::chrono::seconds duration) {
  const std::int64_t seconds = duration.count();
  return formatted("%02lld:%02lld:%02lld:%02lld", static_cast<long long>(seconds / 86400),
                   static_cast<long long>(seconds / 3600 % 24), static_cast<long long>(seconds / 60 % 60),
                   static_cast<long long>(seconds % 60));
}

Parsed<std::chrono::duration<double>> parse_seconds(const std::string& text) {
  using Seconds = std::chrono::duration<double>;
  if (text.empty()) return Parsed<Seconds>::of(Seconds(0));
  if (const auto seconds = parse_real(text); seconds && *seconds >= 0)
    return Parsed<Seconds>::of(Seconds(*seconds));
  if (const auto duration = parse_duration(text)) return Parsed<Seconds>::of(*duration);
  return Parsed<Seconds>::refused("'" + text + "' is not a time of the form DD:HH:MM:SS, or seconds");
}

Parsed<std::vector<std::int64_t>> parse_integers(std::string_view text) {
  const auto refused = Parsed<std::vector<std::int64_t>>::refused(
      "'" + std::string(text) + "' is not a list of whole numbers with commas between");
  std::vector<std::int64_t> numbers;
  text = trim(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);  // a list in YAML
  while (!trim(text).empty()) {
    const std::size_t comma = text.find(',');
    const auto number = parse_integer(text.substr(0, comma));
    if (!number) return refused;
    numbers.push_back(*number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (trim(text).empty()) return refused;
  }
  return Parsed<std::vector<std::int64_t>>::of(numbers);
}

std::string format_integers(const std::vector<std::int64_t>& numbers) {
  return joined(numbers, ",", [](std::int64_t number) { return std::to_string(number); });
}

Parsed<Profiler> parse_profiler(std::string_view text) {
  if (trim(text) == "pytorch") return Parsed<Profiler>::of(Profiler::trace);
  if (trim(text) == "advanced")
    return Parsed<Profiler>::refused(
        "'advanced' profiles Python's functions, which do not exist here; simple measures the phases of a "
        "step, trace records the operations of a few steps");
  return parse_choice<Profiler>(text);
}

int signal_number(RequeueSignal signal) {
  constexpr std::array<int, 4> kNumbers{0, SIGUSR1, SIGUSR2, SIGHUP};
  return kNumbers[static_cast<std::size_t>(signal)];
}

Parsed<std::size_t> parse_word(std::string_view text, std::span<const std::string_view> words) {
  const std::string_view typed = trim(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == typed) return Parsed<std::size_t>::of(i);
  }
  const std::vector<std::string> names(words.begin(), words.end());
  const std::string meant = did_you_mean(typed, names);
  return Parsed<std::size_t>::refused("'" + std::string(text) + "' is none of " + joined(words) +
                                      (meant.empty() ? "" : " (" + meant + ")"));
}

Parsed<Precision> parse_precision(std::string_view text) {
  struct Spelling {
    std::string_view typed, name;
  };
  static constexpr std::array kShorthands{Spelling{"16", "16-mixed"}, Spelling{"bf16", "bf16-mixed"},
                                          Spelling{"32", "32-true"}, Spelling{"64", "64-true"}};
  static constexpr std::array<std::string_view, 6> kNames{"32-true", "16-mixed", "bf16-mixed",
                                                          "64-true", "16-true",  "bf16-true"};
  const std::string_view typed = trim(text);
  for (const Spelling& spelling : kShorthands) {
    if (spelling.typed == typed) return Parsed<Precision>::of({std::string(spelling.name), true});
  }
  for (const std::string_view name : kNames) {
    if (name == typed) return Parsed<Precision>::of({std::string(name), false});
  }
  return Parsed<Precision>::refused("'" + std::string(text) +
                                    "' is not a precision; use 16, bf16, 32, 64 or " + joined(kNames));
}

}  // namespace cxtrain
