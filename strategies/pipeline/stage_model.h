#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/strategy/block_ranges.h"
#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/tensor/piece.h"
#include "grid.h"

namespace cxtrain {

/// The tensors of a model whose blocks lie on the stages of a pipeline. Every rank has the modules of all
/// blocks, and all buffers. Of the parameters it has those of its own blocks; the others are empty.
class StageModel {
 public:
  /// `parts[k]`: the blocks of part k; stage s has the parts s, s + stages, ... Throws ConfigError if a
  /// parameter belongs to no block. All references outlive the object.
  StageModel(Trainable& module, const Blocks& chain, const PipelineGrid& grid,
             std::span<const BlockRange> parts);

  /// Connects to the other ranks. `world`: all ranks. `column`: the ranks of this column, by rank.
  void connect(Communicator& world, Communicator& column);

  /// Returns the parameters that this rank has; the others are dropped.
  std::vector<NamedTensor> own(std::vector<NamedTensor> parameters) const;
  bool is_own(const std::string& name) const;
  /// Returns whether this rank has the parameter or buffer now.
  bool has(const std::string& name) const { return entry(name).is_here; }
  /// Returns whether this stage is the first one that has the parameter.
  bool is_first_owner(const std::string& name) const;
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
