#include "cxtrain/state/state_dict.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <limits>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/state_difference.h"

namespace cxtrain {
namespace {

StateDict some_state() {
  StateDict state;
  state.set("count", 3);
  state.set("rate", 0.1);
  state.set("name", "adam");
  state.set("done", false);
  state.set("weights", at::arange(4, at::kFloat));
  state.make_section("inner").make_section("innermost").set("rate", 0.2f);
  return state;
}

TEST_CASE("an undefined tensor is refused by its name") {
  StateDict state;
  CHECK_THAT(test::error_of<StateError>([&] { state.make_section("ema").set("mean", at::Tensor()); }),
             test::contains("ema.mean"));
}

TEST_CASE("a state gives back what was set, by its type") {
  const StateDict state = some_state();
  CHECK(state.integer("count") == 3);
  CHECK(state.real("rate") == 0.1);
  CHECK(state.text("name") == "adam");
  CHECK_FALSE(state.boolean("done"));
  CHECK(state.tensor("weights").numel() == 4);
  CHECK(state.section("inner").section("innermost").real("rate") == static_cast<double>(0.2f));
  CHECK(state.has("weights"));
  CHECK_FALSE(state.has("weight"));
  CHECK_FALSE(state.has_section("weights"));
}

TEST_CASE("what a state lacks is named with its sections") {
  const StateDict state = some_state();
  CHECK_THAT(test::error_of([&] { state.integer("cuont"); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("cuont"));
  CHECK_THAT(test::error_of([&] { state.real("count"); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("count") &&
                 test::contains("type"));
  CHECK_THAT(test::error_of([&] { state.section("inner").section("innermost").tensor("x"); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("inner.innermost.x"));
  CHECK_THAT(test::error_of([&] { state.section("outer"); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("outer"));
  CHECK_THROWS_AS(state.text("nothing"), StateError);
  StateDict parts;
  parts.add(part_of("weights", at::arange(4, at::kFloat), {0, 2}));
  CHECK_THAT(test::error_of([&] { parts.tensor("weights"); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("part") &&
                 test::contains("weights"));
}

TEST_CASE("a state shares tensors with what it came from, a clone does not") {
  at::Tensor weights = at::full({2}, 1.0);
  StateDict state;
  state.make_section("model").set("weights", weights);
  const StateDict copy = state.clone();
  weights.fill_(2);
  CHECK(state.section("model").tensor("weights")[0].item<double>() == 2);
  CHECK(copy.section("model").tensor("weights")[0].item<double>() == 1);
  CHECK_THAT(test::error_of([&] { copy.section("model").text("x"); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("model.x"));
}

TEST_CASE("the first difference of two states is named") {
  const StateDict a = some_state();
  CHECK(test::first_difference(a, some_state()).empty());
  CHECK(test::first_difference(a, a.clone()).empty());
  StateDict b = some_state();
  b.make_section("inner").make_section("innermost").set("rate", 0.3);
  CHECK(test::first_difference(a, b) == "inner.innermost.rate: 0.20000000298023224 and 0.29999999999999999");
  b = some_state();
  b.make_section("more");
  CHECK_THAT(test::first_difference(a, b), test::contains("more: only"));
  CHECK_THAT(test::first_difference(b, a), test::contains("more:") && !test::contains("only"));
  b = some_state();
  b.set("extra", 1);
  CHECK_THAT(test::first_difference(a, b), test::contains("extra: only"));
  CHECK_THAT(test::first_difference(b, a), test::contains("extra:") && !test::contains("only"));
  b = some_state();
  b.set("bias", at::full({1}, 1.0));
  CHECK_THAT(test::first_difference(a, b), test::contains("nothing:") && test::contains("bias"));

  const auto with = [](const at::Tensor& tensor) {
    StateDict state;
    state.set("t", tensor);
    return state;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(test::first_difference(with(at::full({2}, nan)), with(at::full({2}, nan))).empty());
  CHECK(test::first_difference(with(at::full({2}, 0.0)), with(at::full({2}, -0.0))) == "t: other values");
  CHECK_THAT(test::first_difference(with(at::full({2}, 0.0)), with(at::full({1, 2}, 0.0))),
             test::contains("t:") && test::contains("shape"));
}

}  // namespace
}  // namespace cxtrain
