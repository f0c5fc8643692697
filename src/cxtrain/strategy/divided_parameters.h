#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/placed_row.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Parameters whose update the ranks of a group divide: the optimizer's work and its state (weight update
/// sharding, Xu et al. 2020; ZeRO's first stage, Rajbhandari et al. 2020). Each rank updates its shards. Each
/// group divides the work independently; the result is bit-for-bit that of every rank updating everything. A
/// rank has master weights (AMP's O2) of its shards only.
///
/// `publish` gathers the shards of the other ranks if each rank has memory for whole rows. `publish` copies
/// nothing if the ranks have one copy of a row, or if a rank has its shard only. Every rank updates, by
/// itself, parameters that are in no row.
class DividedParameters final : public TrainedParameters {
 public:
  /// Returns the names of the parameters that this rank divides; empty if the memory of one belongs to other
  /// tensors, too.
  static std::vector<std::string> divisible(const std::vector<NamedTensor>& parameters);
  /// Returns whether all ranks want to divide these parameters, and every rank divides equal ones, at least
  /// one. Collective.
  static bool agreed(bool wanted, const std::vector<NamedTensor>& parameters, World& world);

  /// `parameters`: of the placed model, all that may be trained at any time. `rows`: rows of `parameters`.
  /// All ranks of the group pass equal arguments. The group and the exchange must outlive this object.
  DividedParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                    Communicator& group, GradientExchange& exchange, std::vector<PlacedRow> rows);

  std::span<const Piece> pieces() const override { return pieces_; }
  GradientExchange& exchange() override { return exchange_; }
  void synchronize() override;
  std::span<const at::Tensor> gradients() const override { return gradients_; }
  std::span<const at::Tensor> held_gradients() const override { return held_; }
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor& found) override;
  void begin_update() override;
  void publish() override;
  /// Returns whether the ranks of the group have one copy of every divided parameter.
  bool one_copy() const;

 private:
  /// How a piece is connected with its parameter.
  struct Link {
    std::size_t parameter;
    at::Tensor gradient;  ///< memory for the gradient in float32; used if the piece is a master
  };

  void add_piece(std::size_t parameter, Piece in_model, bool master);
  /// The gradient of a piece as the exchange leaves it; undefined if there is none.
  at::Tensor gradient_of(std::size_t piece) const;
  bool has_gradient(std::size_t parameter) const;
  /// The norms of the chunks of all rows of one dtype and device, and from them the norms of parameters.
  void row_norms(std::span<const PlacedRow* const> rows, double order, std::vector<at::Tensor>& norms);

  std::vector<NamedTensor> parameters_;
  Communicator& group_;
  GradientExchange& exchange_;
  std::vector<PlacedRow> rows_;
  std::vector<NodeArena*> one_copies_;                ///< the rows', where there are any
  std::vector<bool> divided_;                         ///< for each parameter
  std::vector<const GradientShard*> shards_;          ///< for each parameter; null: its gradient is whole
  std::vector<std::optional<std::size_t>> piece_of_;  ///< for each parameter; absent: other ranks update it
  std::vector<Piece> pieces_;
  std::vector<Link> links_;            ///< for each piece
  std::vector<at::Tensor> gradients_;  ///< for each piece
  std::vector<at::Tensor> held_;       ///< for each parameter
  std::vector<at::Tensor> rounded_;    ///< parts of the model that have a master,
  std::vector<at::Tensor> precise_;    ///< and their masters
  bool updating_ = false;              ///< since `begin_update`
};

}  // namespace cxtrain
