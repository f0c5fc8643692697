#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/precision/master_weights.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/strategy/whole_parameters.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Parameters of which every rank has a copy, while ranks of a group divide the optimizer's work, and its
/// state, among themselves (weight update sharding, Xu et al. 2020; ZeRO's first stage, Rajbhandari et al.
/// 2020). Each rank updates its shards, and `publish` gathers the others'. Groups divide the work each for
/// itself, with the same result, which is to the bit that of ranks that all do everything.
///
/// From here on, and also after this, divided parameters live in memory of the group's communicator. What is
/// frozen now, or does not lie in row-major order, every rank updates by itself.
class DividedParameters final : public TrainedParameters {
 public:
  /// What is divided of these on this rank, by name; none where the memory of one belongs to other tensors as
  /// well.
  static std::vector<std::string> divisible(const std::vector<NamedTensor>& parameters);

  /// `parameters`: `trainable_parameters` of the placed model, of which every rank of the group divides the
  /// same. What `steps` refers to, and the group, outlive this. Collective over the group.
  DividedParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                    Communicator& group, WholeParameters::Steps steps);

  std::span<const Piece> pieces() const override { return pieces_; }
  void synchronize() override;
  std::span<const at::Tensor> gradients() const override { return gradients_; }
  std::span<const at::Tensor> held_gradients() const override { return masters_.gradients(); }
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor& found) override;
  void publish() override;

 private:
  /// Divided parameters of one dtype and device, one after the other in memory of the group.
  struct Arena {
    std::vector<std::size_t> parameters;  ///< in the order of the masters
    ShardPlan plan;
    at::Tensor memory;  ///< of all of them
    at::Tensor share;   ///< of `memory`: what this rank updates
  };

  Arena divide(std::vector<std::size_t> parameters);
  void add_pieces();
  void arena_norms(const Arena& arena, double order, std::vector<at::Tensor>& norms);

  MasterWeights masters_;
  Communicator& group_;
  WholeParameters::Steps steps_;
  std::vector<Arena> arenas_;
  std::vector<bool> divided_;                         ///< of each master
  std::vector<ElementRange> own_ranges_;              ///< of each master; everything where it is not divided
  std::vector<std::optional<std::size_t>> piece_of_;  ///< of each master; none where others update it
  std::vector<std::size_t> master_of_;                ///< of each piece
  std::vector<Piece> pieces_;
  std::vector<at::Tensor> gradients_;  ///< of the pieces
};

}  // namespace cxtrain
