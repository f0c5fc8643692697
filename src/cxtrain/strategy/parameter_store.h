#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/placed_row.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The parameters that one optimizer trains, under every strategy. A rank has four kinds of memory for them:
///
///   * Values, which passes of the model read. Each rank has all values, or the ranks of a node have one copy
///     (`PlacedRow::one_copy`), or each rank has its shard (`PlacedRow::memory` is undefined).
///   * Gradients, as the exchange leaves them: whole, or this rank's shard (`GradientExchange::shard_of`).
///   * Optimizer state, which belongs to the pieces. A piece is a parameter, or this rank's shard of it.
///   * Master weights (AMP's O2): a float32 copy of each 16-bit piece, and its gradient in float32. The
///     optimizer updates the master. Steps smaller than the piece's last bit then add up instead of being
///     rounded away (Micikevicius et al. 2018, section 3.1).
///
/// Without rows every rank updates every parameter. With rows, the ranks of a group divide the update of the
/// parameters in rows (weight update sharding, Xu et al. 2020; ZeRO's first stage, Rajbhandari et al. 2020):
/// each rank updates its shards, with the bits of an update of whole parameters. `publish` gathers the other
/// ranks' shards if each rank has all values. Every rank updates parameters that are in no row.
class ParameterStore final : public TrainedParameters {
 public:
  /// `parameters`: of the placed model, all that may be trained at any time. They, or the rows that have
  /// them, have the values that training starts from. `group`: ranks that divide the update, and all pass
  /// equal arguments; null: every rank updates all parameters. `rows`: rows of `parameters`. The exchange and
  /// the group must outlive this object.
  ParameterStore(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                 GradientExchange& exchange, Communicator* group = nullptr, std::vector<PlacedRow> rows = {});

  std::span<const Piece> pieces() const override { return pieces_; }
  GradientExchange& exchange() override { return exchange_; }
  void synchronize() override;
  std::span<const at::Tensor> gradients() const override { return gradients_; }
  std::span<const at::Tensor> held_gradients() const override { return held_; }
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor& found) override;
  void begin_update() override;
  void publish() override;
  void publish_step() override;
  /// Returns whether the ranks of the group have one copy of the values of every row.
  bool one_copy() const { return one_copy_ != nullptr; }

 private:
  struct Parameter {
    NamedTensor named;
    const GradientShard* shard;             ///< null: the exchange leaves the whole gradient
    bool has_master;                        ///< on the ranks that update the parameter
    bool divided = false;                   ///< is in a row
    std::optional<std::size_t> piece = {};  ///< absent: other ranks update the parameter
  };
  struct Update {
    std::size_t parameter;     ///< of the piece
    at::Tensor gradient = {};  ///< of the piece's master; undefined if there is none
  };
  /// 16-bit values and their masters, of one dtype and device: ATen copies a list at once if all its tensors
  /// are alike.
  struct Masters {
    std::vector<at::Tensor> rounded, precise;
  };

  void add_piece(std::size_t parameter, Piece in_model);
  /// Replaces the values of a piece by a master.
  void add_master(Piece& piece, bool trained);
  /// The gradient of a piece as the exchange leaves it; undefined if there is none.
  at::Tensor gradient_of(std::size_t piece) const;
  static at::Tensor in_float32(Update& update, const at::Tensor& gradient, const at::Tensor& master);
  static bool has_gradient(const Parameter& parameter);
  /// Returns whether a step may have changed the row: also a row of frozen parameters with masters, which
  /// take the place of what a hook has written. Equal on all ranks.
  bool may_have_changed(const PlacedRow& row) const;
  void begin_publish();
  /// Gathers the row, unless the ranks of the group have one copy of the row.
  void gather(const PlacedRow& row);
  void end_publish();
  /// The norms of the chunks of all rows of one dtype and device, and from them the norms of parameters.
  void row_norms(std::span<const PlacedRow* const> rows, double order, std::vector<at::Tensor>& norms);

  std::vector<Parameter> parameters_;
  GradientExchange& exchange_;
  Communicator* const group_;  ///< null: every rank updates every parameter
  std::vector<PlacedRow> rows_;
  NodeArena* one_copy_ = nullptr;  ///< the rows'; null: each rank has memory of its own
  std::vector<Piece> pieces_;
  std::vector<Update> updates_;        ///< for each piece
  std::vector<at::Tensor> gradients_;  ///< for each piece
  std::vector<at::Tensor> held_;       ///< for each parameter
  std::vector<Masters> masters_;
  bool updating_ = false;  ///< since `begin_update`
};

}  // namespace cxtrain
