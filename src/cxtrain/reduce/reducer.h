#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/reduce/buckets.h"
#include "cxtrain/reduce/gradient_hooks.h"
#include "cxtrain/reduce/rehearsal.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

struct ReducerOptions {
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  bool overlap = false;  ///< all-reduce a full bucket during backward
  bool find_unused_parameters = false;
  /// Dtype that wider gradients are rounded to while they travel, which halves the bytes of float32; absent:
  /// no rounding. CPU ranks round between nodes only: the sums of nodes, and the result.
  std::optional<at::ScalarType> wire_dtype = {};
  /// Rounds only the gradients that would arrive late otherwise: those of the last buckets, which do not
  /// travel beside backward (`first_exposed_bucket`). Rank 0 measures a step to find them.
  bool round_exposed_only = false;
};

/// Averages gradients over all ranks; connects autograd with communication.
///
/// Each gradient has a slice of a flat bucket. A hook on each parameter notes that its gradient is ready.
///
/// On the CPU the hook moves the gradient into its slice at once, while it is in the cache. A gradient that
/// autograd made in the pool of the communicator's node memory stays there, and is reduced in place.
///
/// On a device the gradients of a full bucket move into it together, in one operation. The operation runs on
/// the stream that made the first gradient, after waiting for the streams of the other gradients.
///
/// A full bucket is all-reduced as one message. Buckets are sent strictly in index order, so that all ranks
/// agree for any order of autograd. After the first synchronised step the buckets are laid out again in the
/// order that rank 0 observed, which is sent to all ranks.
///
/// For each micro-batch: `begin_backward`, backward, `end_backward`, and once per optimizer step `finish`.
/// Gradients accumulate between two calls of `zero_gradients`. One thread calls the reducer; on CUDA the
/// hooks run on autograd's threads, one for each device, while the caller waits in backward.
class Reducer final : private GradientListener {
 public:
  /// Collective. Ignores `parameters` that do not require a gradient now. All ranks pass equal parameters
  /// (`verify_same_parameters`). Communicator and world must outlive the reducer.
  Reducer(std::vector<NamedTensor> parameters, Communicator& communicator, World& world,
          ReducerOptions options);
  ~Reducer() override;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Prepares for a backward. `synchronize`: the gradients of this backward complete the optimizer step.
  /// Until `end_backward` the node memory's pool is in use.
  void begin_backward(bool synchronize);
  void end_backward() { pool_in_use_.reset(); }

  /// Sends everything that is not sent yet, and joins; called after the backward that synchronises. Gradients
  /// are then averages over all ranks (on CUDA: for work submitted to the current stream after this call).
  /// Collective. A parameter that got no gradient on this rank counts as zero (named in a warning, once).
  /// With `find_unused_parameters`, a parameter that got no gradient on any rank stays without a gradient.
  /// Has no effect on gradients that are averages already.
  void finish();

  /// `GradientExchange::carry`. Flags are elements behind the gradients of the last bucket, 1 for a flag that
  /// is set. Their averages are positive if any rank has set the flag. On devices flags are not carried: the
  /// host would wait for the device to read them.
  bool carry(std::uint64_t flags);
  std::uint64_t carried() const;

  /// `GradientExchange::rehearse`; in host memory, over all ranks of the world.
  std::optional<Rehearsal> rehearse(RehearsedMessages messages);

  /// Drops the gradients, without touching memory: the next backward writes rather than adds.
  void zero_gradients();

  /// Returns whether other parameters require a gradient than at construction: time for another reducer.
  bool outdated() const;
  /// Returns the name of a parameter that required no gradient at construction and requires one now; empty:
  /// none.
  std::string unfrozen() const;

  std::size_t bucket_count() const { return buckets_.size(); }

  /// Returns the parameters' names in the observed order; empty if no order was observed yet. Neighbours in
  /// memory are reduced together, which decides about the last bits of a sum where NCCL or MPI adds.
  std::vector<std::string> order() const;
  /// Lays the buckets out in this order from the next step on. Names without a parameter are ignored;
  /// parameters without a name go last. All ranks pass equal names.
  void set_order(std::span<const std::string> names);

  /// With `round_exposed_only`: the number of the first parameters in `order` that are not rounded; absent
  /// until a step was measured. Equal on all ranks.
  std::optional<std::int64_t> exact_parameters() const { return exact_parameters_; }
  /// Takes the number from an earlier training. All ranks pass equal numbers.
  void set_exact_parameters(std::int64_t number);

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    at::Tensor view;  ///< its slice of the bucket, with the shape and strides of the parameter
    std::size_t bucket = 0, slice = 0;  ///< position in `buckets_`
    bool ready = false;                 ///< got its gradient in this backward
    bool touched = false;               ///< got a gradient since `zero_gradients`
  };
  struct Bucket {
    at::Tensor flat;
    /// One per parameter, with its gradient; in the last bucket one more for the flags.
    std::vector<NodeMemory::Slice> slices;
    std::size_t pending = 0;
    std::vector<std::size_t> parameters = {};  ///< in the order of the slices
    GradientStreams streams = {};              ///< streams that made its gradients; on devices
    at::Tensor wire = {};                      ///< the tensor that travels, if it is not `flat`

    bool on_device() const { return !flat.is_cpu(); }
  };

  std::vector<at::Tensor> tensors() const;
  std::vector<ParameterShape> shapes() const;
  void allocate_arenas();
  void lay_out(std::span<const std::size_t> order);
  std::int64_t gap_before_flags() const;
  void add_flags();
  void send(std::size_t index);
  /// Sends consecutive buckets of one arena as one message. For rehearsals.
  void send_together(std::size_t first, std::size_t end);
  /// Returns the number behind the last bucket of a message that begins with bucket `first` and has at most
  /// `bytes`, or one bucket.
  std::size_t end_of_message(std::size_t first, std::int64_t bytes) const;
  /// Whether the gradients of a bucket are rounded.
  bool rounds(std::size_t bucket) const { return options_.wire_dtype && bucket >= exact_buckets_; }
  void choose_rounded(double backward_ended);
  void find_exact_buckets();
  void on_gradient(std::size_t index) override;
  /// Moves a gradient into its bucket if it does not lie there.
  void move_in(Parameter& parameter);
  /// Moves the gradients of a bucket on a device, on the current stream.
  void gather(Bucket& bucket);
  at::Tensor& slice_of(const Parameter& parameter) {
    return buckets_[parameter.bucket].slices[parameter.slice].values;
  }
  void send_ready_buckets();
  void fill_untouched();
  void forget_unused();
  void agree_on_order();
  void use_order(std::vector<std::size_t> order);

  std::vector<Parameter> parameters_;
  std::vector<NamedTensor> frozen_;           ///< parameters that required no gradient
  std::vector<at::Tensor> arenas_;            ///< flat memory, one per dtype and device
  at::Tensor flags_;                          ///< of the last bucket; undefined: not carried
  at::Tensor one_;                            ///< a flag that is set
  std::vector<at::Tensor> wires_;             ///< for each arena: memory in the wire's dtype, or undefined
  std::vector<Bucket> buckets_;               ///< slices of the arenas
  std::shared_ptr<MemPool> pool_;             ///< for gradients; or null
  std::optional<UseTensorPool> pool_in_use_;  ///< while gradients are made
  Communicator& communicator_;
  NodeMemory* node_memory_;  ///< the communicator's, or null
  World& world_;
  ReducerOptions options_;
  const bool carries_flags_;     ///< the last bucket, if there is one, has flags
  std::mutex gradients_arrive_;  ///< held by a hook: hooks of several devices may run at once
  bool synchronize_ = false;     ///< the backward in progress, or the last one, completes the step
  bool averaged_ = false;        ///< the gradients are complete
  bool warned_unused_ = false;
  std::size_t next_bucket_ = 0;  ///< the first bucket that has not been sent in this step
  std::vector<std::size_t> observed_order_;
  std::vector<std::size_t> order_;  ///< observed and agreed; empty: no order yet
  bool lay_out_next_ = false;       ///< the next `zero_gradients` lays the buckets out
  std::optional<std::int64_t> exact_parameters_;
  std::size_t exact_buckets_ = 0;  ///< the first ones, which are not rounded
  SteadyClock clock_;
  double backward_began_ = 0;
  std::vector<double> ready_;  ///< for each bucket, s after the begin of backward; empty: not measured
};

}  // namespace cxtrain
