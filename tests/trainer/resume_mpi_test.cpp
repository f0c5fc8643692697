#include <array>
#include <cstdio>
#include <limits>

#include "support/error_text.h"
#include "support/state_difference.h"
#include "trainer/resume_support.h"

/// A training that is saved, and resumed on new objects, comes to the same bits as one that was not: for
/// every optimizer, precision, strategy and accumulation, wherever it was saved.
namespace cxtrain {
namespace {

using namespace test::resume;

/// Where a training is saved: in turn in the middle of an epoch, of a step, of a validation, and at an
/// epoch's end.
Saver::Schedule place(std::size_t number) {
  const std::array<Saver::Schedule, 5> places{{{.after_batches = 17},
                                               {.after_batches = 31},
                                               {.after_batches = 27, .after_validation = true},
                                               {.after_batches = 25, .after_epoch = true},
                                               {.after_batches = 41}}};
  return places[number % places.size()];
}

double scale_of(const StateDict& state) {
  return state.section("optimization").section("grad_scaler").real("scale");
}

/// A case of the matrix; returns its name.
std::string resume_case(Case what, std::size_t number) {
  set_schedule(what.setup, number);
  what.epochs = 4;
  CAPTURE(number, what.strategy, what.optimizer, what.precision, what.accumulate);
  const Result whole = train(what, place(number));
  REQUIRE(whole.saved.has_value());
  if (what.scales()) CHECK(scale_of(*whole.saved) < 65536);  // steps were skipped before
  check_same_end(whole, train(what, {}, {.checkpoint = &*whole.saved}));
  return what.precision + " x" + std::to_string(what.accumulate);
}

/// Every optimizer, precision and accumulation with this strategy. On 3 ranks every second of these, chosen
/// so that any two of strategy, optimizer, precision and accumulation still meet; on 4 ranks a few.
void resume_with(std::size_t strategy_number) {
  const int ranks = test_world().size();
  const std::size_t stride = ranks > 3 ? 12 : ranks == 3 ? 2 : 1;
  const StrategyCase strategy = strategies().at(strategy_number);
  std::size_t number = strategy_number;
  std::size_t chosen = strategy_number;  // if even; each loop's next step changes that
  for (const OptimizerCase& optimizer : optimizers()) {
    ++chosen;
    std::string done;
    for (const char* precision : {"32-true", "bf16-mixed", "16-mixed", "O2"}) {
      ++chosen;
      for (const std::int64_t accumulate : {1, 3}) {
        if (++chosen % stride != 0) continue;
        const Case what{.strategy = strategy.name,
                        .prepare = strategy.prepare,
                        .optimizer = optimizer.name,
                        .setup = {.optimizer = optimizer.config},
                        .precision = precision,
                        .accumulate = accumulate};
        // What the program refuses.
        if (optimizer.evaluates_loss && (what.scales() || accumulate > 1)) continue;
        if (!strategy.whole_updates && optimizer.of_libtorch) continue;
        if (!strategy.closures && optimizer.evaluates_loss) continue;
        if (!strategy.master_weights && what.precision == "O2") continue;
        if (strategy.name == "dp" && what.precision == "O2") continue;
        done += (done.empty() ? "" : ", ") + resume_case(what, number++);
      }
    }
    if (!test_world().is_root() || done.empty()) continue;
    std::printf("resume: %d ranks, %s, %s: %s\n", test_world().size(), strategy.described.c_str(),
                optimizer.name.c_str(), done.c_str());
  }
}

// Saved, and resumed on new objects, a training ends with the same bits.
TEST_CASE("every training can be resumed to the same bits: ddp", "[resume]") { resume_with(0); }
TEST_CASE("every training can be resumed to the same bits: single, or divided ddp", "[resume]") {
  resume_with(1);
}
TEST_CASE("every training can be resumed to the same bits: dp, or zero", "[resume]") { resume_with(2); }
TEST_CASE("every training can be resumed to the same bits: zero with gathered blocks", "[resume]") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank has all blocks");
  resume_with(3);
}
TEST_CASE("every training can be resumed to the same bits: pipeline", "[resume]") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank has the whole model");
  resume_with(4);
}
TEST_CASE("every training can be resumed to the same bits: a rank for each parameter", "[resume]") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank has all parameters");
  resume_with(5);
}

/// Adam in float16 with loss scaling, everything on.
Case everything() {
  const StrategyCase strategy = strategies().back();
  return {.strategy = strategy.name,
          .prepare = strategy.prepare,
          .optimizer = "adam",
          .setup = {.optimizer = Adam{.lr = 0.01},
                    .schedule = PlateauSchedule{.monitor = "val_loss", .factor = 0.5, .patience = 0}},
          .precision = "16-mixed",
          .accumulate = 3};
}

TEST_CASE("asking for a checkpoint, and stopping there, changes nothing in what comes", "[resume]") {
  const Case what = everything();
  const Result undisturbed = train(what, {});
  Saver::Schedule schedule = place(1);
  const Result asked = train(what, schedule);
  CHECK(asked.rows == undisturbed.rows);
  check_same_end(undisturbed, asked);

  schedule.stop = true;
  const Result first = train(what, schedule);
  REQUIRE(first.saved.has_value());
  CHECK(first.summary.global_step < undisturbed.summary.global_step);
  CHECK(test::first_difference(first.saved->section("optimization"), asked.saved->section("optimization")) ==
        "");
  const Result second = train(what, {}, {.checkpoint = &*first.saved});
  check_same_end(undisturbed, second);
  CHECK(first.rows.size() + second.rows.size() >= undisturbed.rows.size());  // no gap
}

TEST_CASE("a training may be stopped and resumed again and again", "[resume]") {
  const Case what = everything();
  const Result undisturbed = train(what, {});
  std::optional<StateDict> state;
  Result part;
  for (const std::int64_t batches : {5, 14, 26, 36, 49, 0}) {
    part = train(what, {.after_batches = batches, .stop = true}, {.checkpoint = state ? &*state : nullptr});
    state = part.saved;
  }
  check_same_end(undisturbed, part);
}

TEST_CASE("a rank that wants the job started again makes all save, and end with status 75", "[resume]") {
  const Case what = everything();
  const Result undisturbed = train(what, {});
  const bool in_validation = GENERATE(false, true);
  const Result first = train(
      what, {.after_batches = in_validation ? 27 : 31, .after_validation = in_validation, .requeue = true});
  REQUIRE(first.saved.has_value());
  CHECK(first.summary.exit_code == 75);
  CHECK(first.summary.status == "stopped");
  CHECK(first.summary.global_step < undisturbed.summary.global_step);
  check_same_end(undisturbed, train(what, {}, {.checkpoint = &*first.saved}));
}

TEST_CASE("a SIGTERM in a validation saves the state before it, and the resumed run validates", "[resume]") {
  Case what = everything();
  const std::int64_t batches = GENERATE(26, 36);  // the next validation: within an epoch, at the end of one
  what.accumulate = GENERATE(2, 3);
  const Result undisturbed = train(what, {});
  const Result first = train(what, {.after_batches = batches, .term = true});
  CAPTURE(batches, what.accumulate);
  const bool within_step = batches == 26 && what.accumulate == 3;
  REQUIRE(first.saved.has_value() != within_step);
  if (within_step) {
    CHECK(first.summary.exit_code == 143);
    return;
  }
  CHECK(first.summary.exit_code == 75);
  CHECK(first.summary.status == "stopped");
  check_same_end(undisturbed, train(what, {}, {.checkpoint = &*first.saved}));
}

TEST_CASE("buffers that each rank has for itself are there again in a resumed training", "[resume]") {
  Case what = everything();
  what.strategy = "ddp";
  what.prepare = [](Options& options) { options.strategy.args["broadcast_buffers"] = "false"; };
  what.weight_averaging = false;
  what.own_buffers = true;
  const Result undisturbed = train(what, {});
  const Result first = train(what, {.after_batches = 31, .stop = true});
  REQUIRE(first.saved.has_value());
  check_same_end(undisturbed, train(what, {}, {.checkpoint = &*first.saved}));
}

TEST_CASE("errors of approximated gradients are there again in a resumed training", "[resume]") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank sends no gradients");
  Case what = everything();
  what.strategy = "ddp";
  what.precision = "32-true";
  what.prepare = [](Options& options) {
    options.strategy.args = {{"comm_hook", "powersgd"}, {"powersgd_rank", "2"}, {"powersgd_start", "6"}};
  };
  const Result undisturbed = train(what, {});
  for (const std::int64_t batches : {7, 31}) {  // before the approximation begins, and after
    const Result first = train(what, {.after_batches = batches, .stop = true});
    REQUIRE(first.saved.has_value());
    check_same_end(undisturbed, train(what, {}, {.checkpoint = &*first.saved}));
  }
}

TEST_CASE("an early stop comes at the same step in a resumed training", "[resume]") {
  Case what = everything();
  what.precision = "32-true";
  what.weight_averaging = false;
  what.early_stopping_patience = 4;
  const auto before = what.prepare;
  const bool waits = GENERATE(false, true);
  what.prepare = [=](Options& options) {
    before(options);
    options.trainer.max_epochs = 12;
    if (waits) options.trainer.min_epochs = 11;  // it is asked for long before it may happen
  };
  what.setup.optimizer = Adam{.lr = 1e-5};
  const Result undisturbed = train(what, {});
  REQUIRE(undisturbed.summary.epochs < 12);
  for (const std::int64_t batches : {13, 25, 60}) {
    CAPTURE(waits, batches, undisturbed.summary.global_step);
    const Result whole = train(what, {.after_batches = batches});
    if (!whole.saved) continue;  // stopped before
    check_same_end(undisturbed, train(what, {}, {.checkpoint = &*whole.saved}));
  }
}

/// Every section of a state in turn: left out, it is missed; changed, it changes what comes of it.
TEST_CASE("no part of a state is idle", "[resume]") {
  const Case what = everything();
  const Result whole = train(what, place(1));
  REQUIRE(whole.saved.has_value());
  const auto without = [&](const std::string& left_out) {
    StateDict state;
    for (const auto& [name, section] : whole.saved->sections()) {
      if (name != left_out) state.make_section(name) = section.clone();
    }
    return state;
  };
  for (const auto& [name, section] : whole.saved->sections()) {
    CAPTURE(name);
    const StateDict state = without(name);
    CHECK_THROWS_WITH(train(what, {}, {.checkpoint = &state}), test::contains("lacks " + name));
  }
  CHECK(train(what, {}, {.checkpoint = &*whole.saved, .forgets = true}).summary.parameters_sha256 !=
        whole.summary.parameters_sha256);
  const auto changed = [&](const std::function<void(StateDict&)>& change) {
    StateDict state = whole.saved->clone();
    change(state);
    const Result resumed = train(what, {}, {.checkpoint = &state});
    return resumed.summary.parameters_sha256 != whole.summary.parameters_sha256 ||
           !ends_with(whole.rows, resumed.rows);
  };
  using State = StateDict;
  CHECK(changed([](State& s) {
    at::Generator other = at::globalContext().defaultGenerator(at::kCPU).clone();
    other.set_current_seed(1234);
    at::Tensor(s.section("generators").tensor("cpu")).copy_(other.get_state());
  }));
  const auto optimization = [](State& s) -> State& { return s.make_section("optimization"); };
  CHECK(changed([&](State& s) { optimization(s).make_section("lr_schedule").set("factor", 0.9); }));
  CHECK(changed([&](State& s) { optimization(s).make_section("grad_scaler").set("scale", 2.0); }));
  CHECK(changed([](State& s) { s.make_section("loop").set("seed", 5); }));
  CHECK(changed([](State& s) {
    s.make_section("metrics").make_section("0").make_section("epoch").set("weight", 3.0);
  }));
  CHECK(changed([](State& s) { s.make_section("model").set("frozen", "first.weight\n"); }));
}

TEST_CASE("a state of another training is refused on all ranks, and says why", "[resume]") {
  const Case what = everything();
  const Result whole = train(what, place(1));
  REQUIRE(whole.saved.has_value());
  const auto refused = [&](const Case& other, const StateDict& state, MessageCode reason,
                           const std::string& value) {
    CHECK_THAT(test::error_of([&] { train(other, {}, {.checkpoint = &state}); }),
               test::contains(test::code(reason)) && test::contains(value));
  };
  Case other = what;
  other.precision = "32-true";
  refused(other, *whole.saved, MessageCode::model_mismatch, "precision");
  other = what;
  other.setup.optimizer = Sgd{.lr = 0.1, .momentum = 0.9};
  refused(other, *whole.saved, MessageCode::bad_state, "momentum_buffer.first.weight");
  other = what;
  other.prepare = [&](Options& options) {
    what.prepare(options);
    options.data.batch_size = 4;
  };
  refused(other, *whole.saved, MessageCode::model_mismatch, "--data.batch_size");
  StateDict state = whole.saved->clone();
  state.make_section("model").set("training_modes", "11");
  refused(what, state, MessageCode::model_mismatch, "2 modules, this one 8");

  // Positions that no training has, as in a file that somebody has changed.
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(), kHuge = std::int64_t{1} << 62;
  const std::vector<std::pair<std::string, std::int64_t>> places{
      {"accumulate", 0}, {"global_step", kLeast}, {"global_step", kHuge}, {"epoch", -1},
      {"batch", kHuge},  {"samples", -1},         {"num_batches", -1},    {"samples_per_step", 0}};
  for (const auto& [name, value] : places) {
    StateDict moved = whole.saved->clone();
    moved.make_section("loop").set(name, value);
    refused(what, moved, MessageCode::bad_state, name + " is " + std::to_string(value));
  }
  StateDict beyond = whole.saved->clone();
  beyond.make_section("loop").set("batch", std::int64_t{1000});
  refused(what, beyond, MessageCode::bad_state, "batch 1000 of ");
}

}  // namespace
}  // namespace cxtrain
