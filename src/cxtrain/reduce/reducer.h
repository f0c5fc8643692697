#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/memory/kept_memory.h"
#include "cxtrain/reduce/buckets.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

struct ReducerOptions {
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  bool overlap = false;  ///< all-reduce a full bucket while backward goes on
  bool find_unused_parameters = false;
  /// What gradients are rounded to while they travel, where they are wider; absent: nothing. Halves the bytes
  /// of float32.
  std::optional<at::ScalarType> wire_dtype = {};
};

/// The seam between autograd and communication: averages gradients over all ranks.
///
/// Each gradient has a slice of a flat bucket. A hook on each parameter notes that its gradient is ready. On
/// the CPU it moves it there at once, while it is in the cache, unless autograd made it in the pool of the
/// communicator's node memory, where it is reduced as it lies. On a device the gradients of a bucket move
/// there together, in one operation, when it is full; it runs on the stream that made the first of them,
/// after waiting for the others'. A full bucket is all-reduced as one message. Buckets go out strictly in
/// index order, so that all ranks agree whatever order autograd takes. After the first synchronised step they
/// are laid out anew in the order observed then (rank 0's, sent to all).
///
/// For each micro-batch: `begin_backward`, then backward, and once per optimizer step `finish`. Gradients
/// accumulate between two calls of `zero_gradients`. One thread calls it; on CUDA the hooks
/// run on autograd's threads, one for each device, while the caller waits in backward.
class Reducer {
 public:
  /// Collective. `parameters` that do not require a gradient now are left alone. All ranks pass the same ones
  /// (`verify_same_parameters`). Communicator and world outlive the reducer.
  Reducer(std::vector<NamedTensor> parameters, Communicator& communicator, World& world,
          ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// `synchronize`: the gradients of this backward complete the optimizer step.
  void begin_backward(bool synchronize);

  /// After the backward that synchronises: sends what has not been sent, and joins. Gradients are then
  /// averages over all ranks (on CUDA: for work submitted to the current stream after this). Collective. A
  /// parameter that got no gradient on this rank counts as zero (named in a warning, once); with
  /// `find_unused_parameters` one that got none on any rank stays without a gradient.
  void finish();

  /// Forgets the gradients, without touching memory: the next backward writes rather than adds. From here to
  /// `finish` the node memory's pool is in use.
  void zero_gradients();

  /// Whether other parameters require a gradient than when this was made: time for another reducer.
  bool outdated() const;

  std::size_t bucket_count() const { return buckets_.size(); }

  /// The parameters' names in the order that was observed; empty as long as there was none. What comes after
  /// each other in memory is reduced together, which may decide about the last bits of a sum.
  std::vector<std::string> order() const;
  /// Lays the buckets out in this order from the next step on. A name that is no parameter's is left out, a
  /// parameter without a name goes last. The same on all ranks.
  void set_order(std::span<const std::string> names);

 private:
  struct Hook;
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    at::Tensor view;                    ///< its slice of the bucket, shaped and strided like the parameter
    std::size_t bucket = 0, slice = 0;  ///< where in `buckets_`
    bool ready = false;                 ///< in this backward
    bool touched = false;               ///< since zero_gradients
  };
  struct Bucket {
    at::Tensor flat;
    std::vector<NodeMemory::Slice> slices;  ///< one per parameter, with its gradient
    std::size_t pending = 0;
    std::vector<std::size_t> parameters = {};  ///< as the slices
    std::vector<c10::Stream> streams = {};     ///< that its gradients were made on; on devices
    at::Tensor wire = {};                      ///< what travels, where that is not `flat`

    bool on_device() const { return !flat.is_cpu(); }
    /// A gradient was made on its device's current stream.
    void note_stream();
  };

  std::vector<ParameterShape> shapes() const;
  void allocate_arenas();
  void lay_out(std::span<const std::size_t> order);
  void send(Bucket& bucket);
  void on_gradient(std::size_t index);
  /// Moves a gradient into its bucket where it does not lie there.
  void move_in(Parameter& parameter);
  /// The same for a bucket on a device, on the current stream.
  void gather(Bucket& bucket);
  bool reduced_where_it_lies(const at::Tensor& gradient, const at::Tensor& view) const;
  at::Tensor& slice_of(const Parameter& parameter) {
    return buckets_[parameter.bucket].slices[parameter.slice].values;
  }
  void send_ready_buckets();
  void fill_untouched();
  void forget_unused();
  void agree_on_order();
  void use_order(std::vector<std::size_t> order);

  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> frozen_;            ///< those that require no gradient
  std::vector<at::Tensor> arenas_;            ///< flat memory, one per dtype and device
  std::vector<at::Tensor> wires_;             ///< of each arena, in the wire's dtype; or undefined
  std::vector<Bucket> buckets_;               ///< slices of the arenas
  std::shared_ptr<MemPool> pool_;             ///< for gradients; or null
  std::optional<UseTensorPool> pool_in_use_;  ///< while gradients are made
  Communicator& communicator_;
  NodeMemory* node_memory_;  ///< the communicator's, or null
  World& world_;
  ReducerOptions options_;
  std::mutex gradients_arrive_;  ///< held by a hook: those of several devices may run at once
  bool synchronize_ = false;
  bool warned_unused_ = false;
  std::size_t next_bucket_ = 0;  ///< the first that has not been sent in this step
  std::vector<std::size_t> observed_order_;
  std::vector<std::size_t> order_;  ///< observed and agreed; empty: not yet
  bool lay_out_next_ = false;       ///< by the next zero_gradients
};

}  // namespace cxtrain
