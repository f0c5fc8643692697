#include "cxtrain/reduce/batch_norm_parts.h"

#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "cxtrain/reduce/saved_communicator.h"

namespace cxtrain {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// [C], to be combined with [N, C, ...].
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

/// Over all ranks; float64.
struct Statistics {
  at::Tensor mean, deviations;  ///< [C]: mean, and sum of squared deviations from it
  at::Tensor count;             ///< []: values per channel
};

Statistics gather_statistics(const at::Tensor& input, Communicator& communicator) {
  const std::int64_t channels = input.size(1);
  const std::int64_t count = channels == 0 ? 0 : input.numel() / channels;
  const at::TensorOptions options = input.options().dtype(at::kDouble).requires_grad(false);
  at::Tensor ranks = at::zeros({communicator.size(), 2 * channels + 1}, options);
  if (count > 0) {
    // LibTorch's own pass over the samples, vectorised; var_mean takes several times as long. With running
    // statistics of float32, which it may write, it answers in float32 for 16-bit inputs, too.
    const at::TensorOptions precise = input.options().dtype(accumulation_dtype(input)).requires_grad(false);
    const auto [mean, variance] = at::batch_norm_update_stats(input, at::zeros({channels}, precise),
                                                              at::ones({channels}, precise), /*momentum=*/0);
    const auto values = static_cast<double>(count);
    const at::Tensor own = ranks.select(0, communicator.rank());
    own.narrow(0, 0, channels).copy_(mean);
    own.narrow(0, channels, channels).copy_(variance).mul_(values);
    own.narrow(0, 2 * channels, 1).fill_(values);
  }
  communicator.all_reduce(ranks, ReduceOp::sum);

  const at::Tensor counts = ranks.narrow(1, 2 * channels, 1), means = ranks.narrow(1, 0, channels);
  const at::Tensor total = counts.sum();
  const at::Tensor mean = counts.mul(means).sum(0).div(total);
  const at::Tensor between = means.sub(mean).square().mul(counts).sum(0);
  return {mean, ranks.narrow(1, channels, channels).sum(0).add(between), total};
}

void move_running(const std::optional<at::Tensor>& running, const at::Tensor& value, double momentum) {
  if (has_value(running)) running->mul_(1 - momentum).add_(value.to(running->scalar_type()), momentum);
}

struct HostBatchNorm : torch::autograd::Function<HostBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                            const std::optional<at::Tensor>& running_mean,
                            const std::optional<at::Tensor>& running_var, double momentum, double eps,
                            Communicator* communicator) {
    const at::ScalarType dtype = accumulation_dtype(input);
    const Statistics all = gather_statistics(input, *communicator);
    move_running(running_mean, all.mean, momentum);
    move_running(running_var, all.deviations.div(all.count.sub(1)), momentum);

    const at::Tensor mean = all.mean.to(dtype), variance = all.deviations.div(all.count);
    const at::Tensor scale = at::rsqrt(variance.add(eps)).to(dtype);
    context->save_for_backward({input, in_dtype(weight, dtype), mean, scale, all.count});
    context->saved_data["has_bias"] = has_value(bias);
    save(*context, communicator);
    // As in evaluation: normalised by statistics that are given.
    return std::get<0>(at::native_batch_norm(input, in_dtype(weight, dtype), in_dtype(bias, dtype), mean,
                                             variance.to(dtype), /*training=*/false, /*momentum=*/0.0, eps));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3];
    const at::ScalarType dtype = accumulation_dtype(input);
    const at::Tensor gradient = gradients[0].contiguous(input.suggest_memory_format());
    // Sums over this rank's samples, by LibTorch's kernel; from the statistics of all ranks, which it is
    // given.
    const auto [unused, of_weight, of_bias] = at::native_batch_norm_backward(
        gradient, input, weight, /*running_mean=*/{}, /*running_var=*/{}, mean, scale, /*train=*/true,
        /*eps=*/0, {false, true, true});

    variable_list result(8);
    if (weight.defined()) result[1] = of_weight;
    if (context->saved_data["has_bias"].toBool()) result[2] = of_bias;
    if (!context->needs_input_grad(0)) return result;  // alike on all ranks, which have the same model
    Communicator& communicator = saved_communicator(*context);
    const at::Tensor sums = at::stack({of_bias, of_weight}).to(at::kDouble);
    communicator.all_reduce(sums, ReduceOp::sum);
    const at::Tensor means = sums.div_(saved[4]).to(dtype);

    // factor * (gradient - means[0] - normal * means[1]), where normal = (input - mean) * scale, is linear in
    // input and gradient: one pass for each. The first is a batch norm by given statistics.
    const at::Tensor factor = weight.defined() ? scale.mul(weight) : scale;
    const at::Tensor slope = factor.mul(scale).mul_(means[1]).neg_();
    const at::Tensor offset = slope.mul(mean).add_(factor.mul(means[0])).neg_();
    const at::Tensor none = at::zeros_like(mean), one = at::ones_like(mean);
    result[0] = std::get<0>(at::native_batch_norm(input.to(dtype), slope, offset, none, one,
                                                  /*training=*/false, /*momentum=*/0.0, /*eps=*/0.0))
                    .addcmul_(gradient.to(dtype), per_channel(factor, input))
                    .to(input.scalar_type());
    return result;
  }
};

}  // namespace

at::Tensor batch_norm_on_host(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                              const std::optional<at::Tensor>& bias,
                              const std::optional<at::Tensor>& running_mean,
                              const std::optional<at::Tensor>& running_var, double momentum, double eps,
                              Communicator& communicator) {
  return HostBatchNorm::apply(input, weight, bias, running_mean, running_var, momentum, eps, &communicator);
}

}  // namespace cxtrain
