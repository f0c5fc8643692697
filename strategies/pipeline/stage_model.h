#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "arguments.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/strategy/block_ranges.h"
#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The ranks of a pipeline as a grid. A column is one pipeline: `stages` ranks, each with another part of the
/// model, that share the samples of one data shard. The ranks of one stage have equal parameters, and average
/// their gradients.
///
/// The last stage has the lowest ranks, because rank 0 writes what steps log. The ranks of a stage are
/// consecutive: they exchange more than the stages of a column, and so share a node.
struct PipelineGrid {
  int rank = 0, ranks = 1, stages = 1;

  int columns() const { return ranks / stages; }
  int column() const { return rank % columns(); }
  int stage() const { return stages - 1 - rank / columns(); }
  /// The rank with this stage in this rank's column.
  int rank_of(int stage) const { return (stages - 1 - stage) * columns() + column(); }
};

/// Parts of the model on each rank.
inline int chunks_of(const PipelineArgs& args) {
  return args.schedule == Schedule::interleaved ? static_cast<int>(args.chunks) : 1;
}

/// Returns the blocks of a model that is a chain. Throws ConfigError if it is none.
Blocks& blocks_of_chain(Trainable& module);

/// Cuts the chain into the parts of all stages, by the user's layout or by cost. Throws ConfigError if the
/// chain cannot be cut in this way.
std::vector<BlockRange> parts_of_chain(const Blocks& chain, const PipelineArgs& args, int stages);

/// The tensors of a model whose blocks lie on the stages of a pipeline. Every rank has the modules of all
/// blocks, and all buffers. Of the parameters it has those of its own blocks; the others are empty.
class StageModel {
 public:
  /// `parts[k]`: the blocks of part k; stage s has the parts s, s + stages, ... Throws ConfigError if a
  /// parameter belongs to no block. All references outlive the object.
  StageModel(Trainable& module, const Blocks& chain, const PipelineGrid& grid,
             std::span<const BlockRange> parts);

  /// Connects to the other ranks. `world`: all ranks. `column`: the ranks of this column, by rank.
  void connect(Communicator& world, Communicator& column) {
    world_ = &world;
    column_ = &column;
  }

  /// Returns the parameters that this rank has; the others are dropped.
  std::vector<NamedTensor> own(std::vector<NamedTensor> parameters) const {
    std::erase_if(parameters, [&](const NamedTensor& parameter) { return !is_own(parameter.name); });
    return parameters;
  }
  bool is_own(const std::string& name) const;
  /// Returns whether this rank has the parameter or buffer now.
  bool has(const std::string& name) const { return entry(name).is_here; }
  /// Returns whether this stage is the first one that has the parameter.
  bool is_first_owner(const std::string& name) const { return entry(name).stages.front() == grid_.stage(); }
  /// A parameter that blocks of several stages share.
  struct Tied {
    std::string name;
    std::vector<int> stages;  ///< increasing
  };
  const std::vector<Tied>& tied() const { return tied_; }

  /// Frees the memory of the parameters that other ranks have.
  void release();
  /// Gives this rank the parameters of these names, or all. Collective over the column.
  void restore(const std::set<std::string>& names);
  void restore_all();
  /// Shows each tensor of the model as a whole, in the order of the names. Collective over the column.
  void visit(const std::function<void(const NamedTensor&)>& visit);
  /// Gives each rank the buffers of all blocks, from the ranks of its column that have run them.
  void complete_buffers();
  /// Gives all ranks the buffers of column 0. Collective over the world.
  void bring_buffers();

 private:
  struct Entry {
    NamedTensor named;
    std::vector<std::int64_t> sizes, strides;
    std::vector<int> stages;  ///< that have it, increasing
    bool is_buffer;
    bool is_here;  ///< has its memory
    const std::string& name() const { return named.name; }
  };
  const Entry& entry(const std::string& name) const;
  /// The rank in the column's communicator that has the first stage of the entry.
  int owner_in_column(const Entry& entry) const { return grid_.stages - 1 - entry.stages.front(); }
  void allocate(Entry& entry);

  PipelineGrid grid_;
  Communicator* world_ = nullptr;
  Communicator* column_ = nullptr;
  std::vector<Entry> entries_;  ///< in the order of their names
  std::vector<Tied> tied_;
};

}  // namespace cxtrain
