#include "cxtrain/trainer/step_vote.h"

#include "support/catch.h"

using namespace cxtrain;

TEST_CASE("each field of a vote has a bit of its own", "[trainer]") {
  std::uint64_t seen = 0;
  for (const StepVote& vote :
       {StepVote{.stop = true}, StepVote{.checkpoint = true}, StepVote{.save = true},
        StepVote{.requeue = true}, StepVote{.validation = true}, StepVote{.sigint = true},
        StepVote{.sigterm = true}, StepVote{.requeue_signal = true}, StepVote{.writing = true},
        StepVote{.loss = true}, StepVote{.skipped = true}, StepVote{.streams = true}}) {
    const std::uint64_t bits = vote.to_bits();
    CHECK((bits & seen) == 0);
    CHECK(StepVote::from_bits(bits).to_bits() == bits);
    seen |= bits;
  }
  CHECK(seen == (1 << 12) - 1);
}

TEST_CASE("votes of two ranks have what one of them has", "[trainer]") {
  const StepVote all = StepVote{.stop = true, .loss = true} | StepVote{.skipped = true, .streams = true};
  CHECK(all.stop);
  CHECK(all.result().loss);
  CHECK(all.result().skipped);
  CHECK(all.streams);
  CHECK_FALSE(all.wants_checkpoint());
}

TEST_CASE("a run ends by a signal or a request to requeue, and its state is saved first", "[trainer]") {
  for (const StepVote& vote : {StepVote{.requeue = true}, StepVote{.sigint = true}, StepVote{.sigterm = true},
                               StepVote{.requeue_signal = true}}) {
    CHECK(vote.ends_run());
    CHECK(vote.wants_checkpoint());
  }
  CHECK_FALSE(StepVote{.stop = true}.ends_run());
  CHECK(StepVote{.save = true}.wants_checkpoint());
}

TEST_CASE("the exit status of a run that ends early", "[trainer]") {
  const Requests requests{.requeue = true, .requeue_reason = "the end of the job"};
  const auto ending = [&](const StepVote& vote, bool saved) {
    return ending_of(vote, requests, "SIGUSR1", saved);
  };
  CHECK(ending({.sigint = true, .sigterm = true}, true).by() == "SIGTERM");
  CHECK(ending({.sigterm = true}, true).code() == ExitCode::requeue);
  CHECK(ending({.sigterm = true}, false).code() == ExitCode::terminated);
  CHECK(ending({.sigint = true}, true).code() == ExitCode::interrupted);
  CHECK(ending({.requeue_signal = true}, true).by() == "SIGUSR1");
  CHECK(ending({.requeue = true}, true).by() == "the end of the job");
  CHECK(ending_of({.requeue = true}, {}, "SIGUSR1", true).by() ==
        "the request of a callback on another rank");
}
