#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/each_field.h"

#include <array>
#include <limits>
#include "support/catch.h"
#include "support/error_text.h"

enum class JsonColour { red, green };
template <>
struct cxtrain::ChoiceOf<JsonColour> {
  static constexpr std::array<std::string_view, 2> words{"red", "green"};
};

namespace cxtrain::test {
namespace {

struct JsonPart {
  std::string name;
  int size = 1;

  bool operator==(const JsonPart&) const = default;
  void fields(auto&& field) {
    field("name", name, in_json::kNeeded);
    field("size", size, in_json::AtLeast{1});
  }
};

struct JsonWhole {
  bool on = false;
  double share = 0.5;
  std::uint64_t seed = 0;
  JsonColour colour = JsonColour::red;
  std::optional<int> known, shown;
  std::string text;
  std::vector<JsonPart> parts;
  std::vector<std::pair<std::string, double>> ordered;
  std::map<std::string, std::string> texts;
  std::vector<std::optional<bool>> answers;

  bool operator==(const JsonWhole&) const = default;
  void fields(auto&& field) {
    CXTRAIN_EACH(field, on, share, seed);
    field("colour", colour, in_json::kUnlessDefault);
    field("known", known);
    field("shown", shown, in_json::kNullIfEmpty);
    CXTRAIN_EACH(field, text, parts, ordered, texts, answers);
  }
};

JsonWhole read_whole(const std::string& text, JsonRules rules = {}) {
  rules.document = "file x.json";
  return struct_of_json<JsonWhole>(nlohmann::ordered_json::parse(text), rules);
}

std::string why_refused(const std::string& text, const JsonRules& rules = {}) {
  return error_of([&] { read_whole(text, rules); });
}

}  // namespace

TEST_CASE("a struct comes back from JSON as it was") {
  const JsonWhole whole{.on = true,
                        .share = 0.25,
                        .seed = std::numeric_limits<std::uint64_t>::max(),
                        .colour = JsonColour::green,
                        .known = -3,
                        .shown = 4,
                        .text = "a \"b\"\n",
                        .parts = {{"p", 2}, {"q", 1}},
                        .ordered = {{"z", 1}, {"a", 2}},
                        .texts = {{"k", "v"}},
                        .answers = {true, std::nullopt}};
  CHECK(read_whole(text_of_json(json_of(whole))) == whole);
}

TEST_CASE("what is absent or empty is written as the field says") {
  JsonWhole whole;
  whole.share = std::numeric_limits<double>::infinity();
  CHECK(
      text_of_json(json_of(whole)) ==
      R"({"on":false,"share":null,"seed":0,"shown":null,"text":"","parts":[],"ordered":{},"texts":{},"answers":[]})");
  CHECK(text_of_json(json_of(JsonWhole(), {.empty_texts = false})) ==
        R"({"on":false,"share":0.5,"seed":0,"shown":null,"parts":[],"answers":[]})");
}

TEST_CASE("fields that are missing or null keep their defaults") {
  CHECK(read_whole("{}") == JsonWhole());
  CHECK(read_whole(R"({"on":null,"known":null,"more":1})") == JsonWhole());
  CHECK_THAT(why_refused(R"({"parts":[{"size":2}]})"), contains("parts[0]:") && contains("'name'"));
  CHECK_THAT(why_refused("{}", {.all_needed = true}), contains("'on'"));
  CHECK_THAT(why_refused(R"({"more":1})", {.more_fields = false}), contains("more:"));
}

TEST_CASE("a value of another type or out of its range is refused by document and field") {
  struct Row {
    const char *json, *place, *found;
  };
  for (const auto& [json, place, found] :
       {Row{"[]", "the whole:", "found []"}, Row{R"({"on":1})", "on:", "found 1"},
        Row{R"({"share":"x"})", "share:", "found \"x\""}, Row{R"({"seed":-1})", "seed:", "found -1"},
        Row{R"({"seed":1.5})", "seed:", "found 1.5"},
        Row{R"({"known":2147483648})", "known:", "found 2147483648"},
        Row{R"({"known":-9223372036854775808})", "known:", "found -9223372036854775808"},
        Row{R"({"colour":"blue"})", "colour:", "red, green"},
        Row{R"({"colour":{"a":[[]]}})", "colour:", "an object"}, Row{R"({"parts":{}})", "parts:", "found {}"},
        Row{R"({"parts":[{"name":"a","size":0}]})", "parts[0].size:", "at least 1"},
        Row{R"({"texts":{"k":1}})", "texts.k:", "found 1"},
        Row{R"({"answers":[0]})", "answers[0]:", "found 0"}}) {
    INFO(json);
    CHECK_THAT(why_refused(json), contains("file x.json: ") && contains(place) && contains(found) &&
                                      contains(code(MessageCode::invalid_file)));
  }
  CHECK_THAT(why_refused(R"({"known":-1})", {.numbers = {0}}), contains("known:") && contains("at least 0"));
}

TEST_CASE("text of another program is a struct or nothing") {
  CHECK(parse_struct<JsonPart>(R"({"name":"a"})") == JsonPart{"a", 1});
  for (const std::string& text : {std::string(), std::string("[1]"), std::string(R"({"name":1})"),
                                  R"({"name":)" + std::string(100'000, '[')})
    CHECK_FALSE(parse_struct<JsonPart>(text));
}

}  // namespace cxtrain::test
