#include "cxtrain/metrics/metric.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/metrics/classification.h"
#include "cxtrain/metrics/curves.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/metrics/regression.h"
#include "cxtrain/metrics/retrieval.h"
#include "cxtrain/metrics/text.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

/// A state of each reduction.
class EveryReduction : public Metric {
 public:
  void update(const at::Tensor& preds, const at::Tensor&) override {
    const Updating updating(*this);
    sum_ += preds.sum();
    mean_ = preds.mean();
    least_ = at::minimum(least_, preds.min());
    most_ = at::maximum(most_, preds.max());
    append(rows_, preds);
  }
  at::Tensor compute() const override { return at::stack({sum_, mean_, least_, most_}); }
  const at::Tensor& rows() const { return rows_; }

 private:
  at::Tensor& sum_ = add_state("sum", at::zeros({}));
  at::Tensor& mean_ = add_state("mean", at::zeros({}), Reduce::mean);
  at::Tensor& least_ = add_state("least", at::full({}, 1e9), Reduce::min);
  at::Tensor& most_ = add_state("most", at::full({}, -1e9), Reduce::max);
  at::Tensor& rows_ = add_state("rows", at::empty({0}), Reduce::cat);
};

at::Tensor range(double from, double to) { return at::arange(from, to, at::kFloat); }

TEST_CASE("states merge by their reductions; a mean by updates") {
  EveryReduction one, two;
  one.update(range(0, 3), {});
  one.update(range(0, 3), {});
  two.update(range(10, 11), {});
  one.merge(two);
  CHECK(at::equal(one.compute(), at::tensor({16.0F, 4.0F, 0.0F, 10.0F})));
  CHECK(at::equal(one.rows(), at::tensor({0.0F, 1.0F, 2.0F, 0.0F, 1.0F, 2.0F, 10.0F})));
  one.reset();
  CHECK(one.updates() == 0);
  CHECK(at::equal(one.compute(), EveryReduction().compute()));
  CHECK(one.rows().size(0) == 0);
  MeanSquaredError other({});
  CHECK_THAT(test::error_of([&] { one.merge(other); }), test::contains(test::code(MessageCode::log_misuse)));
}

TEST_CASE("rows grow in memory that doubles, and a merged copy does not share them") {
  EveryReduction metric, other;
  for (int i = 0; i < 1000; ++i) metric.update(range(i, i + 1), {});
  CHECK(at::equal(metric.rows(), range(0, 1000)));
  other.merge(metric);
  other.update(range(5, 6), {});
  metric.update(range(6, 7), {});
  CHECK(other.rows()[1000].item<float>() == 5);
  CHECK(metric.rows()[1000].item<float>() == 6);
}

TEST_CASE("fresh states come and go, and the values before are there again") {
  EveryReduction metric;
  metric.update(range(0, 4), {});
  metric.end_batch();
  metric.update(range(4, 5), {});
  const at::Tensor before = metric.compute();
  {
    const FreshStates fresh({&metric});
    CHECK(metric.updates() == 0);
    metric.update(range(7, 8), {});
    CHECK(metric.compute()[0].item<float>() == 7);
  }
  CHECK(at::equal(metric.compute(), before));
  metric.collect();
  CHECK(metric.compute()[0].item<float>() == 10);
}

TEST_CASE("an update keeps no gradients, ignores inference mode, and may go on outside of it") {
  MeanSquaredError metric({});
  const at::Tensor preds = at::ones({2}).requires_grad_(true);
  metric.update(preds, at::zeros({2}));
  {
    const c10::InferenceMode inference;
    metric.update(at::ones({2}), at::zeros({2}));
    metric.end_batch();
    metric.update(at::ones({2}), at::zeros({2}));
  }
  metric.update(preds * 2, at::zeros({2}));
  metric.collect();
  CHECK(metric.value().item<double>() == 1.75);
  CHECK_FALSE(metric.value().requires_grad());
  CHECK_FALSE(metric.value().is_inference());
}

TEST_CASE("a mean that is large against the deviations costs no digits") {
  const at::Tensor x = range(0, 100).to(at::kDouble).sin(), y = x.mul(0.5).add(range(0, 100).cos());
  PearsonCorrCoef near({}), far({});
  R2Score near_r2({}), far_r2({});
  for (std::int64_t i = 0; i < 100; i += 10) {
    const at::Tensor a = x.slice(0, i, i + 10), b = y.slice(0, i, i + 10);
    near.update(a, b);
    far.update(a.add(1e7), b.add(1e7));
    near_r2.update(a, b);
    far_r2.update(a.add(1e7), b.add(1e7));
  }
  CHECK_THAT(far.compute().item<double>(), Catch::Matchers::WithinAbs(near.compute().item<double>(), 1e-8));
  CHECK_THAT(far_r2.compute().item<double>(),
             Catch::Matchers::WithinAbs(near_r2.compute().item<double>(), 1e-8));
}

TEST_CASE("a binned curve of many samples keeps as little as one of few") {
  AUROC metric({.task = ClassificationTask::binary});
  metric.update(at::full({100000}, 0.75), at::ones({100000}, at::kLong));
  metric.update(at::full({100000}, 0.25), at::zeros({100000}, at::kLong));
  CHECK(metric.states().size() == 1);
  CHECK(metric.state(0).numel() == 2 * 201);
  CHECK(metric.compute().item<double>() == 1);
}

TEST_CASE("states and arguments that cannot be are refused") {
  struct BadSum : EveryReduction {
    BadSum() { add_state("bad", at::ones({1})); }
  };
  struct BadRows : EveryReduction {
    BadRows() { add_state("bad", at::ones({1}), Reduce::cat); }
  };
  struct Twice : EveryReduction {
    Twice() { add_state("sum", at::zeros({1})); }
  };
  const auto bad_model = test::contains(test::code(MessageCode::bad_model));
  CHECK_THAT(test::error_of([] { BadSum(); }), bad_model);
  CHECK_THAT(test::error_of([] { BadRows(); }), bad_model);
  CHECK_THAT(test::error_of([] { Twice(); }), bad_model);
  const auto check_refused = [](const auto& make, const char* argument) {
    const std::string error = test::error_of(make);
    CHECK_THAT(error, test::contains(test::code(MessageCode::out_of_range)));
    CHECK_THAT(error, test::contains(argument));
  };
  check_refused([] { Accuracy({.classes = 1}); }, "Accuracy: classes");
  check_refused([] { Accuracy({.classes = 3, .top_k = 4}); }, "top_k");
  check_refused([] { AUROC({.average = Averaging::micro}); }, "average");
  check_refused([] { AUROC({.thresholds = 1}); }, "thresholds");
  check_refused([] { CalibrationError({.task = ClassificationTask::multilabel}); }, "task");
}

TEST_CASE("a saved state with values before of some states only is refused") {
  EveryReduction metric;
  metric.update(range(0, 3), {});
  StateDict saved;
  metric.save(saved);
  EveryReduction other;
  other.load(saved);
  CHECK(at::equal(other.compute(), metric.compute()));
  saved.make_section("mean").set("before", at::zeros({}));
  CHECK_THROWS_AS(other.load(saved), StateError);
}

TEST_CASE("inputs that do not fit are refused, and a class out of range") {
  const auto misuse = test::contains(test::code(MessageCode::log_misuse));
  Accuracy metric({.classes = 3});
  CHECK_THAT(test::error_of([&] { metric.update(at::zeros({2, 4}), at::zeros({2}, at::kLong)); }), misuse);
  CHECK_THAT(test::error_of([&] { metric.update(at::zeros({3}, at::kLong), at::zeros({2}, at::kLong)); }),
             misuse);
  CHECK_THAT(test::error_of([&] { metric.update(at::zeros({2, 3}), at::full({2}, 3, at::kLong)); }), misuse);
  CHECK_THAT(test::error_of([&] { metric.update(at::full({2}, -1, at::kLong), at::zeros({2}, at::kLong)); }),
             misuse);
  MeanAbsoluteError error;
  CHECK_THAT(test::error_of([&] { error.update(at::zeros({2}), at::zeros({2, 1})); }), misuse);
  R2Score score({}), of_two({.outputs = 2});
  CHECK_THAT(test::error_of([&] {
               score.update(at::zeros({4, 2}), at::zeros({4, 2}));
             }),
             misuse && test::contains("outputs"));
  CHECK_THAT(test::error_of([&] { of_two.update(at::zeros({4}), at::zeros({4})); }), misuse);
}

TEST_CASE("scores of variances are NaN without samples") {
  CHECK(R2Score({}).compute().isnan().item<bool>());
  CHECK(ExplainedVariance({}).compute().isnan().item<bool>());
}

TEST_CASE("the predicted class is the first class with the highest score") {
  Accuracy metric({.classes = 10});
  metric.update(at::zeros({4, 10}), at::zeros({4}, at::kLong));
  CHECK(metric.compute().item<double>() == 1);
}

struct TwoOfAName : test::Regression {
  TwoOfAName() {
    register_metric<MeanAbsoluteError>("error");
    register_metric<MeanSquaredError>("error");
  }
};

TEST_CASE("a model registers a name once, and its metrics are where the model is") {
  CHECK_THAT(test::error_of([] { TwoOfAName(); }), test::contains(test::code(MessageCode::bad_model)));
  test::Regression model;
  CHECK(model.register_metric<MeanAbsoluteError>("a").name() == "a");
  CHECK(model.register_metric<Accuracy>("b", {.classes = 4}).device() == model.device());
  CHECK(trainable(model).all_metrics().size() == 2);
}

constexpr LogRule kStep{"training_step", LogRule::Phase::training, LogRule::Allowed::both, true};

TEST_CASE("the store refuses a metric that is no number, is not the model's, or has two names on_step") {
  const auto misuse = test::contains(test::code(MessageCode::log_misuse));
  ConfusionMatrix matrix({.classes = 3});
  MeanAbsoluteError error, foreign;
  matrix.set_name("matrix");
  error.set_name("error");
  foreign.set_name("error");
  MetricStore store;
  store.model_metrics().set({&matrix, &error});
  store.enter({&kStep, 2});
  CHECK_THAT(test::error_of([&] { store.log("m", matrix, {}); }), misuse && test::contains("[3, 3]"));
  CHECK_THAT(test::error_of([&] { store.log("e", foreign, {}); }), misuse);
  store.log("e", error, {});
  CHECK_THAT(test::error_of([&] { store.log("f", error, {}); }), misuse);
  CHECK_NOTHROW(store.log("g", error, {.on_step = false, .on_epoch = true}));
  CHECK_THAT(test::error_of([&] { store.log("x", 1.0, {.on_step = false}); }),
             misuse && test::contains("on_epoch"));
}

TEST_CASE("on_step is the batch's value, on_epoch that of all, and a reset begins the next epoch") {
  MeanAbsoluteError error;
  error.set_name("error");
  MetricStore store;
  store.model_metrics().set({&error});
  store.enter({&kStep, 2});
  SoloWorld world;
  for (const double off : {1.0, 3.0}) {
    error.update(at::full({2}, off), at::zeros({2}));
    store.log("e", error, {.on_step = true, .on_epoch = true});
    CHECK(store.last("e") == off);
  }
  store.model_metrics().reduce(world);
  CHECK(error.compute().item<double>() == 2);
  CHECK_THAT(test::error_of([&] { error.update(at::ones({1}), at::ones({1})); }),
             test::contains(test::code(MessageCode::log_misuse)));
  CHECK(store.reduce_epoch(LogRule::Phase::training, world) == MetricStore::Values{{"e_epoch", 2.0}});
  CHECK(store.last("e_epoch") == 2.0);
  CHECK(error.compute().item<double>() == 2);  // for the hooks at the end of the epoch
  CHECK(store.reduce_epoch(LogRule::Phase::training, world).empty());
  store.model_metrics().reset();
  CHECK(error.updates() == 0);
  CHECK_NOTHROW(error.update(at::ones({1}), at::ones({1})));
}

TEST_CASE("inputs of unequal lengths are refused, which would pair values with others") {
  Perplexity perplexity({});
  CHECK_THROWS_WITH(perplexity.update(at::zeros({2, 5, 7}), at::zeros({2, 4}, at::kLong)),
                    test::contains("10 rows") && test::contains("8 tokens"));
  RetrievalRecall recall({.by_document = true});
  CHECK_THROWS_WITH(recall.update(at::zeros({3}), at::ones({2}), at::zeros({2}, at::kLong)),
                    test::contains("one element for each document"));
}

}  // namespace
}  // namespace cxtrain
