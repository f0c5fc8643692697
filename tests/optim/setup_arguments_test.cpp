#include "cxtrain/optim/setup_arguments.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/overrides.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// The options that are refused, with commas between.
std::string refused(const OptimizerSetup& setup) {
  std::string options;
  for (const Problem& problem : check_setup(setup)) options += (options.empty() ? "" : ", ") + problem.option;
  return options;
}

TEST_CASE("every optimizer and schedule is right by default, but for milestones, which have none") {
  for (const NamedComponent& known : known_optimizers()) {
    INFO(known.name);
    CHECK(name_of(default_optimizer(known.name)) == known.name);
    CHECK(refused({.optimizer = default_optimizer(known.name)}).empty());
    CHECK_FALSE(known.help.empty());
  }
  for (const NamedComponent& known : known_schedules()) {
    INFO(known.name);
    CHECK(name_of(default_schedule(known.name)) == known.name);
    CHECK(refused({.schedule = default_schedule(known.name)}) ==
          (known.name == "multi_step" ? "lr_scheduler.milestones" : ""));
  }
}

TEST_CASE("a plateau that counts steps is refused") {
  OptimizerSetup setup{.schedule = PlateauSchedule{.monitor = "val_loss"}, .interval = Interval::epoch};
  CHECK(refused(setup).empty());
  setup.interval = Interval::step;
  CHECK(refused(setup) == "lr_scheduler.interval");
}

TEST_CASE("what an optimizer cannot work with is refused by its option") {
  for (const double wrong : {kNan, kInf, -kInf, -1.0, -1e-300}) {
    CHECK(refused({.optimizer = Sgd{.lr = wrong}}) == "optimizer.lr");
    CHECK(refused({.optimizer = Adam{.lr = wrong, .weight_decay = wrong}}) ==
          "optimizer.lr, optimizer.weight_decay");
    CHECK(refused({.optimizer = AdamW{.beta1 = wrong, .beta2 = wrong, .eps = wrong}}) ==
          "optimizer.beta1, optimizer.beta2, optimizer.eps");
    CHECK(refused({.optimizer = Sgd{.momentum = wrong}}) == "optimizer.momentum");
    CHECK(refused({.optimizer = Rmsprop{.alpha = wrong, .momentum = wrong, .weight_decay = wrong}}) ==
          "optimizer.alpha, optimizer.momentum, optimizer.weight_decay");
    CHECK(refused({.optimizer = Adagrad{.lr = wrong, .lr_decay = wrong}}) ==
          "optimizer.lr, optimizer.lr_decay");
    CHECK(refused({.groups = {{.parameters = {}, .lr = wrong, .weight_decay = wrong}}}) ==
          "optimizer, parameter group 0, lr, optimizer, parameter group 0, weight_decay");
  }
  for (const double wrong : {1.0, 2.0, 65536.0})
    CHECK(refused({.optimizer = Adam{.beta1 = wrong, .beta2 = wrong}}) == "optimizer.beta1, optimizer.beta2");
  CHECK(refused({.optimizer = Adam{.eps = 0}}) == "optimizer.eps");
  CHECK(refused({.optimizer = Adam{.lr = 0, .beta1 = 0, .beta2 = 0}}).empty());
  CHECK(refused({.optimizer = Lbfgs{.max_iter = 0, .history_size = 0}}) ==
        "optimizer.max_iter, optimizer.history_size");
  CHECK(refused({.optimizer = Sgd{.nesterov = true}}) == "optimizer.nesterov");
  CHECK(refused({.optimizer = Sgd{.momentum = 0.9, .nesterov = true}}).empty());
}

TEST_CASE("what a schedule cannot work with is refused by its option") {
  for (const double wrong : {kNan, kInf, -0.5}) {
    CHECK(refused({.schedule = CosineSchedule{.min_ratio = wrong}}) == "lr_scheduler.min_ratio");
    CHECK(refused({.schedule = StepSchedule{.gamma = wrong}}) == "lr_scheduler.gamma");
    CHECK(refused({.schedule = ExponentialSchedule{.gamma = wrong}}) == "lr_scheduler.gamma");
    CHECK(
        refused({.schedule =
                     OneCycleSchedule{.pct_start = wrong, .div_factor = wrong, .final_div_factor = wrong}}) ==
        "lr_scheduler.pct_start, lr_scheduler.div_factor, lr_scheduler.final_div_factor");
    CHECK(refused({.schedule = PlateauSchedule{.factor = wrong, .threshold = wrong}}) ==
          "lr_scheduler.factor, lr_scheduler.threshold");
  }
  CHECK(refused({.schedule = ConstantSchedule{.warmup = -1}}) == "lr_scheduler.warmup");
  CHECK(refused({.schedule = CosineSchedule{.warmup = -1, .total = -1}}) ==
        "lr_scheduler.warmup, lr_scheduler.total");
  CHECK(refused({.schedule = StepSchedule{.step_size = 0}}) == "lr_scheduler.step_size");
  CHECK(refused({.schedule = MultiStepSchedule{.milestones = {3, -1}}}) == "lr_scheduler.milestones");
  CHECK(refused({.schedule = PlateauSchedule{.mode = "least", .factor = 1, .patience = -1}}) ==
        "lr_scheduler.mode, lr_scheduler.factor, lr_scheduler.patience");
}

TEST_CASE("a model's own setup is checked where its optimizer is made") {
  const std::vector<NamedTensor> parameters{{"p", at::zeros({2}).requires_grad_()}};
  CHECK_THAT(test::error_of([&] { make_optimizer({.optimizer = Adam{.lr = kNan}}, parameters); }),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("optimizer.lr:") &&
                 test::contains("nan"));
  CHECK_THROWS_AS(make_optimizer({.schedule = ExponentialSchedule{.gamma = -1}}, parameters), ConfigError);
  CHECK(make_optimizer({}, parameters)->learning_rates().size() == 1);
}

std::string problems_of(const NamedOptions& optimizer, const NamedOptions& lr_scheduler = {}) {
  std::vector<Problem> problems;
  check_overrides(optimizer, lr_scheduler, problems);
  std::string text;
  for (const Problem& problem : problems) text += with_code(to_line(problem), problem.code) + "\n";
  return text;
}

TEST_CASE("options are checked before there is a model") {
  CHECK_THAT(problems_of({"adam", {{"lr", "nan"}}}), test::contains(test::code(MessageCode::out_of_range)) &&
                                                         test::contains("optimizer.lr:") &&
                                                         test::contains("'nan'"));
  CHECK_THAT(problems_of({"adam", {{"beta2", "1"}}}), test::contains(test::code(MessageCode::out_of_range)) &&
                                                          test::contains("optimizer.beta2:") &&
                                                          test::contains("'1'"));
  CHECK_THAT(problems_of({"sgd", {{"nesterov", "true"}}}),
             test::contains(test::code(MessageCode::conflicting_options)) &&
                 test::contains("optimizer.nesterov:") && test::contains("--optimizer.momentum 0.9"));
  CHECK_THAT(problems_of({}, {"step", {{"step_size", "0"}}}),
             test::contains(test::code(MessageCode::out_of_range)) &&
                 test::contains("lr_scheduler.step_size:") && test::contains("'0'"));
  CHECK_THAT(problems_of({}, {"multi_step", {}}), test::contains(test::code(MessageCode::missing_value)) &&
                                                      test::contains("lr_scheduler.milestones:") &&
                                                      test::contains("--lr_scheduler.milestones 30,80"));
  CHECK_THAT(problems_of({}, {"step", {{"interval", "hour"}}}),
             test::contains(test::code(MessageCode::unknown_name)) &&
                 test::contains("lr_scheduler.interval:") && test::contains("step, epoch") &&
                 test::contains("'hour'"));
  CHECK_THAT(problems_of({"ADAM", {}}), test::contains(test::code(MessageCode::unknown_name)) &&
                                            test::contains("optimizer:") && test::contains("'ADAM'") &&
                                            test::contains("adagrad, adam, adamw, lbfgs, rmsprop, sgd") &&
                                            test::contains("adam?"));
}

TEST_CASE("arguments of an optimizer that only the model knows: what none takes is refused") {
  CHECK_THAT(problems_of({"", {{"lrr", "3"}}}), test::contains(test::code(MessageCode::unknown_option)) &&
                                                    test::contains("optimizer.lrr:") &&
                                                    test::contains("--optimizer.lr"));
  CHECK_THAT(problems_of({"", {{"lr", "-1"}}}), test::contains(test::code(MessageCode::out_of_range)) &&
                                                    test::contains("optimizer.lr:") &&
                                                    test::contains("'-1'"));
  CHECK(problems_of({"", {{"momentum", "0.9"}}}, {"", {{"warmup", "3"}}}).empty());
  CHECK_THAT(problems_of({}, {"", {{"gamma", "fast"}}}),
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("lr_scheduler.gamma:") && test::contains("'fast'"));
}

TEST_CASE("an argument changes a field of the model's optimizer and leaves the others") {
  std::vector<Problem> problems;
  const OptimizerSetup own{.optimizer = Rmsprop{.lr = 0.1, .alpha = 0.5, .momentum = 0.25}};
  const OptimizerSetup changed = apply_overrides(own, {"", {{"momentum", "0.75"}}}, {}, problems);
  CHECK(problems.empty());
  const auto& rmsprop = std::get<Rmsprop>(changed.optimizer);
  CHECK(rmsprop.lr == 0.1);
  CHECK(rmsprop.alpha == 0.5);
  CHECK(rmsprop.momentum == 0.75);
  CHECK(rmsprop.weight_decay == 0);
}

}  // namespace
}  // namespace cxtrain
