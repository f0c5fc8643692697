#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// How values of one state become one value: those of two parts of an epoch, of two replicas, of all ranks.
enum class Reduce {
  sum,   ///< begins with zeros; whole numbers are exact up to 2^53
  mean,  ///< weighted by the updates that each value has seen
  min,
  max,
  moments,  ///< of pairs, float64 [..., 6], joined by Chan's formula (metrics/moments.h)
  cat       ///< rows side by side along dimension 0, in the order of the ranks; grows with the data
};

/// A quantity of an epoch that is more than a mean of numbers: torchmetrics' Metric. A metric keeps states,
/// `update` adds a batch to them, and `compute` makes the result of them.
///
///     class ShareOfZeros : public cxtrain::Metric {
///      public:
///       void update(const at::Tensor& preds, const at::Tensor&) override {
///         const Updating updating(*this);
///         zeros_ += preds.eq(0).sum();
///         all_ += preds.numel();
///       }
///       at::Tensor compute() const override { return zeros_ / all_; }
///
///      private:
///       at::Tensor& zeros_ = add_state("zeros", at::zeros({}, at::kDouble));
///       at::Tensor& all_ = add_state("all", at::zeros({}, at::kDouble));
///     };
///
/// `Module::register_metric` makes a metric of a model. The loops give it states of its own for each training
/// epoch and each evaluation, reduce the states over the ranks at the end, and save them in checkpoints. All
/// that `update` changes has to be a state.
class Metric {
 public:
  Metric() = default;
  virtual ~Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  /// Adds a batch. Classes say which shapes and dtypes they take; a class that takes other arguments has an
  /// `update` of its own, and this one throws TrainingError. Must not wait for a device.
  virtual void update(const at::Tensor& preds, const at::Tensor& target);

  /// Returns the result of the states: in a step, of this rank's samples of the epoch so far (of the batch,
  /// if the metric is logged on_step and was not logged yet); in `on_train_epoch_end`,
  /// `on_validation_epoch_end` and `on_test_epoch_end`, of the samples of all ranks. May wait for a device.
  /// Never communicates.
  virtual at::Tensor compute() const = 0;

  /// Sets all states to their initial values.
  void reset();
  /// Adds the states of another metric of this class and with these arguments. Throws TrainingError if its
  /// states differ in names or reductions.
  void merge(const Metric& other);

  /// The name that it was registered under; empty if it is not a model's.
  const std::string& name() const { return name_; }
  /// Device of the states: the model's. `update` takes tensors of other devices, too.
  at::Device device() const { return device_; }
  /// Moves the states.
  void to(at::Device device);
  /// Calls of `update` that the states have seen, on all ranks once the states are reduced.
  std::int64_t updates() const { return updates_ + before_.updates; }

 protected:
  /// Adds a state, in the constructor or a member's initialiser; returns the tensor that `update` changes and
  /// `compute` reads. `initial`: on the CPU; for `Reduce::cat` of shape [0, ...], else of the state's shape,
  /// which does not change. The name is unique in the class.
  at::Tensor& add_state(std::string name, at::Tensor initial = at::zeros({}, at::kDouble),
                        Reduce reduce = Reduce::sum);
  /// Adds rows [n, ...] to a state with `Reduce::cat`, in amortised constant time a row.
  void append(const at::Tensor& state, const at::Tensor& rows);
  /// The tensor on the metric's device, without its gradient.
  at::Tensor here(const at::Tensor& tensor) const;

  /// Turns gradients, autocast and inference mode off while it lives: states are written to in steps and in
  /// hooks, so they cannot be tensors of inference mode, which only that mode may write to.
  class StateGuard {
    c10::InferenceMode everywhere_{false};  // first: it turns gradients on
    at::NoGradGuard no_grad_;
    c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  };
  /// Begins every `update`: counts it, and turns gradients, autocast and inference mode off for its scope.
  /// Throws TrainingError at the end of an epoch, when the states of all ranks are one already.
  class Updating {
   public:
    explicit Updating(Metric& metric);

   private:
    StateGuard guard_;
  };

 public:
  // For the loops, the strategies and checkpoints.

  struct State {
    std::string name;
    at::Tensor initial;
    Reduce reduce = Reduce::sum;
  };
  /// Values of the states, in their order, over a part of an epoch.
  struct Values {
    std::vector<at::Tensor> tensors = {};
    std::vector<at::Tensor> memory = {};  ///< that tensors of rows grow in; undefined for others
    std::int64_t updates = 0;
  };

  void set_name(std::string name) { name_ = std::move(name); }
  const std::vector<State>& states() const { return states_; }
  /// `compute`, as in an `update` free of gradients and autocast.
  at::Tensor value() const;
  /// Puts the states aside for the end of the epoch and begins with initial ones: the next `value` is that of
  /// the next batch.
  void end_batch();
  /// Brings the states that were put aside back into the states.
  void collect();
  /// The value of a state; after `collect`, of the epoch so far.
  const at::Tensor& state(std::size_t index) const { return current_[index]; }
  /// Replaces the states by those of all ranks, and forbids `update` until the next `reset`.
  void set_reduced(std::vector<at::Tensor> values, std::int64_t updates);
  /// Takes all values out and leaves initial ones; `put` brings them back.
  struct Kept {
    Values now, before;
    bool reduced = false;
  };
  Kept take();
  void put(Kept kept);

  void save(StateDict& state) const;
  /// Throws StateError if the saved states are of other names, reductions or shapes.
  void load(const StateDict& state);

 private:
  Values initial_values() const;
  Values take_current();
  void set_current(Values values);
  /// Adds the values of `more` to those of `into`.
  void add(Values& into, const Values& more) const;

  std::string name_;
  at::Device device_ = at::kCPU;
  std::vector<State> states_;
  std::deque<at::Tensor> current_;  ///< `add_state` has returned references to them
  std::vector<at::Tensor> memory_;  ///< of `current_`, as in Values
  std::int64_t updates_ = 0;        ///< of `current_`
  Values before_;                   ///< what `end_batch` has put aside; without tensors if nothing
  bool reduced_ = false;            ///< the states are those of all ranks
};

/// Gives metrics initial states while it lives, and then the states back that they had: an evaluation within
/// a training epoch.
class FreshStates {
 public:
  explicit FreshStates(std::vector<Metric*> metrics);
  ~FreshStates();
  FreshStates(const FreshStates&) = delete;
  FreshStates& operator=(const FreshStates&) = delete;

 private:
  std::vector<Metric*> metrics_;
  std::vector<Metric::Kept> kept_;
};

}  // namespace cxtrain
