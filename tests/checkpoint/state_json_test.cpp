#include "cxtrain/checkpoint/state_json.h"

#include <ATen/Functions.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/state_difference.h"

using namespace cxtrain;

namespace {

StateDict round_trip(const StateDict& state) {
  std::map<std::string, at::Tensor> stored;
  const auto place = [&](const std::string& path, const Piece& piece) {
    const std::string key = path + "/" + piece.name + "#" + std::to_string(piece.range.begin);
    stored[key] = piece.values;
    return TensorPlace{"file", key};
  };
  const std::string text = to_json(state, place).dump();
  return state_from_json(parse_shallow(text), [&](Piece& piece, const TensorPlace& where) {
    piece.values = stored.at(where.key);
  });
}

StateDict without_tensors(const std::string& json) {
  return state_from_json(parse_shallow(json), [](const Piece&, const TensorPlace&) {});
}

}  // namespace

TEST_CASE("a state comes back from JSON to the last bit", "[checkpoint]") {
  const double payload = std::bit_cast<double>(std::uint64_t{0x7ff8000000000abc});
  StateDict state;
  state.set("yes", true);
  state.set("least", std::numeric_limits<std::int64_t>::min());
  state.set("most", std::numeric_limits<std::int64_t>::max());
  state.set("one", 1.0);
  state.set("minus zero", -0.0);
  state.set("tiny", std::numeric_limits<double>::denorm_min());
  state.set("infinite", -std::numeric_limits<double>::infinity());
  state.set("nan", payload);
  state.set("text", std::string("quotes \" and \\ \n é"));
  state.set("bytes", std::string("\xff\x00\x80", 3));
  state.set("", std::string());
  state.make_section("a.b/c").make_section("empty");
  state.make_section("tensors").set("whole", at::arange(6).reshape({2, 3}));
  state.make_section("tensors").add(part_of("cut", at::arange(10), {2, 5}));
  state.make_section("tensors").set("scalar", at::ones({}));
  state.make_section("tensors").set("none", at::empty({0, 3}));
  CHECK(test::first_difference(state, round_trip(state)).empty());

  std::mt19937_64 random(7);
  StateDict numbers;
  for (int i = 0; i < 2000; ++i) numbers.set(std::to_string(i), std::bit_cast<double>(random()));
  CHECK(test::first_difference(numbers, round_trip(numbers)).empty());
}

TEST_CASE("JSON that is no state is refused", "[checkpoint]") {
  for (const char* json :
       {"[]", "1", R"({"values": []})", R"({"values": {"x": null}})", R"({"values": {"x": [1]}})",
        R"({"values": {"x": {"real": 1}}})", R"({"values": {"x": {"real": "xyz"}}})",
        R"({"values": {"x": {"bytes": "abc"}}})", R"({"values": {"x": {"other": "ab"}}})",
        R"({"sections": {"s": 1}})", R"({"tensors": [{}]})", R"({"tensors": [{"name": "t", "shape": [-1]}]})",
        R"({"tensors": [{"name": "t", "shape": [4], "range": [3, 2]}]})",
        R"({"tensors": [{"name": "t", "shape": [4], "range": [0, 5]}]})",
        R"({"tensors": [{"name": "t", "shape": [4294967296, 4294967296, 4294967296]}]})"}) {
    CAPTURE(json);
    CHECK_THROWS_AS(without_tensors(json), StateError);
  }
  CHECK_THROWS(parse_shallow(std::string(200000, '[') + std::string(200000, ']')));
  CHECK_NOTHROW(parse_shallow("[\"" + std::string(200, '[') + "\\\"\"]"));  // brackets in a text
}
