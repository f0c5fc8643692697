#include "stage_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {

StageParameters::StageParameters(const std::vector<NamedTensor>& all, std::unique_ptr<TrainedParameters> own,
                                 const StageModel& model, Communicator& column, const bool& in_step)
    : own_(std::move(own)), column_(column), in_step_(in_step) {
  for (const NamedTensor& parameter : all) {
    parameters_.push_back({parameter.name, parameter.tensor.scalar_type(), model.is_own(parameter.name),
                           model.is_first_owner(parameter.name)});
    device_ = parameter.tensor.device();
  }
}

/// Each norm has one stage that counts it, so that the sum over the stages is exact.
std::vector<at::Tensor> StageParameters::gradient_norms(double order) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> own = own_->gradient_norms(order);
  const auto count = static_cast<std::int64_t>(parameters_.size());
  // Row 0: whether there is a norm. Row 1: the norm.
  const at::Tensor found = at::zeros({2, count}, at::TensorOptions().dtype(at::kDouble).device(device_));
  std::size_t next = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters_[static_cast<std::size_t>(i)];
    if (!parameter.is_own) continue;
    const at::Tensor& norm = own[next++];
    if (!norm.defined() || !parameter.counts) continue;
    found[0][i] = 1;
    found[1][i] = norm;
  }
  column_.all_reduce(found, ReduceOp::sum);
  column_.join();
  const at::Tensor known = found[0].cpu();
  std::vector<at::Tensor> norms(parameters_.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if (known[i].item<double>() == 0) continue;
    const bool is_double = parameters_[static_cast<std::size_t>(i)].dtype == at::kDouble;
    norms[static_cast<std::size_t>(i)] = found[1][i].to(is_double ? at::kDouble : at::kFloat);
  }
  return norms;
}

void StageParameters::agree_on_overflow(const at::Tensor& found) {
  own_->agree_on_overflow(found);
  column_.all_reduce(found, ReduceOp::max);
  column_.join();
}

void StageParameters::begin_update() {
  if (in_step_)
    throw TrainingError(
        "parameters change in the middle of a step (a callback averages them for a validation), when stages "
        "of a "
        "pipeline are at different micro-batches; make val_check_interval a multiple of "
        "accumulate_grad_batches");
  own_->begin_update();
}

}  // namespace cxtrain
