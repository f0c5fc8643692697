#include "cxtrain/checkpoint/state_json.h"

#include <bit>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cxtrain/base/error.h"
#include "cxtrain/base/shallow_json.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

using Json = nlohmann::json;

constexpr const char *kValues = "values", *kTensors = "tensors", *kSections = "sections", *kReal = "real",
                     *kBytes = "bytes";

[[noreturn]] void refuse_json(const std::string& what) {
  throw StateError("the saved state is damaged: " + what);
}

/// Of a whole tensor.
std::int64_t elements_of(std::span<const std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) refuse_json("an impossible shape");
  }
  return elements;
}

std::uint64_t number_from_hex(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error != std::errc() || end != digits.data() + digits.size())
    refuse_json("no bits in hexadecimal digits");
  return number;
}

std::string bytes_from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) refuse_json("half a byte");
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(number_from_hex(digits.substr(i, 2)));
  return bytes;
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

Json json_of(bool value) { return value; }
Json json_of(std::int64_t value) { return value; }
Json json_of(double value) {
  if (std::isfinite(value)) return value;
  return {{kReal, formatted("%" PRIx64, std::bit_cast<std::uint64_t>(value))}};
}
Json json_of(const std::string& value) {
  return is_utf8(value) ? Json(value) : Json{{kBytes, hex_of(value)}};
}

void read_value(StateDict& state, const std::string& name, const Json& json) {
  if (json.is_boolean()) return state.set(name, json.get<bool>());
  if (json.is_number_integer()) return state.set(name, json.get<std::int64_t>());
  if (json.is_number_float()) return state.set(name, json.get<double>());
  if (json.is_string()) return state.set(name, json.get<std::string>());
  if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
    const auto& text = json.begin()->get_ref<const std::string&>();
    if (json.contains(kReal)) return state.set(name, std::bit_cast<double>(number_from_hex(text)));
    if (json.contains(kBytes)) return state.set(name, bytes_from_hex(text));
  }
  refuse_json(name + " is not a value");
}

const Json* part(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return nullptr;
  if (!found->is_object()) refuse_json(std::string(name) + " is not an object");
  return &*found;
}

Json json_of(const Piece& piece, const TensorPlace& place) {
  Json json{{"name", piece.name}, {"shape", piece.shape}};
  if (!piece.is_whole()) json["range"] = {piece.range.begin, piece.range.end};
  if (!place.file.empty()) {
    json["file"] = place.file;
    json["key"] = place.key;
  }
  return json;
}

/// Without values, and its place.
std::pair<Piece, TensorPlace> piece_of(const Json& json) {
  try {
    Piece piece;
    piece.name = json.at("name").get<std::string>();
    piece.shape = json.at("shape").get<std::vector<std::int64_t>>();
    const std::int64_t whole = elements_of(piece.shape);
    piece.range = {0, whole};
    if (json.contains("range"))
      piece.range = {json["range"].at(0).get<std::int64_t>(), json["range"].at(1).get<std::int64_t>()};
    if (piece.range.begin < 0 || piece.range.begin > piece.range.end || piece.range.end > whole)
      refuse_json(piece.name + " has an impossible range");
    return {piece, {json.value("file", std::string()), json.value("key", std::string())}};
  } catch (const Json::exception&) {
    refuse_json("a tensor is not described");
  }
}

void read_state(StateDict& state, const Json& json, const FillPiece& fill) {
  if (!json.is_object()) refuse_json("a section is not an object");
  if (const Json* values = part(json, kValues)) {
    for (const auto& [name, value] : values->items()) read_value(state, name, value);
  }
  if (const auto tensors = json.find(kTensors); tensors != json.end()) {
    for (const Json& described : *tensors) {
      auto [piece, place] = piece_of(described);
      fill(piece, place);
      state.add(std::move(piece));
    }
  }
  if (const Json* sections = part(json, kSections)) {
    for (const auto& [name, section] : sections->items()) read_state(state.make_section(name), section, fill);
  }
}

Json state_json(const StateDict& state, const std::string& path, const PlaceOf& place_of) {
  Json json = Json::object();
  for (const auto& [name, value] : state.values())
    json[kValues][name] = std::visit([](const auto& v) { return json_of(v); }, value);
  if (place_of) {
    for (const Piece& piece : state.pieces()) json[kTensors].push_back(json_of(piece, place_of(path, piece)));
  }
  for (const auto& [name, section] : state.sections())
    json[kSections][name] = state_json(section, path.empty() ? name : path + "/" + name, place_of);
  return json;
}

}  // namespace

nlohmann::json to_json(const StateDict& state, const PlaceOf& place_of) {
  return state_json(state, {}, place_of);
}

StateDict state_from_json(const nlohmann::json& json, const FillPiece& fill) {
  StateDict state;
  read_state(state, json, fill);
  return state;
}

std::string reason_of_json(const std::exception& error) {
  if (const auto* parse = dynamic_cast<const Json::parse_error*>(&error))
    return "it is not JSON from byte " + std::to_string(parse->byte) + " on";
  if (dynamic_cast<const Json::exception*>(&error) != nullptr)
    return "it lacks an entry, or has one of another type";
  return message_of(error);
}

nlohmann::json parse_shallow(std::string_view text) {
  if (is_nested_too_deeply(text)) throw std::length_error("it is nested too deeply");
  return Json::parse(text);
}

}  // namespace cxtrain
