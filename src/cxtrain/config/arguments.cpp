#include "cxtrain/config/arguments.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cxtrain/config/suggestions.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::optional<std::vector<std::int64_t>> parse_integers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (!trim(text).empty()) {
    const std::size_t comma = text.find(',');
    const auto number = parse_integer(text.substr(0, comma));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (trim(text).empty()) return std::nullopt;
  }
  return numbers;
}

/// Seconds; absent if the text is no time.
std::optional<double> parse_seconds(const std::string& text) {
  if (text.empty()) return 0;
  if (const auto seconds = parse_real(text)) return *seconds >= 0 ? seconds : std::nullopt;
  const auto duration = parse_duration(text);
  return duration ? std::optional(static_cast<double>((*duration).count())) : std::nullopt;
}

/// Whether the text leaves an optional argument to the component.
bool is_auto(std::string_view text) {
  const std::string_view word = trim(text);
  return word == "auto" || word == "null";
}

/// Why a value is refused; empty if it is not.
struct Refusal {
  std::string why;
  MessageCode code = MessageCode::invalid_value;
};

Refusal refuse_number(const ArgumentSpec& spec, const std::string& value, double number) {
  const std::string why = spec.range.refuse(number);
  if (why.empty()) return {};
  return {"'" + value + "' " + why, MessageCode::out_of_range};
}

Refusal refuse(const ArgumentSpec& spec, const std::string& value) {
  const auto refuse_unless = [&value](bool allowed, const char* why) {
    return allowed ? Refusal{} : Refusal{"'" + value + "' " + why};
  };
  switch (spec.type) {
    case ArgumentSpec::Type::integer: {
      const auto number = parse_integer(value);
      return number ? refuse_number(spec, value, static_cast<double>(*number))
                    : refuse_unless(false, "is not a whole number");
    }
    case ArgumentSpec::Type::real: {
      const auto number = parse_real(value);
      return number ? refuse_number(spec, value, *number) : refuse_unless(false, "is not a number");
    }
    case ArgumentSpec::Type::integers: {
      const auto numbers = parse_integers(value);
      if (!numbers) return refuse_unless(false, "is not a list of whole numbers with commas between");
      for (const std::int64_t number : *numbers) {
        Refusal refusal = refuse_number(spec, std::to_string(number), static_cast<double>(number));
        if (!refusal.why.empty()) return refusal;
      }
      return {};
    }
    case ArgumentSpec::Type::boolean:
      return refuse_unless(parse_boolean(value).has_value(), "is neither true nor false");
    case ArgumentSpec::Type::optional_boolean:
      return refuse_unless(is_auto(value) || parse_boolean(value), "is none of true, false, auto");
    case ArgumentSpec::Type::duration:
      return refuse_unless(parse_seconds(value).has_value(),
                           "is not a time of the form DD:HH:MM:SS, or seconds");
    case ArgumentSpec::Type::text:
      break;
  }
  const auto& choices = spec.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  return {"'" + value + "' is none of " + join(choices), MessageCode::unknown_name};
}

}  // namespace

std::string Range::refuse(double number) const {
  if (!std::isfinite(number)) return "is not a finite number";
  if (open_least ? number <= least : number < least)
    return (open_least ? "is not above " : "is less than ") + format_real(least);
  if (open_most ? number >= most : number > most)
    return (open_most ? "is not below " : "is more than ") + format_real(most);
  return "";
}

Arguments::Arguments(const std::vector<ArgumentSpec>& specs, const std::map<std::string, std::string>& given,
                     std::string_view prefix, std::vector<Problem>& problems,
                     std::span<const std::string> others) {
  std::vector<std::string> names;
  for (const ArgumentSpec& spec : specs) {
    names.push_back(spec.name);
    types_[spec.name] = spec.type;
    values_[spec.name] = spec.default_value;
  }
  for (const auto& [name, value] : given) {
    const std::string option = std::string(prefix) + name;
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&name = name](const ArgumentSpec& each) { return each.name == name; });
    if (spec == specs.end()) {
      std::vector<std::string> known = names;
      known.insert(known.end(), others.begin(), others.end());
      std::string hint = did_you_mean(name, known, "--" + std::string(prefix));
      if (hint.empty()) hint = known.empty() ? "it takes no arguments" : "known are " + join(known);
      problems.push_back({option, "there is no such argument", hint, MessageCode::unknown_option});
    } else if (Refusal refusal = refuse(*spec, value); !refusal.why.empty()) {
      problems.push_back({option, refusal.why, did_you_mean(value, spec->choices), refusal.code});
    } else {
      values_[name] = value;
      given_.insert(name);
    }
  }
  for (const ArgumentSpec& spec : specs) {
    if (spec.required && !given.contains(spec.name))
      problems.push_back(
          {std::string(prefix) + spec.name, "is not given", spec.help, MessageCode::missing_value});
  }
}

const std::string& Arguments::value(std::string_view name, ArgumentSpec::Type type) const {
  const auto known = types_.find(name);
  if (known == types_.end() || known->second != type) {
    throw std::logic_error("the specs have no argument '" + std::string(name) + "' of this type");
  }
  return values_.at(known->first);
}

std::int64_t Arguments::integer(std::string_view name) const {
  const std::optional<std::int64_t> number = parse_integer(value(name, ArgumentSpec::Type::integer));
  if (!number) throw std::logic_error("the default of '" + std::string(name) + "' is not a whole number");
  return *number;
}

double Arguments::real(std::string_view name) const {
  const std::optional<double> number = parse_real(value(name, ArgumentSpec::Type::real));
  if (!number) throw std::logic_error("the default of '" + std::string(name) + "' is not a number");
  return *number;
}

const std::string& Arguments::text(std::string_view name) const {
  return value(name, ArgumentSpec::Type::text);
}

bool Arguments::boolean(std::string_view name) const {
  const std::optional<bool> on = parse_boolean(value(name, ArgumentSpec::Type::boolean));
  if (!on) throw std::logic_error("the default of '" + std::string(name) + "' is neither true nor false");
  return *on;
}

std::optional<bool> Arguments::optional_boolean(std::string_view name) const {
  const std::string& typed = value(name, ArgumentSpec::Type::optional_boolean);
  const std::optional<bool> on = parse_boolean(typed);
  if (!on && !is_auto(typed))
    throw std::logic_error("the default of '" + std::string(name) + "' is none of true, false, auto");
  return on;
}

std::vector<std::int64_t> Arguments::integers(std::string_view name) const {
  const auto numbers = parse_integers(value(name, ArgumentSpec::Type::integers));
  if (!numbers) throw std::logic_error("the default of '" + std::string(name) + "' is no list of numbers");
  return *numbers;
}

std::chrono::duration<double> Arguments::duration(std::string_view name) const {
  const auto seconds = parse_seconds(value(name, ArgumentSpec::Type::duration));
  if (!seconds) throw std::logic_error("the default of '" + std::string(name) + "' is no time");
  return std::chrono::duration<double>(*seconds);
}

bool Arguments::given(std::string_view name) const { return given_.find(name) != given_.end(); }

}  // namespace cxtrain
