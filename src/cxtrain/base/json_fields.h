#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/field_types.h"
#include "cxtrain/base/shallow_json.h"
#include "cxtrain/base/text.h"

/// JSON of structs that list their fields:
///
///     struct Node {
///       std::string hostname;
///       std::vector<Gpu> gpus;
///       int cores = 1;
///       void fields(auto&& field) {
///         CXTRAIN_EACH(field, hostname, gpus);  // base/each_field.h
///         field("cores", cores, in_json::AtLeast{1});
///       }
///     };
///
/// A field is a bool, a number, a text, an enumeration with a `ChoiceOf`, JSON, a struct with fields, or an
/// optional, a list or a map of these. NaN and infinities are null.
namespace cxtrain {

/// Rules of the documents of a kind.
struct JsonRules {
  std::string document = {};  ///< for errors: "hardware file hw.json"
  bool empty_texts = true;    ///< false: empty texts and maps are left out
  bool more_fields = true;    ///< false: a field that no struct lists is an error
  bool all_needed = false;
  bool non_finite = false;        ///< true: NaN and infinities stay what they are, for CBOR
  in_json::AtLeast numbers = {};  ///< of whole numbers without a limit of their own
};

namespace in_json {

template <class Value>
inline constexpr bool kIsList = false;
template <class Value>
inline constexpr bool kIsList<std::vector<Value>> = true;
template <class Value>
inline constexpr bool kIsMap = false;
template <class Value>
inline constexpr bool kIsMap<std::map<std::string, Value>> = true;
template <class Value>
inline constexpr bool kIsMap<std::vector<std::pair<std::string, Value>>> = true;

template <class Attribute, class... Attributes>
inline constexpr bool kHas = (std::is_same_v<Attribute, Attributes> || ...);

template <class Json>
class Writer {
 public:
  explicit Writer(const JsonRules& rules) : rules_(rules) {}

  template <class Value, class... Attributes>
  void operator()(const char* name, const Value& value, const Attributes&...) {
    constexpr bool kNull = kHas<NullIfEmpty, Attributes...>;
    if constexpr (kHas<UnlessDefault, Attributes...>) {
      if (value == Value()) return;
    }
    bool empty = false;
    if constexpr (kIsOptional<Value>) empty = !value;
    if constexpr (std::is_same_v<Value, std::string> || kIsMap<Value>)
      empty = value.empty() && (kNull || !rules_.empty_texts);
    if (!empty || kNull) object_[name] = empty ? Json() : json_of(value);
  }

  template <class Value>
  Json json_of(const Value& value) const {
    if constexpr (kIsOptional<Value>) {
      if (!value) return Json();
      return json_of(*value);
    } else if constexpr (kIsMap<Value>) {
      Json object = Json::object();
      for (const auto& [name, each] : value) object[name] = json_of(each);
      return object;
    } else if constexpr (kIsList<Value>) {
      Json list = Json::array();
      for (const auto& each : value)
        list.push_back(json_of(static_cast<const typename Value::value_type&>(each)));
      return list;
    } else if constexpr (Choice<Value>) {
      return std::string(word_of(value));
    } else if constexpr (std::floating_point<Value>) {
      return std::isfinite(value) || rules_.non_finite ? Json(value) : Json();
    } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string> ||
                         std::is_same_v<Value, Json>) {
      return Json(value);
    } else {
      Writer writer(rules_);
      const_cast<Value&>(value).fields(writer);  // which only reads them
      return std::move(writer.object_);
    }
  }

 private:
  const JsonRules& rules_;
  Json object_ = Json::object();
};

template <class Json>
class Reader {
 public:
  Reader(const Json& json, const JsonRules& rules, std::string path = "")
      : json_(json), rules_(rules), path_(std::move(path)) {}

  template <class Value, class... Attributes>
  void operator()(const char* name, Value& value, const Attributes&... attributes) {
    known_.insert(name);
    const auto found = json_.find(name);
    if (found == json_.end() || (found->is_null() && !std::is_same_v<Value, Json>)) {
      if (rules_.all_needed || kHas<Needed, Attributes...>)
        refuse("the field '" + std::string(name) + "' is missing");
      return;
    }
    Reader reader(*found, rules_, path_.empty() ? name : path_ + "." + name);
    reader.numbers_ = rules_.numbers;
    (reader.take(attributes), ...);
    reader.read(value);
  }

  template <class Value>
  void read(Value& value) {
    if constexpr (kIsOptional<Value>) {
      value.reset();
      if (!json_.is_null()) read(value.emplace());
    } else if constexpr (kIsMap<Value>) {
      read_map(value);
    } else if constexpr (kIsList<Value>) {
      read_list(value);
    } else if constexpr (Choice<Value>) {
      read_word(value);
    } else if constexpr (std::is_same_v<Value, Json>) {
      value = json_;
    } else if constexpr (std::is_same_v<Value, std::string>) {
      expect(json_.is_string(), "a text");
      value = json_.template get<std::string>();
    } else if constexpr (std::is_same_v<Value, bool>) {
      expect(json_.is_boolean(), "true or false");
      value = json_.template get<bool>();
    } else if constexpr (std::floating_point<Value>) {
      expect(json_.is_number() || json_.is_null(), "a number");
      value = json_.is_null() ? std::numeric_limits<Value>::quiet_NaN() : json_.template get<Value>();
    } else if constexpr (std::integral<Value>) {
      read_integer(value);
    } else {
      read_object(value);
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw DataError(rules_.document + ": " + (path_.empty() ? "the whole" : path_) + ": " + why,
                    MessageCode::invalid_file);
  }

 private:
  void take(const AtLeast& numbers) { numbers_ = numbers; }
  template <class Other>
  void take(const Other& /*not for the value*/) {}

  void expect(bool is_so, const std::string& expected) const {
    if (is_so) return;
    std::string found = json_.is_array() ? "a list" : "an object";
    if (json_.is_structured() && json_.empty()) found = json_.is_array() ? "[]" : "{}";
    // dump() of lists and objects would follow their nesting, however deep
    if (!json_.is_structured())
      found = shortened(json_.dump(-1, ' ', false, Json::error_handler_t::replace), 40);
    refuse("expected " + expected + ", found " + found);
  }

  template <class Integer>
  void read_integer(Integer& value) const {
    expect(json_.is_number_integer(), "a whole number");
    const auto take_number = [&](auto number) {
      expect(!std::cmp_less(number, numbers_.least),
             "a number of at least " + std::to_string(numbers_.least));
      expect(std::in_range<Integer>(number),
             std::cmp_less(number, 0) ? "a larger number" : "a smaller number");
      value = static_cast<Integer>(number);
    };
    if (json_.is_number_unsigned())
      take_number(json_.template get<std::uint64_t>());
    else
      take_number(json_.template get<std::int64_t>());
  }

  template <class Enum>
  void read_word(Enum& value) const {
    const auto& words = ChoiceOf<Enum>::words;
    const auto found =
        json_.is_string() ? std::ranges::find(words, json_.template get<std::string>()) : words.end();
    expect(found != words.end(), "one of " + joined(words));
    value = static_cast<Enum>(found - words.begin());
  }

  template <class List>
  void read_list(List& list) const {
    expect(json_.is_array(), "a list");
    list.clear();
    for (std::size_t i = 0; i < json_.size(); ++i) {
      typename List::value_type each{};
      element(json_[i], "[" + std::to_string(i) + "]").read(each);
      list.push_back(std::move(each));
    }
  }

  template <class Map>
  void read_map(Map& map) const {
    expect(json_.is_object(), "an object");
    map.clear();
    for (const auto& [name, json] : json_.items()) {
      std::remove_cvref_t<decltype(map.begin()->second)> each{};
      element(json, "." + name).read(each);
      map.insert(map.end(), typename Map::value_type(name, std::move(each)));
    }
  }

  Reader element(const Json& json, const std::string& place) const {
    Reader reader(json, rules_, path_ + place);
    reader.numbers_ = numbers_;
    return reader;
  }

  template <class Struct>
  void read_object(Struct& value) {
    expect(json_.is_object(), "an object");
    value.fields(*this);
    if (rules_.more_fields) return;
    for (const auto& [name, ignored] : json_.items()) {
      if (!known_.contains(name))
        Reader(json_, rules_, (path_.empty() ? "" : path_ + ".") + shortened(name, 40))
            .refuse("there is no field of this name");
    }
  }

  const Json& json_;
  const JsonRules& rules_;
  std::string path_;
  AtLeast numbers_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace in_json

/// Returns a struct with fields as JSON, in their order if `Json` keeps it.
template <class Json = nlohmann::ordered_json, class Struct>
Json json_of(const Struct& value, const JsonRules& rules = {}) {
  return in_json::Writer<Json>(rules).json_of(value);
}

/// Returns JSON as text. Texts need not be UTF-8. `indent` -1: one line.
template <class Json>
std::string text_of_json(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Reads what `json_of` wrote. Fields that are missing or null keep their defaults. Throws DataError with
/// `rules.document` and the field for a value of another type or out of its range.
template <class Struct, class Json>
Struct struct_of_json(const Json& json, const JsonRules& rules) {
  Struct value;
  in_json::Reader<Json>(json, rules).read(value);
  return value;
}

/// Returns a value of the types of fields as a message for other ranks, to the bit (CBOR).
template <class Value>
std::string to_message(const Value& value) {
  std::string bytes;
  nlohmann::json::to_cbor(json_of<nlohmann::json>(value, {.non_finite = true}), bytes);
  return bytes;
}

/// Reads what `to_message` wrote.
template <class Value>
Value from_message(const std::string& bytes) {
  return struct_of_json<Value>(nlohmann::json::from_cbor(bytes), {.document = "a message of another rank"});
}

/// Parses the text of a document. Throws DataError with the line that is not JSON.
nlohmann::ordered_json parse_document(std::string_view text, const std::string& document);

/// Reads a file's text that another program may have written; absent if it is not an object of JSON, is
/// nested too deeply, or has a value that `struct_of_json` refuses.
template <class Struct>
std::optional<Struct> parse_struct(std::string_view text) {
  try {
    return struct_of_json<Struct>(parse_shallow_json<nlohmann::ordered_json>(text), {});
  } catch (const DataError&) {
    return std::nullopt;
  }
}

}  // namespace cxtrain
