#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cxtrain/config/field.h"
#include "cxtrain/reduce/comm_hook.h"

namespace cxtrain {

/// `powersgd`. Averages gradients over ranks by matrices of low rank (PowerSGD, Vogels et al. 2019,
/// algorithms 1 and 2).
///
/// A gradient of two or more dimensions is a matrix [n, m]: its first dimension, and all others. Each rank
/// adds its error of the step before. The ranks average P = M Q [n, r], make P's columns orthogonal, and
/// average Q = M^T P [m, r]. The gradient becomes P Q^T, and what it lacks of M is the rank's new error. The
/// next step begins with this Q. So a step sends (n + m) r elements in place of n m.
///
/// Gradients with one dimension, and matrices for which P and Q have more than half of their elements, are
/// averaged as they are. A step takes two all-reduces.
class PowerSgd final : public AveragingHook {
 public:
  struct Args {
    /// The defaults are those of torch's PowerSGDState.
    std::int64_t rank = 1, start = 1000;

    void fields(auto&& field) {
      field("rank", rank, "rank of powersgd's matrices", Range::between(1, 1024));
      field("start", start, "steps with exact gradients before powersgd begins", Range::at_least(0));
    }
  };
  /// Each rank remembers its error of each gradient. An error has a meaning without a loss scale only.
  static CommHookTraits traits();

  PowerSgd(const Args& args, const CommHookContext& context) : args_(args), seed_(context.seed) {}

  std::int64_t start() const override { return args_.start; }
  void prepare(const std::vector<NamedTensor>& parameters, Communicator& communicator) override;
  /// If no rank has any gradient, errors and Q stay.
  void average() override;

  std::string state_key() const override { return "power_sgd"; }
  /// Q is the same on all ranks. The errors are each rank's own (`kMeanOfRanks`).
  void save(StateDict& state) const override;
  /// A matrix of another rank begins with a new Q.
  void load(const StateDict& state) override;

 private:
  /// What a rank remembers of a matrix, also while its parameter is frozen.
  struct Remembered {
    at::Tensor error, q;  ///< [n, m], [m, r]
  };
  struct Matrix {
    std::size_t parameter;
    at::Tensor error, q;  ///< as remembered
    at::Tensor first_q;   ///< [m, r]: Q before the first step
    at::Tensor p, new_q;  ///< [n, r] in `first_message_`, [m, r] in `second_message_`
  };
  struct Vector {
    std::size_t parameter;
    at::Tensor place;  ///< in `first_message_`
  };
  void lay_out();
  bool add_missing_gradients();
  void take_approximation(Matrix& matrix);
  at::Tensor& gradient_of(std::size_t parameter) { return parameters_[parameter].tensor.mutable_grad(); }
  at::Tensor first_q(const std::string& name, std::int64_t columns, std::int64_t rank,
                     at::Device device) const;

  const Args args_;
  const std::uint64_t seed_;  ///< of the first Q
  std::vector<NamedTensor> parameters_;
  Communicator* communicator_ = nullptr;
  std::vector<bool> trained_;  ///< for which the messages have been laid out
  at::ScalarType dtype_ = at::kFloat;
  std::vector<Matrix> matrices_;
  std::vector<Vector> vectors_;
  std::map<std::string, Remembered> remembered_;  ///< by parameter
  at::Tensor first_message_, second_message_;
  at::Tensor has_gradients_;  ///< [1] in `first_message_`: the part of the ranks that have any gradient
};

/// Makes the columns of a matrix orthogonal, and each as long as 1 (Gram-Schmidt), in place. A column without
/// a part of its own becomes nearly zero.
void make_orthogonal(const at::Tensor& matrix);

}  // namespace cxtrain
