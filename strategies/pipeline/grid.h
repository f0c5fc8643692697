#pragma once

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

}  // namespace cxtrain
