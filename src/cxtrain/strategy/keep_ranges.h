#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/strategy/trainable.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// What a rank keeps of the parameters of a model: elements of each, by name. A parameter without an entry
/// stays whole; an empty range keeps nothing.
struct KeptRanges {
  std::map<std::string, ElementRange> of = {};
};

/// While it lives, models in blocks (`BlockModule`) are built block by block on this thread:
/// a block that has been added keeps the ranges of its parameters, and frees the memory of all other
/// elements: the parameter is hollow until a strategy places the model. So a rank never has more than its own
/// part and one block. The code of the model must not read or write parameters of blocks that it has added.
class KeepRanges {
 public:
  /// `finish`: gives the parameters of a block their first values for good. It gets the block, and its
  /// name in the model with a dot behind it.
  using Finish = std::function<void(torch::nn::Module& block, const std::string& prefix)>;
  KeepRanges(KeptRanges ranges, Finish finish);
  ~KeepRanges();
  KeepRanges(const KeepRanges&) = delete;
  KeepRanges& operator=(const KeepRanges&) = delete;

  /// Returns the one that lives on this thread; null: there is none.
  static KeepRanges* current();

  /// Returns what is kept of a block's parameters. `name`: of the block in the model. Parameters that an
  /// earlier block has shared with this one have been kept there.
  std::vector<Piece> keep(torch::nn::Module& block, const std::string& name);

  /// Returns whether the code of a model that is built has left alone the parameters of blocks that it had
  /// added. If not, other parameters have NaN, or a hollow parameter has another value.
  bool left_alone(const torch::nn::Module& model) const;

 private:
  const KeptRanges ranges_;
  const Finish finish_;
  bool found_nan_ = false;  ///< in a parameter that became hollow
};

/// Makes a parameter hollow, and returns a copy of a range of its elements. Does nothing, and returns
/// nothing, if the range is the whole parameter, or the parameter cannot be hollow.
std::optional<Piece> keep_part(const std::string& name, const at::Tensor& parameter, ElementRange range);

/// Returns what this rank has of the model's parameters and buffers: all elements, or what the rank keeps of
/// a hollow parameter. The pieces share the memory.
std::vector<Piece> pieces_here(Trainable& model);

}  // namespace cxtrain
