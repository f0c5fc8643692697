#include "cxtrain/optim/schedule.h"

#include <cmath>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/overrides.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

std::vector<double> factors(const ScheduleConfig& schedule, std::int64_t count, std::int64_t total = 0) {
  std::vector<double> values;
  for (std::int64_t t = 0; t < count; ++t) values.push_back(schedule_factor(schedule, t, total));
  return values;
}

void check_near(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Catch::Approx(expected[i]).margin(1e-9));
}

// The expected numbers come from torch.optim.lr_scheduler with a base rate of 1.
TEST_CASE("schedules give torch's factors") {
  check_near(factors(StepSchedule{.step_size = 2, .gamma = 0.5}, 6), {1, 1, 0.5, 0.5, 0.25, 0.25});
  check_near(factors(MultiStepSchedule{.milestones = {1, 4}, .gamma = 0.1}, 6),
             {1, 0.1, 0.1, 0.1, 0.01, 0.01});
  check_near(factors(ExponentialSchedule{.gamma = 0.5}, 4), {1, 0.5, 0.25, 0.125});
  check_near(factors(CosineSchedule{.total = 4}, 5), {1, 0.85355339, 0.5, 0.14644661, 0});
  check_near(factors(CosineSchedule{.warmup = 2, .min_ratio = 0.5}, 6, 6),
             {0.5, 1, 1, 0.92677670, 0.75, 0.57322330});
  check_near(factors(ConstantSchedule{.warmup = 4}, 6), {0.25, 0.5, 0.75, 1, 1, 1});
  // OneCycleLR(max_lr=1, total_steps=10): from 1/25 up to 1 at 0.3 * 10 - 1, and down to 1/25e4.
  check_near(factors(OneCycleSchedule{.total = 10}, 4), {0.04, 0.52, 1, 0.95048463});
  CHECK(schedule_factor(OneCycleSchedule{}, 9, 10) == Catch::Approx(4e-6));
}

TEST_CASE("a schedule that needs the run's length says so when there is none") {
  CHECK_THROWS_WITH(schedule_factor(CosineSchedule{}, 0, 0), test::contains("max_steps"));
}

TEST_CASE("plateau counts epochs without improvement") {
  const PlateauSchedule schedule{.factor = 0.1, .patience = 1, .threshold = 0.01, .min_ratio = 0.01};
  PlateauState state;
  for (const double metric : {1.0, 0.5, 0.499}) state.observe(schedule, metric);  // the last gains too little
  CHECK(state.factor == 1);
  state.observe(schedule, std::nan(""));
  CHECK(state.factor == Catch::Approx(0.1));
  for (int i = 0; i < 10; ++i) state.observe(schedule, 0.6);
  CHECK(state.factor == Catch::Approx(0.01));
  PlateauState rising;
  const PlateauSchedule maximise{.mode = "max", .patience = 0};
  rising.observe(maximise, 0.5);
  rising.observe(maximise, 0.6);
  CHECK(rising.factor == 1);
  rising.observe(maximise, 0.5);
  CHECK(rising.factor == Catch::Approx(0.1));
}

TEST_CASE("a schedule counts the same from C++ and from the command line") {
  std::vector<Problem> problems;
  const std::vector<std::pair<std::string, ScheduleConfig>> rows{{"constant", ConstantSchedule{.warmup = 3}},
                                                                 {"cosine", CosineSchedule{}},
                                                                 {"exponential", ExponentialSchedule{}},
                                                                 {"multi_step", MultiStepSchedule{}},
                                                                 {"one_cycle", OneCycleSchedule{}},
                                                                 {"plateau", PlateauSchedule{}},
                                                                 {"step", StepSchedule{}}};
  for (const auto& [name, schedule] : rows) {
    CAPTURE(name);
    std::map<std::string, std::string> arguments;
    if (name == "multi_step") arguments["milestones"] = "1";
    CHECK(interval_of({.schedule = schedule}) ==
          interval_of(apply_overrides({}, {}, {name, arguments}, problems)));
  }
  CHECK(problems.empty());
  CHECK(interval_of({.schedule = CosineSchedule{}, .interval = Interval::epoch}) == Interval::epoch);
  CHECK(interval_of({}) == Interval::epoch);
}

TEST_CASE("options choose and change optimizer and schedule") {
  std::vector<Problem> problems;
  const OptimizerSetup own{.optimizer = AdamW{.lr = 0.5, .beta1 = 0.7},
                           .schedule = CosineSchedule{.warmup = 9}};

  const OptimizerSetup tuned =
      apply_overrides(own, {"", {{"lr", "0.25"}}}, {"", {{"warmup", "3"}}}, problems);
  CHECK(std::get<AdamW>(tuned.optimizer).lr == 0.25);
  CHECK(std::get<AdamW>(tuned.optimizer).beta1 == 0.7);
  CHECK(std::get<CosineSchedule>(tuned.schedule).warmup == 3);

  const OptimizerSetup replaced =
      apply_overrides(own, {"sgd", {{"nesterov", "true"}, {"momentum", "0.9"}}},
                      {"multi_step", {{"milestones", "3,5"}, {"interval", "step"}}}, problems);
  CHECK(std::get<Sgd>(replaced.optimizer).nesterov);
  CHECK(std::get<MultiStepSchedule>(replaced.schedule).milestones == std::vector<std::int64_t>{3, 5});
  CHECK(replaced.interval == Interval::step);
  CHECK(std::get<Rmsprop>(apply_overrides(own, {"rmsprop", {{"lr", "0.1"}}}, {}, problems).optimizer).lr ==
        0.1);
  CHECK(problems.empty());

  apply_overrides(own, {"adm", {}}, {"cosin", {}}, problems);
  apply_overrides(own, {"", {{"momentum", "0.9"}, {"lr", "fast"}}}, {"", {{"warmup", "1.5"}}}, problems);
  REQUIRE(problems.size() == 5);
  CHECK_THAT(problems[0].hint, test::contains("adam"));
  CHECK_THAT(problems[1].hint, test::contains("cosine"));
  CHECK_THAT(problems[2].message, test::contains("'fast'"));
  CHECK_THAT(problems[3].hint, test::contains("lr, beta1, beta2, eps, weight_decay, amsgrad"));
  CHECK_THAT(problems[4].message, test::contains("'1.5'"));
}

}  // namespace
}  // namespace cxtrain
