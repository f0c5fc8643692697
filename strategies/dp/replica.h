#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// One of the models that a process keeps; the first is the primary, which the optimizer and everybody else
/// knows.
struct Replica {
  Trainable* model;
  at::Device device;
  std::vector<NamedTensor> parameters, buffers;  ///< in the order of the model's registration
  std::vector<Metric*> metrics;                  ///< likewise
};

/// Places the models on their devices, gives the replicas the primary's `requires_grad` flags,
/// and returns them. `models`: the primary first, as many as `devices`. Throws ConfigError where a replica
/// differs from the primary (naming the first tensor that does), shares a tensor with it or with another
/// replica, or where a model keeps parameters elsewhere than on its device.
std::vector<Replica> place_replicas(const std::vector<Trainable*>& models,
                                    const std::vector<at::Device>& devices, const PrecisionPolicy& precision);

/// After a backward pass of `replicas`, each on samples of its own: throws TrainingError where one got no
/// gradient at all though the primary did, because its step works on another replica's tensors, and warns of
/// parameters that got one on the primary only.
void require_own_gradients(std::span<const Replica> replicas);

}  // namespace cxtrain
