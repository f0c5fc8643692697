#include "cxtrain/checkpoint/pickle.h"

#include "checkpoint/pickle_support.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

using namespace test::pickled;
using Kind = Pickle::Kind;

Pickle read(const std::string& value) { return Pickle(program(value)); }

TEST_CASE("pickled values of all opcodes") {
  struct Row {
    std::string value;
    Kind kind;
    std::int64_t integer = 0;
    std::string text = {};
    std::size_t items = 0;
  };
  using std::string_literals::operator""s;
  const std::vector<Row> rows{
      {"N", Kind::other},
      {"\x88", Kind::integer, 1},
      {"\x89", Kind::integer, 0},
      {"J\xfe\xff\xff\xff", Kind::integer, -2},
      {"K\xfe", Kind::integer, 254},
      {"M\xff\x01", Kind::integer, 511},
      {"\x8a\x00"s, Kind::integer, 0},
      {"\x8a\x01\xff", Kind::integer, -1},
      {"\x8a\x02\xff\x00"s, Kind::integer, 255},
      {integer(-1234567890123), Kind::integer, -1234567890123},
      {"\x8b\x01\x00\x00\x00\x07"s, Kind::integer, 7},
      {"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01"s, Kind::other},
      {"G12345678", Kind::other},
      {"C\x02xy", Kind::other},
      {"B\x02\x00\x00\x00xy"s, Kind::other},
      {"\x8e\x02\x00\x00\x00\x00\x00\x00\x00xy"s, Kind::other},
      {text("größe"), Kind::text, 0, "größe"},
      {"\x8c\x02xy", Kind::text, 0, "xy"},
      {"U\x02xy", Kind::text, 0, "xy"},
      {"T\x02\x00\x00\x00xy"s, Kind::text, 0, "xy"},
      {"\x8d\x02\x00\x00\x00\x00\x00\x00\x00xy"s, Kind::text, 0, "xy"},
      {")", Kind::sequence},
      {"]", Kind::sequence},
      {"\x8f", Kind::sequence},
      {"NNN\x85", Kind::sequence, 0, "", 1},
      {"NNN\x86", Kind::sequence, 0, "", 2},
      {"NNN\x87", Kind::sequence, 0, "", 3},
      {"(NNNNt", Kind::sequence, 0, "", 4},
      {"(NNl", Kind::sequence, 0, "", 2},
      {"(NN\x91", Kind::sequence, 0, "", 2},
      {"]Na", Kind::sequence, 0, "", 1},
      {"](NNe", Kind::sequence, 0, "", 2},
      {"\x8f(NN\x90", Kind::sequence, 0, "", 2},
      {"}", Kind::map},
      {"}" + text("a") + "Ns", Kind::map, 0, "", 2},
      {"}(NNNNu", Kind::map, 0, "", 4},
      {"(NNd", Kind::map, 0, "", 2},
      {global("a.b", "C"), Kind::global, 0, "a.b.C"},
      {text("a.b") + text("C") + "\x93", Kind::global, 0, "a.b.C"},
      {ordered_dict(), Kind::map},
      {ordered_dict() + text("a") + "Ns}b", Kind::map, 0, "", 2},
      {call(global("a", "f"), "NN"), Kind::call, 0, "", 2},
      {global("a", "C") + ")\x81", Kind::call, 0, "", 2},
      {global("a", "C") + ")}\x92", Kind::call, 0, "", 2},
      {global("a", "C") + ")\x81" + text("a") + "Ns", Kind::call, 0, "", 2},
      {call(global("torch.jit._pickle", "restore_type_tag"), "]" + text("List[int]")), Kind::sequence},
      {text("x") + "Q", Kind::persistent, 0, "", 1},
      {"K\x01q\x05"
       "0h\x05",
       Kind::integer, 1},
      {"K\x01r\x05\x01\x00\x00"
       "0j\x05\x01\x00\x00"s,
       Kind::integer, 1},
      {"K\x01\x94"
       "0h\x00"s,
       Kind::integer, 1},
      {"N(NN1", Kind::other},
      {"K\x01"
       "2\x86",
       Kind::sequence, 0, "", 2},
      {"\x95\x01\x00\x00\x00\x00\x00\x00\x00N"s, Kind::other},
  };
  for (const Row& row : rows) {
    CAPTURE(row.value);
    const Pickle pickle = read(row.value);
    CHECK(pickle.root().kind == row.kind);
    CHECK(pickle.root().integer == row.integer);
    CHECK(pickle.root().text == row.text);
    CHECK(pickle.root().items.size() == row.items);
  }
}

TEST_CASE("a pickled object keeps who would be called, and its state") {
  const Pickle pickle = read(global("torch.nn", "Linear") + ")\x81" + dict({{"bias", "K\x07"}}) + "b");
  REQUIRE(pickle.root().state);
  CHECK(pickle[pickle.root().items[0]].text == "torch.nn.Linear");
  const Pickle::Node* bias = pickle.find(pickle[*pickle.root().state], "bias");
  REQUIRE(bias != nullptr);
  CHECK(bias->integer == 7);
  CHECK(pickle.find(pickle[*pickle.root().state], "weight") == nullptr);
  CHECK(pickle.find(*bias, "x") == nullptr);
}

TEST_CASE("a pickle that contains itself is read") {
  const Pickle pickle = read(
      "]q\x01h\x01"
      "a");
  CHECK(&pickle[pickle.root().items.at(0)] == &pickle.root());
}

TEST_CASE("a pickle's values take memory in proportion to its bytes") {
  const std::string many(100'000, 'N');
  CHECK_NOTHROW(Pickle("(" + many + "t."));  // one value, however often
  CHECK_THAT(test::error_of([&] { Pickle{"(" + std::string(100'000, ']') + "t."}; }),
             test::contains(test::code(MessageCode::bad_checkpoint)) && test::contains("more than"));
  // A long text that is recalled as the name of one class after the other.
  std::string names = text(std::string(100'000, 'x')) + "q\x01" + "0(";
  for (int i = 0; i < 1000; ++i) names += "h\x01h\x01\x93";
  CHECK_THAT(test::error_of([&] { Pickle{names + "t."}; }),
             test::contains(test::code(MessageCode::bad_checkpoint)) && test::contains("class names"));
}

TEST_CASE("pickles that are none are refused") {
  using std::string_literals::operator""s;
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "within a value"},
      {"N", "within a value"},
      {".", "takes a value"},
      {"(N0.", "takes a value"},
      {"N(.", "takes a value"},
      {"N(R.", "takes a value"},
      {"t.", "a mark"},
      {"}(Nu.", "a key"},
      {"h\x01.", "memo"},
      {"X\xff\xff\xff\xffx.", "within a value"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.", "within a value"},
      {"\x8b\xff\xff\xff\xffx.", "within a value"},
      {"cos\nsystem", "within a name"},
      {"I1\n.", "opcode 73 at byte 0"},
      {"\x82\x01.", "opcode 130"},
  };
  for (const auto& [bytes, why] : rows) {
    CAPTURE(bytes);
    CHECK_THAT(test::error_of([bytes = bytes] { Pickle{bytes}; }),
               test::contains(test::code(MessageCode::bad_checkpoint)) && test::contains(why));
    CHECK_THROWS_AS(Pickle(bytes), CheckpointError);
  }
}

}  // namespace
}  // namespace cxtrain
