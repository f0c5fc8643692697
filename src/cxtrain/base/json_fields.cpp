#include "cxtrain/base/json_fields.h"

namespace cxtrain {
namespace {

/// "[json.exception.out_of_range.406] number overflow ..." without what it begins with.
std::string without_code(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return shortened(end == std::string::npos ? text : text.substr(end + 2), 300);
}

}  // namespace

nlohmann::ordered_json parse_document(std::string_view text, const std::string& document) {
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), error.byte));
    throw DataError(document + ": line " + std::to_string(1 + std::count(text.begin(), end, '\n')) +
                        " is not valid JSON (" + without_code(error) + ")",
                    MessageCode::invalid_file);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(document + " cannot be used: " + without_code(error), MessageCode::invalid_file);
  }
}

}  // namespace cxtrain
