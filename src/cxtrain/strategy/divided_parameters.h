#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/precision/master_weights.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Parameters with a copy on every rank. The ranks of a group divide the optimizer's work and its state
/// (weight update sharding, Xu et al. 2020; ZeRO's first stage, Rajbhandari et al. 2020). Each rank updates
/// its shards, and `publish` gathers the shards of the other ranks. Each group divides the work
/// independently; the result is bit-for-bit that of every rank updating everything.
///
/// From construction on, also after the end of this object, divided parameters live in memory of the group's
/// communicator. Where the ranks of a group share a node, they have one copy of the parameters (`NodeArena`),
/// and `publish` copies nothing. Every rank updates, by itself, parameters that are frozen at construction or
/// not in row-major order.
class DividedParameters final : public TrainedParameters {
 public:
  /// Returns the names of the parameters that this rank divides; empty if the memory of one belongs to other
  /// tensors, too.
  static std::vector<std::string> divisible(const std::vector<NamedTensor>& parameters);

  /// `parameters`: of the placed model, all that may be trained at any time; all ranks of the group divide
  /// the same parameters. The group and the exchange must outlive this object. Collective over the group.
  DividedParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                    Communicator& group, GradientExchange& exchange);

  std::span<const Piece> pieces() const override { return pieces_; }
  GradientExchange& exchange() override { return exchange_; }
  void synchronize() override;
  std::span<const at::Tensor> gradients() const override { return gradients_; }
  std::span<const at::Tensor> held_gradients() const override { return masters_.gradients(); }
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor& found) override;
  void begin_update() override;
  void publish() override;
  /// Returns whether the ranks of the group have one copy of the divided parameters.
  bool one_copy() const;

 private:
  /// Divided parameters of one dtype and device, one after the other in memory of the group.
  struct Arena {
    std::vector<std::size_t> parameters;  ///< in the order of the masters
    ShardPlan plan;
    at::Tensor memory;                    ///< memory of all parameters
    at::Tensor share;                     ///< the shard of `memory` that this rank updates
    std::shared_ptr<NodeArena> one_copy;  ///< of `memory`; null: every rank has its own memory
  };

  Arena divide(std::vector<std::size_t> parameters);
  /// This rank's part of a divided parameter.
  Piece part_of_share(const Arena& arena, std::size_t k) const;
  void add_pieces();
  void arena_norms(const Arena& arena, double order, std::vector<at::Tensor>& norms);

  MasterWeights masters_;
  Communicator& group_;
  GradientExchange& exchange_;
  std::vector<Arena> arenas_;
  std::vector<bool> divided_;                         ///< for each master
  std::vector<ElementRange> own_ranges_;              ///< for each master; everything if it is not divided
  std::vector<std::optional<std::size_t>> piece_of_;  ///< for each master; absent if another rank updates it
  std::vector<std::size_t> master_of_;                ///< for each piece
  std::vector<Piece> pieces_;
  std::vector<at::Tensor> gradients_;  ///< for each piece
  bool updating_ = false;              ///< since `begin_update`
};

}  // namespace cxtrain
