#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/reduce/divided_rows.h"
#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/placed_row.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The parameters of a model in blocks. Each rank of a group keeps a shard of the parameters (ZeRO's third
/// stage, Rajbhandari et al. 2020). A block's parameters are whole from `acquire` to `release`; at all other
/// times they have their shape, and their values read as NaN. Parameters lie in rows (`divided_rows`), and a
/// row is gathered as one message. A row is in memory while a block with one of its parameters is.
///
/// Rows that are never in memory at the same time share a slot of memory (`plan_slots`). A slot has the
/// values of a row until another row needs the slot: a pass that comes back to the row gathers nothing.
///
/// Parameters that cannot be divided, and buffers, are whole on every rank. All ranks of the group call the
/// same methods in the same order; methods are collective unless they say otherwise.
class GatheredModel {
 public:
  /// Divides the parameters. All references outlive the object. `kept`: what this rank has of hollow
  /// parameters (`KeepRanges`). Throws ConfigError if a parameter belongs to no block.
  GatheredModel(const Trainable& module, const Blocks& blocks, Communicator& group, std::int64_t row_bytes,
                std::span<const Piece> kept = {});

  /// Begins a pass over the blocks. The shards may have changed since the pass before: no slot has values of
  /// them. Local.
  void begin_pass() {
    for (Slot& slot : slots_) slot.holds = nullptr;
  }
  /// Begins to gather a block's parameters, which the next `acquire` needs.
  void request(std::size_t block);
  /// Makes a block's parameters whole.
  void acquire(std::size_t block) {
    request(block);  // all its rows, before the first wait
    for (const std::size_t i : rows_of_block_[block]) use(rows_[i]);
  }
  /// Ends an `acquire`. Local.
  void release(std::size_t block) {
    for (const std::size_t i : rows_of_block_[block]) leave(rows_[i]);
  }

  /// Makes `rows_from` count the rows of these parameters only, as `rows_of` returns them. Local.
  void count_rows_of(const std::vector<NamedTensor>& parameters);
  /// Returns how many of the first rows have no parameters of the blocks before `block`: backward has reached
  /// all their gradients when it leaves `block`. Counts all rows until `count_rows_of`. Local.
  std::size_t rows_from(std::size_t block) const { return rows_from_[block]; }
  /// Returns the first block with a parameter that is trained; `size()` of the blocks if there is none.
  /// Local.
  std::size_t first_trained_block() const;
  /// Returns the rows of these parameters of the model, with indices in `parameters`. Local.
  std::vector<PlacedRow> rows_of(const std::vector<NamedTensor>& parameters) const;

  /// Leaves exactly these of the divided parameters whole on every rank.
  void keep_whole(const std::set<std::string>& names);
  /// Shows each parameter and buffer as a whole, in the order of the names.
  void visit(const std::function<void(const NamedTensor&)>& visit);
  /// Returns whole parameters and buffers, with copies of an equal part of the divided parameters on each
  /// rank. The rank of each copy is always the same.
  std::vector<NamedTensor> deal_out();
  /// Makes every parameter whole on every rank, for good.
  void restore();
  /// Leaves the parameters hollow, and returns this rank's shards of them (`Blocks::kept`).
  std::vector<Piece> give_back_shards();

 private:
  /// A parameter or buffer.
  struct Entry {
    NamedTensor named;
    std::size_t first_block = 0;            ///< with the tensor
    std::optional<std::size_t> row = {};    ///< absent: whole on every rank
    std::size_t place = 0;                  ///< in the row's parameters
    c10::Storage storage = {};              ///< of `whole`; its memory is a part of the row's
    at::Tensor whole = {}, elsewhere = {};  ///< what `named.tensor` is with its memory, and without
    bool kept = false;                      ///< whole on every rank, although a row has a place for it
  };
  struct Row;
  struct Slot {
    at::Tensor memory;
    const Row* holds = nullptr;  ///< the row whose values arrived last, or arrive now; null: none
  };
  struct Row {
    PlacedRow shards;      ///< indices are those of `entries_`; the rank has its shard only
    Slot* slot = nullptr;  ///< one of `slots_`
    int users = 0;         ///< blocks that have acquired the row

    const std::vector<std::size_t>& entries() const { return shards.row.parameters; }
    /// The part of the slot for all parameters.
    at::Tensor memory() const { return slot->memory.narrow(0, 0, shards.row.elements()); }
  };
  /// While it lives, a row is in memory.
  class Held;

  void find_blocks(const Blocks& blocks);
  void add_rows(const std::vector<NamedTensor>& parameters, std::int64_t row_bytes,
                std::span<const Piece> kept);
  void divide(Entry& entry);
  void gather(Row& row);
  void use(Row& row);
  void leave(Row& row);
  /// Copies this rank's part of an entry into the share: from the entry's tensor, or from what is kept.
  void store_part(const Entry& entry, std::span<const Piece> kept = {});

  Communicator& group_;
  std::vector<Entry> entries_;  ///< parameters in registration order, then buffers
  std::vector<Row> rows_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::size_t>> rows_of_block_;
  std::vector<std::size_t> rows_from_;
  bool under_way_ = false;  ///< a gather has begun since the last `join`
};

/// Slots of memory for rows that come and go: a row has the same slot each time.
struct SlotPlan {
  std::vector<std::vector<std::size_t>> rows_of_block;
  std::vector<std::size_t> slot_of_row;
  std::vector<std::size_t> largest;  ///< for each slot the row with the most elements
};

/// Plans slots for the rows of a model in blocks, of which those of a block and of the block behind it are in
/// memory at once. Rows of one slot have one dtype and device. `rows`: rows of `parameters`. Pure.
SlotPlan plan_slots(const std::vector<DividedRow>& rows, const std::vector<NamedTensor>& parameters,
                    const Blocks& blocks);

/// Returns the bytes of the slots for a model whose parameters are divided among `ranks` ranks. Pure.
std::int64_t slot_bytes(const Trainable& module, const Blocks& blocks, int ranks, std::int64_t row_bytes);

}  // namespace cxtrain
