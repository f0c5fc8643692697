#pragma once

#include <ATen/core/Tensor.h>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/report/model_summary.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/tensor/piece.h"
#include "cxtrain/trainer/module.h"

/// What a model shows of itself: whether it is finite, the norms of its gradients, its layers.
namespace cxtrain {

/// Throws ConfigError where a parameter that is trained is complex: neither optimizers nor the sums over
/// ranks know what such a number's gradient is.
void require_real_parameters(const Module& module);
/// Throws TrainingError when the loss is NaN or infinite; an undefined one is fine.
void require_finite_loss(const at::Tensor& loss);
/// Throws TrainingError, on all ranks that share the work, where a parameter holds a NaN or an infinity; the
/// rank that has it names it. Called on every rank.
void require_finite_parameters(TrainedParameters& trained);

/// `track_grad_norm`: the norm of order `p` (infinity: the largest absolute value) of each parameter's
/// gradient, from `norms` in the order of the parameters, and of all of them together, under Lightning's
/// names: grad_2.0_norm_NAME and grad_2.0_norm_total. Parameters without a gradient are left out. Each norm
/// is one number, on the device.
std::vector<std::pair<std::string, at::Tensor>> named_norms(const std::vector<NamedTensor>& parameters,
                                                            const std::vector<at::Tensor>& norms, double p);

/// The direct children of the module for its summary (Lightning's max_depth = 1), and its own parameters as a
/// row.
std::vector<LayerRow> layer_rows(const Module& module);

}  // namespace cxtrain
