#include "cxtrain/state/state_dict.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <limits>

#include "cxtrain/base/error.h"
#include "support/catch.h"

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
  CHECK_THROWS_WITH(state.integer("cuont"), "the saved state lacks cuont");
  CHECK_THROWS_WITH(state.real("count"), "the saved state has a value of another type for count");
  CHECK_THROWS_WITH(state.section("inner").section("innermost").tensor("x"),
                    "the saved state lacks inner.innermost.x");
  CHECK_THROWS_WITH(state.section("outer"), "the saved state lacks outer");
  CHECK_THROWS_AS(state.text("nothing"), StateError);
  StateDict parts;
  parts.add(part_of("weights", at::arange(4, at::kFloat), {0, 2}));
  CHECK_THROWS_WITH(parts.tensor("weights"), "the saved state has only a part of weights");
}

TEST_CASE("a state shares tensors with what it came from, a clone does not") {
  at::Tensor weights = at::full({2}, 1.0);
  StateDict state;
  state.make_section("model").set("weights", weights);
  const StateDict copy = state.clone();
  weights.fill_(2);
  CHECK(state.section("model").tensor("weights")[0].item<double>() == 2);
  CHECK(copy.section("model").tensor("weights")[0].item<double>() == 1);
  CHECK_THROWS_WITH(copy.section("model").text("x"), "the saved state lacks model.x");
}

TEST_CASE("the first difference of two states is named") {
  const StateDict a = some_state();
  CHECK(first_difference(a, some_state()).empty());
  CHECK(first_difference(a, a.clone()).empty());
  StateDict b = some_state();
  b.make_section("inner").make_section("innermost").set("rate", 0.3);
  CHECK(first_difference(a, b) == "inner.innermost.rate: 0.20000000298023224 and 0.29999999999999999");
  b = some_state();
  b.make_section("more");
  CHECK(first_difference(a, b) == "more: only the other has this section");
  CHECK(first_difference(b, a) == "more: the other has no such section");
  b = some_state();
  b.set("extra", 1);
  CHECK(first_difference(a, b) == "extra: only the other has it");
  CHECK(first_difference(b, a) == "extra: the other has none");
  b = some_state();
  b.set("bias", at::full({1}, 1.0));
  CHECK(first_difference(a, b) == "nothing: the other has bias in its place");

  const auto with = [](const at::Tensor& tensor) {
    StateDict state;
    state.set("t", tensor);
    return state;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(first_difference(with(at::full({2}, nan)), with(at::full({2}, nan))).empty());
  CHECK(first_difference(with(at::full({2}, 0.0)), with(at::full({2}, -0.0))) == "t: other values");
  CHECK(first_difference(with(at::full({2}, 0.0)), with(at::full({1, 2}, 0.0))) ==
        "t: another shape or part");
}

}  // namespace
}  // namespace cxtrain
