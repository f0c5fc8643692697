#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cxtrain/strategy/local_step.h"

namespace cxtrain::test {

/// One rank that does everything, writes down what it is asked, and fails where it is told to.
class FakeStrategy final : public LocalStrategy {
 public:
  struct Notes {
    std::vector<std::string> calls;  ///< each step once
    std::string fails_in = {};       ///< a call
    int steps = 0;
  };
  explicit FakeStrategy(Notes& notes) : notes_(notes) {}

  void place(Trainable& module, const StrategyContext& context) override {
    note("place");
    LocalStrategy::place(module, context);
  }
  void connect() override { note("connect"); }
  DataShard data_shard() const override { return {}; }
  std::vector<std::unique_ptr<TrainedParameters>> prepare(const std::vector<OptimizerTarget>& targets,
                                                          Backward backward) override {
    note("prepare");
    return LocalStrategy::prepare(targets, backward);
  }
  StepResult step(StepPlan& plan) override {
    if (notes_.steps++ == 0) note("training_step");
    return LocalStrategy::step(plan);
  }
  void visit_whole(const std::function<void(const NamedTensor&)>& visit) override {
    note("visit_whole");
    LocalStrategy::visit_whole(visit);
  }
  std::string describe() const override { return "a fake's"; }
  void teardown() override { note("teardown"); }

 private:
  void note(const std::string& call) {
    notes_.calls.push_back(call);
    if (notes_.fails_in == call) throw TrainingError("the strategy failed in " + call);
  }
  Notes& notes_;
};

}  // namespace cxtrain::test
