#include "replica.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/transformed.h"

namespace cxtrain {
namespace {

constexpr const char* kFactory = "trainer.set_replica_factory";

void require_same(const std::vector<NamedTensor>& primary, const std::vector<NamedTensor>& replica,
                  std::size_t index) {
  const auto found =
      first_difference(transformed(primary, describe), transformed(replica, describe), "nothing further");
  if (!found) return;
  throw ConfigError(kFactory,
                    "made another model than the trained one: the trained model has `" + found->first +
                        "`, replica " + std::to_string(index) + " has `" + found->second + "`",
                    "build the replicas from the arguments of the model", MessageCode::bad_model);
}

/// What a replica's steps add to its metrics goes into the primary's.
void require_same_metrics(const std::vector<Metric*>& primary, const std::vector<Metric*>& replica,
                          std::size_t index) {
  const auto same = [](const Metric* a, const Metric* b) { return a->name() == b->name(); };
  if (std::equal(primary.begin(), primary.end(), replica.begin(), replica.end(), same)) return;
  throw ConfigError(kFactory,
                    "made another model than the trained one: replica " + std::to_string(index) +
                        " registers other metrics",
                    "build the replicas from the arguments of the model", MessageCode::bad_model);
}

/// Models that share tensors would train each other's.
void require_own_tensors(const std::vector<Replica>& replicas) {
  std::map<const at::TensorImpl*, std::size_t> owner;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    for (const auto* list : {&replicas[r].parameters, &replicas[r].buffers}) {
      for (const NamedTensor& item : *list) {
        const auto [known, is_new] = owner.try_emplace(item.tensor.unsafeGetTensorImpl(), r);
        if (is_new || known->second == r) continue;
        throw ConfigError(kFactory,
                          "made a model that shares " + item.name + " with " +
                              (known->second == 0 ? std::string("the one that is trained")
                                                  : "replica " + std::to_string(known->second)),
                          "build a new model for each replica: [] { return std::make_unique<MyModel>(); }",
                          MessageCode::bad_model);
      }
    }
  }
}

void require_whole(const Replica& replica) {
  for (const NamedTensor& parameter : replica.parameters) {
    if (parameter.tensor.device() == replica.device) continue;
    throw ConfigError("trainer.strategy",
                      "dp keeps a whole replica on each device, but " + parameter.name + " stays on " +
                          parameter.tensor.device().str() + " instead of " + replica.device.str(),
                      "use --strategy ddp --devices_per_rank n for a model in several parts",
                      MessageCode::bad_model);
  }
}

}  // namespace

std::vector<Replica> place_replicas(const std::vector<Trainable*>& models,
                                    const std::vector<at::Device>& devices,
                                    const PrecisionPolicy& precision) {
  std::vector<Replica> replicas;
  for (std::size_t r = 0; r < models.size(); ++r) {
    replicas.push_back({models[r], devices[r], models[r]->all_parameters(), models[r]->all_buffers(),
                        models[r]->all_metrics()});
    require_same(replicas[0].parameters, replicas[r].parameters, r);
    require_same(replicas[0].buffers, replicas[r].buffers, r);
    require_same_metrics(replicas[0].metrics, replicas[r].metrics, r);
  }
  require_own_tensors(replicas);
  for (const NamedTensor& parameter : replicas[0].parameters) {
    const at::Device before = parameter.tensor.device();
    if (before.is_cpu() || before == devices[0]) continue;
    log_warning("dp's primary is its first device: " + parameter.name + " and what else is on " +
                before.str() + " moves to " + devices[0].str() + " (--gpus names the devices in order)");
    break;
  }
  for (Replica& replica : replicas) {
    replica.model->place({&replica.device, 1}, precision);
    replica.parameters = replica.model->all_parameters();
    replica.buffers = replica.model->all_buffers();
    require_whole(replica);
  }
  const at::NoGradGuard no_grad;
  for (std::size_t r = 1; r < replicas.size(); ++r) {
    for (std::size_t i = 0; i < replicas[r].parameters.size(); ++i) {
      const at::Tensor& primary = replicas[0].parameters[i].tensor;
      replicas[r].parameters[i].tensor.set_requires_grad(primary.requires_grad());
    }
  }
  return replicas;
}

void require_own_gradients(std::span<const Replica> replicas) {
  const auto has_gradient = [](const NamedTensor& parameter) { return parameter.tensor.grad().defined(); };
  for (std::size_t r = 1; r < replicas.size(); ++r) {
    const std::vector<NamedTensor>&primary = replicas[0].parameters, &own = replicas[r].parameters;
    std::string missing;
    for (std::size_t i = 0; i < primary.size(); ++i) {
      if (!has_gradient(primary[i]) || has_gradient(own[i])) continue;
      missing += (missing.empty() ? "" : ", ") + primary[i].name;
    }
    if (missing.empty()) continue;
    if (std::ranges::none_of(own, has_gradient)) {
      throw TrainingError("dp: no gradient reached the parameters of replica " + std::to_string(r) +
                          ", though it computed a loss: its training_step works on another replica's "
                          "tensors; let it use its own members only (no globals, no captured pointer to the "
                          "trained model)");
    }
    log_warning("dp: no gradient reached " + missing + " on replica " + std::to_string(r) +
                ", but on the primary; a step that uses a layer for some samples only counts them as zero, "
                "one that bypasses its replica loses them");
    return;
  }
}

}  // namespace cxtrain
