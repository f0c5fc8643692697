#include "cxtrain/config/arguments.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cxtrain/base/text.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// A limit of a range: "100000", "0.5".
std::string limit_text(double limit) {
  const bool whole = limit == std::floor(limit) && std::abs(limit) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(limit)) : format_real(limit);
}

}  // namespace

std::optional<Problem> refuse_choice(const std::vector<std::string>& choices, const std::string& text) {
  if (choices.empty() || std::ranges::find(choices, text) != choices.end()) return std::nullopt;
  return Problem{"", "'" + text + "' is none of " + joined(choices), did_you_mean(text, choices),
                 MessageCode::unknown_name};
}

std::string Range::refuse(double number) const {
  if (!finite) return "";
  if (!std::isfinite(number)) return "is not a finite number";
  if (open_least ? number <= least : number < least)
    return (open_least ? "is not above " : "is less than ") + limit_text(least);
  if (open_most ? number >= most : number > most)
    return (open_most ? "is not below " : "is more than ") + limit_text(most);
  return "";
}

Arguments::Arguments(const std::vector<ArgumentSpec>& specs, const std::map<std::string, std::string>& given,
                     std::string_view prefix, std::vector<Problem>& problems,
                     std::span<const std::string> others) {
  std::vector<std::string> names;
  for (const ArgumentSpec& spec : specs) {
    names.push_back(spec.name);
    values_[spec.name] = spec.default_value;
  }
  for (const auto& [name, value] : given) {
    const std::string option = std::string(prefix) + name;
    const auto spec = std::ranges::find(specs, name, &ArgumentSpec::name);
    if (spec == specs.end()) {
      std::vector<std::string> known = names;
      known.insert(known.end(), others.begin(), others.end());
      const std::string hint = known.empty() ? "it takes no arguments"
                                             : did_you_mean_or_known(name, known, "--" + std::string(prefix));
      problems.push_back({option, "there is no such argument", hint, MessageCode::unknown_option});
    } else if (auto problem = spec->refuse(*spec, value)) {
      problem->option = option;
      problems.push_back(std::move(*problem));
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

const std::string& Arguments::text(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  if (found == values_.end())
    throw std::logic_error("the specs have no argument '" + std::string(name) + "'");
  return found->second;
}

bool Arguments::given(std::string_view name) const { return given_.find(name) != given_.end(); }

}  // namespace cxtrain
