#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/reduce/divided_rows.h"
#include "cxtrain/reduce/gradient_hooks.h"
#include "cxtrain/reduce/gradient_shard.h"
#include "cxtrain/reduce/rehearsal.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

struct ShardReducerOptions {
  bool overlap = true;  ///< reduce a row during backward, as soon as its gradients are complete
  bool find_unused_parameters = false;
  /// Reduce the gradients of every micro-batch, and sum shards: no rank keeps whole gradients. Else whole
  /// gradients accumulate on their rank, and the averages have the bits of `Reducer`'s.
  bool accumulate_shards = false;
};

/// Averages gradients over all ranks, and leaves each rank its shard (ZeRO's second stage, Rajbhandari et
/// al. 2020). A row of parameters is reduced as one message; the rank then drops the row's whole gradients.
/// Averages of one micro-batch have the bits of `Reducer`'s.
///
/// The ranks of a node announce a row, and sum it when they announce the next row. So a rank holds whole
/// gradients of about three rows, and waits for another rank only if that rank is late by a row.
///
/// For each micro-batch: `begin_backward`, backward, `end_backward`, and once per optimizer step `finish`.
/// A backward pass reduces if it completes the step, or if shards accumulate. Rows are reduced strictly in
/// their order, so that all ranks agree for any order of autograd. One thread calls the reducer; hooks run as
/// described at `GradientListener`.
class ShardReducer final : private GradientListener {
 public:
  /// `rows`: rows of `parameters`, with a shard for each rank of a group of which this rank is number
  /// `shard`. The group is all ranks of the communicator, or the ranks of this node. Communicator and world
  /// must outlive the reducer. Collective.
  ShardReducer(std::vector<NamedTensor> parameters, std::vector<DividedRow> rows, int shard,
               Communicator& communicator, World& world, ShardReducerOptions options);
  ~ShardReducer() override;
  ShardReducer(const ShardReducer&) = delete;
  ShardReducer& operator=(const ShardReducer&) = delete;

  /// `completes_step`: the gradients of this backward complete the optimizer step. Until `end_backward` the
  /// node memory's pool is in use.
  void begin_backward(bool completes_step);
  /// In a backward that reduces, without `ShardReducerOptions::overlap`: reduces the first `count` rows,
  /// whose gradients are complete. All ranks call it at the same places of their messages. Collective.
  void send_rows(std::size_t count);
  /// After a backward that reduces: reduces the rows that are left. Collective.
  void end_backward();
  /// Completes the shards; reduces all rows if no backward has reduced. A parameter that got no gradient
  /// on this rank counts as zero (named in a warning, once). With `find_unused_parameters`, a parameter that
  /// got no gradient on any rank has none. Collective.
  void finish();
  /// Drops gradients and shards.
  void zero_gradients();

  /// `GradientExchange::rehearse`, in host memory that ranks share. If the shards are those of all ranks,
  /// also gathers them, as a step gathers the updated parameters.
  std::optional<Rehearsal> rehearse();

  /// Returns the shard of a parameter of a row; null for other tensors.
  const GradientShard* shard_of(const at::Tensor& parameter) const;

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::size_t row = 0;
    GradientShard shard = {};
    bool ready = false;    ///< got its gradient in this backward
    bool touched = false;  ///< got a gradient since `zero_gradients`
  };
  struct Row : DividedRow {          // `parameters`: indices of `parameters_`
    at::Tensor share;                ///< this rank's shard of the averages, summed over micro-batches
    at::Tensor of_micro_batch = {};  ///< its shard of one micro-batch's averages; undefined before the second
    bool has_averages = false;       ///< an earlier backward pass of this step has reduced the row
    std::size_t buffer = 0;          ///< index of `buffers_`
    std::size_t pending = 0;         ///< gradients that are missing in this backward
    GradientStreams streams = {};    ///< streams that made the gradients; on devices
  };

  std::vector<at::Tensor> tensors() const;
  void allocate();
  /// Returns whether a parameter of the row is trained now.
  bool trains(const Row& row) const;
  /// Returns the elements of the row's parameter number `k` that this rank has.
  ElementRange own_range(const Row& row, std::size_t k) const;
  /// Returns the place of these elements in this rank's shard of the row.
  at::Tensor own_part(const Row& row, std::size_t k, const at::Tensor& share) const;
  void on_gradient(std::size_t index) override;
  void send_ready_rows();
  void send_remaining_rows();
  void send(Row& row);
  /// Memory for the row's gradients, which no other rank reads any more.
  at::Tensor next_memory(const Row& row);
  /// Copies the row's gradients into `memory`, except those that can be reduced where they lie. Returns where
  /// each lies.
  std::vector<NodeMemory::Slice> collect(Row& row, const at::Tensor& memory);
  void reduce(Row& row, const at::Tensor& memory, std::vector<NodeMemory::Slice> slices);
  void reduce_within_node(Row& row, const at::Tensor& memory, std::vector<NodeMemory::Slice> slices);
  /// Takes the shards of the row that travels between nodes.
  void finish_row();
  /// Where the averages of the backward pass at hand go.
  const at::Tensor& target_of(Row& row);
  /// Adds the averages of the backward pass that has ended to those of the passes before.
  void accumulate();
  void warn_of_untouched();
  void mark_present();

  /// A row whose averages travel between nodes, where the shards are those of a node.
  struct TravellingRow {
    Row* row;
    std::vector<NodeMemory::Slice> slices;  ///< where the averages arrive
  };

  std::vector<Parameter> parameters_;  ///< those of the rows
  std::unordered_map<const at::TensorImpl*, std::size_t> index_of_;
  std::vector<Row> rows_;
  /// Memory of rows that are under way, for gradients that do not lie in the pool: for each dtype and device
  /// `most_under_way_` times the longest row's, one after the other.
  std::vector<at::Tensor> buffers_;
  std::vector<std::vector<at::Tensor>> under_way_;  ///< gradients that other ranks may read, the oldest first
  std::optional<TravellingRow> travels_;            ///< absent: every row that was sent has arrived
  std::size_t sent_ = 0;                            ///< rows, since construction
  std::shared_ptr<MemPool> pool_;                   ///< for gradients; or null
  std::optional<UseTensorPool> pool_in_use_;        ///< while gradients are made
  const int shard_;
  Communicator& communicator_;
  NodeMemory* node_memory_;           ///< the communicator's, or null
  const std::size_t most_under_way_;  ///< rows
  World& world_;
  ShardReducerOptions options_;
  std::mutex gradients_arrive_;  ///< held by a hook: hooks of several devices may run at once
  bool reduces_ = false;         ///< the backward in progress reduces its rows
  bool completes_step_ = false;  ///< the backward in progress is the last of the step
  bool averaged_ = false;        ///< the shards are complete
  bool warned_unused_ = false;
  std::size_t next_row_ = 0;  ///< the first row that has not been reduced in this step
};

}  // namespace cxtrain
