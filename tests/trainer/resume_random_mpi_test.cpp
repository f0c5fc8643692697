#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>

#include "trainer/resume_support.h"

/// Trainings drawn from all that the tests of resuming know, saved at a place that is drawn as well.
///
///     CXTRAIN_RESUME_CASES=100 CXTRAIN_RESUME_SEED=7 mpirun -np 2 build/release/bin/mpi_tests "random
///     trainings*"
namespace cxtrain {
namespace {

using namespace test::resume;

/// The same numbers on all ranks.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t from(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t n) { return from(1, n) == 1; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(from(0, static_cast<std::int64_t>(values.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct RandomCase {
  Case training;
  Saver::Schedule schedule = {};
  std::string described = {};
};

/// What the program refuses.
bool is_refused(const StrategyCase& strategy, const OptimizerCase& optimizer, const Case& what) {
  if (optimizer.evaluates_loss && (what.scales() || what.accumulate > 1)) return true;
  if (optimizer.evaluates_loss && !strategy.closures) return true;
  if (!strategy.whole_updates && optimizer.of_libtorch) return true;
  if (!strategy.master_weights && what.precision == "O2") return true;
  // The stages of a pipeline share their batches, and a batch norm wants two samples.
  if (strategy.name == "pipeline" && what.more_samples % kBatch == 1) return true;
  return strategy.name == "dp" && what.precision == "O2";
}

RandomCase random_case(Draw& draw) {
  const int ranks = test_world().size();
  const StrategyCase strategy = draw.of(strategies());
  const OptimizerCase optimizer = draw.of(optimizers());
  static const std::vector<std::string> precisions{"32-true", "bf16-mixed", "16-mixed", "O2"};
  static const std::vector<Uneven> unevens{Uneven::pad, Uneven::exact, Uneven::drop};
  const Uneven uneven = draw.of(unevens);
  // A last batch that is not full, with four samples or more on every rank: batch norm wants two, of dp's
  // replicas, too.
  const std::int64_t more = draw.one_in(3) ? 0 : draw.from(4 * ranks, kBatch * ranks - 1);
  RandomCase random{.training = {.strategy = strategy.name,
                                 .prepare =
                                     [=](Options& options) {
                                       strategy.prepare(options);
                                       options.data.uneven = uneven;
                                     },
                                 .optimizer = optimizer.name,
                                 .setup = {.optimizer = optimizer.config},
                                 .precision = draw.of(precisions),
                                 .accumulate = draw.from(1, 4),
                                 .weight_averaging = draw.one_in(2),
                                 .more_samples = more,
                                 .val_every = draw.from(2, 12)}};
  set_schedule(random.training.setup, static_cast<std::size_t>(draw.from(0, 2)));
  const std::int64_t batches = kEpochs * (kSamples / kBatch + (more > 0 && uneven != Uneven::drop ? 1 : 0));
  random.schedule.after_batches = draw.from(1, batches - 1);
  random.schedule.after_validation = draw.one_in(4);
  random.schedule.after_epoch = !random.schedule.after_validation && draw.one_in(6);
  random.schedule.requeue = draw.one_in(4);
  random.schedule.stop = !random.schedule.requeue && draw.one_in(3);
  if (is_refused(strategy, optimizer, random.training)) return random_case(draw);
  std::ostringstream text;
  text << strategy.described << ", " << optimizer.name << ", " << random.training.precision << " x"
       << random.training.accumulate << ", " << more << " samples more, uneven " << static_cast<int>(uneven)
       << ", averaging " << random.training.weight_averaging << ", validation every "
       << random.training.val_every << ", saved after batch " << random.schedule.after_batches << " of "
       << batches << (random.schedule.after_validation ? ", after a validation" : "")
       << (random.schedule.after_epoch ? ", after an epoch" : "")
       << (random.schedule.requeue ? ", requeued" : "") << (random.schedule.stop ? ", stopped" : "");
  random.described = text.str();
  return random;
}

TEST_CASE("random trainings, saved anywhere, are resumed to the same bits", "[resume]") {
  if (test_world().size() > 3) return test::skip_for_ranks("it is as with 3, which takes long enough");
  const std::uint64_t seed = number_in_environment("CXTRAIN_RESUME_SEED", 1);
  const std::uint64_t all = number_in_environment("CXTRAIN_RESUME_CASES", 6);
  Draw draw(seed * 10 + static_cast<std::uint64_t>(test_world().size()));
  std::uint64_t resumed = 0, not_saved = 0;
  for (std::uint64_t number = 0; number < all; ++number) {
    const RandomCase random = random_case(draw);
    CAPTURE(seed, number, random.described);
    const bool ends_there = random.schedule.stop || random.schedule.requeue;
    const Result first = train(random.training, random.schedule);
    if (!first.saved) {  // no validation, or no epoch, has ended after that batch
      CHECK((random.schedule.after_validation || random.schedule.after_epoch));
      ++not_saved;
      continue;
    }
    const Result whole = ends_there ? train(random.training, {}) : first;
    check_same_end(whole, train(random.training, {}, {.checkpoint = &*first.saved}));
    ++resumed;
  }
  CHECK(resumed > 0);
  if (!test_world().is_root()) return;
  std::printf("resume: %d ranks, seed %llu: %llu random trainings, %llu that ended before they were saved\n",
              test_world().size(), static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(resumed), static_cast<unsigned long long>(not_saved));
}

}  // namespace
}  // namespace cxtrain
