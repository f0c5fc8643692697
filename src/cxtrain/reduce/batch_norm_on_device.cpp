#include "cxtrain/reduce/batch_norm_parts.h"

#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/batch_norm_gather_stats_with_counts.h>
#include <ATen/ops/batch_norm_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/reduce/saved_communicator.h"

namespace cxtrain {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// How many values a rank says that it has where it has none. The kernel that joins the ranks divides by what
/// it has counted so far, which would be 0 where the first rank has nothing; this is so little that it
/// changes no sum. To leave such ranks out the host would have to know of them.
constexpr double kNoValues = 1e-30;

/// The kernels go through the input and its gradient as they lie in memory.
at::Tensor densely(const at::Tensor& tensor, const at::Tensor& like) {
  return tensor.contiguous(like.suggest_memory_format());
}

/// [ranks, 2C + 1]: of each rank mean, 1 / standard deviation, number of values.
at::Tensor gather_rows(const at::Tensor& input, double eps, Communicator& communicator) {
  const std::int64_t channels = input.size(1);
  const at::TensorOptions options = input.options().dtype(accumulation_dtype(input)).requires_grad(false);
  at::Tensor ranks = at::empty({communicator.size(), 2 * channels + 1}, options);
  at::Tensor own = ranks.select(0, communicator.rank());
  if (input.numel() > 0) {
    const auto [mean, inverse] = at::batch_norm_stats(input, eps);
    const std::int64_t values = input.numel() / channels;
    at::cat_out(own, {mean, inverse, at::full({1}, static_cast<double>(values), options)});
  } else {
    own.narrow(0, 0, channels).zero_();
    own.narrow(0, channels, channels).fill_(1);
    own.narrow(0, 2 * channels, 1).fill_(kNoValues);
  }
  communicator.all_gather(ranks, own);
  communicator.join();
  return ranks;
}

/// Where `moved` is a copy in another dtype.
void give_back(const at::Tensor& moved, const std::optional<at::Tensor>& running) {
  if (has_value(running) && !moved.is_same(*running)) running->copy_(moved);
}

/// A rank's own sums over its samples; [C] each.
struct GradientSums {
  at::Tensor of_gradient, of_product;  ///< of gradients, and of gradients times deviations from the mean
  at::Tensor of_weight, of_bias;       ///< the weights' gradients
};

GradientSums sum_gradients(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                           const at::Tensor& inverse, const at::Tensor& weight) {
  if (input.numel() == 0) {
    const at::Tensor none = at::zeros({4, input.size(1)}, mean.options());
    return {none[0], none[1], none[2], none[3]};
  }
  auto [of_gradient, of_product, of_weight, of_bias] =
      at::batch_norm_backward_reduce(gradient, input, mean, inverse, weight, /*input_g=*/true,
                                     /*weight_g=*/weight.defined(), /*bias_g=*/weight.defined());
  if (!weight.defined()) of_bias = of_gradient;
  return {of_gradient, of_product, of_weight, of_bias};
}

struct DeviceBatchNorm : torch::autograd::Function<DeviceBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given,
                            const std::optional<at::Tensor>& given_weight,
                            const std::optional<at::Tensor>& bias,
                            const std::optional<at::Tensor>& running_mean,
                            const std::optional<at::Tensor>& running_var, double momentum, double eps,
                            Communicator* communicator) {
    const at::ScalarType dtype = accumulation_dtype(given);
    const at::Tensor input = densely(given, given);
    at::Tensor weight = in_dtype(given_weight, dtype);
    if (weight.defined()) weight = weight.contiguous();
    const at::Tensor ranks = gather_rows(input, eps, *communicator);

    // The running statistics' dtype would be that in which values are counted, where 16 bits do not do.
    const std::int64_t channels = input.size(1);
    const at::Tensor counts = ranks.select(1, 2 * channels);
    const at::Tensor moved_mean = in_dtype(running_mean, dtype), moved_var = in_dtype(running_var, dtype);
    const auto [mean, inverse] = at::batch_norm_gather_stats_with_counts(
        ranks, ranks.narrow(1, 0, channels), ranks.narrow(1, channels, channels), moved_mean, moved_var,
        momentum, eps, counts);
    give_back(moved_mean, running_mean);
    give_back(moved_var, running_var);

    context->save_for_backward({input, weight, mean, inverse, counts.to(at::kInt)});
    context->saved_data["has_bias"] = has_value(bias);
    save(*context, communicator);
    if (input.numel() == 0) return at::empty_like(input);
    return at::batch_norm_elemt(input, weight, in_dtype(bias, dtype), mean, inverse, eps);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const at::Tensor gradient = densely(gradients[0], input);
    const GradientSums own = sum_gradients(gradient, input, mean, inverse, weight);

    variable_list result(8);
    if (weight.defined()) result[1] = own.of_weight;
    if (context->saved_data["has_bias"].toBool()) result[2] = own.of_bias;
    if (!context->needs_input_grad(0)) return result;  // alike on all ranks, which have the same model
    Communicator& communicator = saved_communicator(*context);
    const at::Tensor sums = at::stack({own.of_gradient, own.of_product});
    communicator.all_reduce(sums, ReduceOp::sum);
    communicator.join();
    result[0] = input.numel() == 0
                    ? at::empty_like(input)
                    : at::batch_norm_backward_elemt(gradient, input, mean, inverse, weight, sums.select(0, 0),
                                                    sums.select(0, 1), saved[4]);
    return result;
  }
};

}  // namespace

at::Tensor batch_norm_on_device(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                const std::optional<at::Tensor>& bias,
                                const std::optional<at::Tensor>& running_mean,
                                const std::optional<at::Tensor>& running_var, double momentum, double eps,
                                Communicator& communicator) {
  return DeviceBatchNorm::apply(input, weight, bias, running_mean, running_var, momentum, eps, &communicator);
}

}  // namespace cxtrain
