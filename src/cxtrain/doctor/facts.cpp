#include "cxtrain/doctor/facts.h"

#include "cxtrain/base/json_fields.h"

namespace cxtrain::doctor {
namespace {

/// Absent facts and empty texts are left out. Limits are -1 if there are none.
JsonRules rules_of_recording(const std::string& file = "") {
  return {.document = "recording " + file, .empty_texts = false, .more_fields = false, .numbers = {-1}};
}

}  // namespace

std::string to_json(const Recording& recording) {
  return text_of_json(json_of(recording, rules_of_recording()));
}

Recording parse_recording(std::string_view text, const std::string& file) {
  const JsonRules rules = rules_of_recording(file);
  const auto json = parse_document(text, rules.document);
  const bool printed = json.is_object() && json.contains("world");
  return struct_of_json<Recording>(printed ? json["world"] : json, rules);
}

}  // namespace cxtrain::doctor
