#include "replica_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/comm/reduce_kernels.h"
#include "cxtrain/tensor/layout.h"
#include "flat_messages.h"

namespace cxtrain {
namespace {

/// Replicas on a device each: parameters and buffers are sent from the primary's device, gradients summed on
/// it, in few messages (`FlatMessages`), on each device's current stream, where the work before and after it
/// is as well.
class PeerExchange final : public ReplicaExchange {
 public:
  PeerExchange(std::vector<Replica>& replicas, std::unique_ptr<PeerCommunicator> peers)
      : replicas_(replicas), peers_(std::move(peers)) {}

  std::string description() const override {
    return std::to_string(replicas_.size()) + " replicas in one process, " + peers_->description() +
           " between their devices";
  }

  /// Frozen parameters travel the first time, and where the primary has written to them since.
  void send_parameters() override {
    const std::vector<NamedTensor>& primary = replicas_.front().parameters;
    const bool first = sent_versions_.empty();
    sent_versions_.resize(primary.size());
    std::vector<std::vector<at::Tensor>> tensors(replicas_.size());
    for (std::size_t i = 0; i < primary.size(); ++i) {
      const std::int64_t version = primary[i].tensor._version();
      const bool written = std::exchange(sent_versions_[i], version) != version;
      if (!first && !written && !primary[i].tensor.requires_grad()) continue;
      for (std::size_t r = 0; r < replicas_.size(); ++r)
        tensors[r].push_back(replicas_[r].parameters[i].tensor);
    }
    parameters_.broadcast(tensors);
  }

  void send_buffers(std::size_t) override {
    buffers_.broadcast(transformed(replicas_, [](const Replica& replica) {
      return transformed(replica.buffers, &NamedTensor::tensor);
    }));
  }

  void sum_gradients() override {
    const at::NoGradGuard no_grad;
    std::vector<std::vector<at::Tensor>> gradients(replicas_.size());
    for (std::size_t i = 0; i < replicas_[0].parameters.size(); ++i) {
      const auto has_gradient = [i](const Replica& r) { return r.parameters[i].tensor.grad().defined(); };
      if (std::ranges::none_of(replicas_, has_gradient)) continue;
      for (std::size_t r = 0; r < replicas_.size(); ++r) {
        at::Tensor& parameter = replicas_[r].parameters[i].tensor;
        if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
        gradients[r].push_back(laid_out_like(parameter, parameter.grad()));
      }
      replicas_[0].parameters[i].tensor.mutable_grad() = gradients[0].back();
    }
    gradients_.reduce(gradients);
    for (std::size_t r = 1; r < replicas_.size(); ++r) {
      for (NamedTensor& parameter : replicas_[r].parameters) parameter.tensor.mutable_grad().reset();
    }
  }

 private:
  std::vector<Replica>& replicas_;
  std::unique_ptr<PeerCommunicator> peers_;
  FlatMessages parameters_{*peers_}, buffers_{*peers_}, gradients_{*peers_};
  std::vector<std::int64_t> sent_versions_;  ///< of the primary's parameters; empty: nothing was sent
};

/// Fewer elements than this are summed faster than threads are woken.
constexpr std::size_t kWorthThreads = 1 << 15;

bool is_plain_memory(const std::vector<at::Tensor>& gradients) {
  const at::Tensor& first = gradients.front();
  return std::ranges::all_of(gradients, [&](const at::Tensor& gradient) {
    return gradient.layout() == at::kStrided && gradient.is_cpu() &&
           gradient.is_non_overlapping_and_dense() && gradient.strides() == first.strides() &&
           gradient.scalar_type() == first.scalar_type() && has_reduce_kernel(first.scalar_type());
  });
}

/// Replicas on one device: their parameters are leaves of their own over the primary's memory, so that an
/// optimizer step reaches all of them and nothing is sent. On the CPU the replicas' threads sum the
/// gradients, each its share of the elements, in one pass over all replicas (16-bit floats accumulate in
/// float32).
class SharedExchange final : public ReplicaExchange {
 public:
  SharedExchange(std::vector<Replica>& replicas, ReplicaThreads& threads)
      : replicas_(replicas), threads_(threads) {
    for (std::size_t r = 1; r < replicas.size(); ++r) {
      for (std::size_t i = 0; i < replicas[r].parameters.size(); ++i) {
        replicas[r].parameters[i].tensor.set_data(replicas[0].parameters[i].tensor.detach());
      }
    }
  }

  std::string description() const override {
    return std::to_string(replicas_.size()) + " replicas over one copy of the parameters on " +
           replicas_[0].device.str();
  }

  void send_parameters() override {}

  void send_buffers(std::size_t count) override {
    if (replicas_[0].buffers.empty() || count < 2) return;
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> to, from;
    for (std::size_t r = 1; r < count; ++r) {
      for (std::size_t i = 0; i < replicas_[r].buffers.size(); ++i) {
        to.push_back(replicas_[r].buffers[i].tensor);
        from.push_back(replicas_[0].buffers[i].tensor);
      }
    }
    at::_foreach_copy_(to, from);
  }

  void sum_gradients() override {
    const at::NoGradGuard no_grad;
    collect();
    if (elements_ < kWorthThreads) {
      add_up(0, elements_);
    } else {
      const std::size_t threads = threads_.size();
      threads_.run(threads,
                   [&](std::size_t i) { add_up(elements_ * i / threads, elements_ * (i + 1) / threads); });
    }
    sums_.clear();  // and with it the replicas' gradients
  }

 private:
  /// One parameter's gradients: summed into the first.
  struct Sum {
    std::vector<at::Tensor> gradients;
    std::vector<const std::byte*> memory;
    std::size_t begin;  ///< of its elements among those of all sums
  };

  /// Hands the gradients over to `sums_`, or adds them up at once where they are not plain host memory.
  void collect() {
    sums_.clear();
    elements_ = 0;
    for (std::size_t i = 0; i < replicas_[0].parameters.size(); ++i) {
      std::vector<at::Tensor> gradients;
      for (Replica& replica : replicas_) {
        at::Tensor& gradient = replica.parameters[i].tensor.mutable_grad();
        if (gradient.defined()) gradients.push_back(std::exchange(gradient, {}));
      }
      if (gradients.empty()) continue;
      replicas_[0].parameters[i].tensor.mutable_grad() = gradients.front();
      if (gradients.size() == 1) continue;
      if (!is_plain_memory(gradients)) {
        for (std::size_t r = 1; r < gradients.size(); ++r) gradients.front().add_(gradients[r]);
        continue;
      }
      Sum& sum = sums_.emplace_back();
      for (const at::Tensor& gradient : gradients) {
        sum.memory.push_back(static_cast<const std::byte*>(gradient.const_data_ptr()));
      }
      sum.begin = elements_;
      elements_ += static_cast<std::size_t>(gradients.front().numel());
      sum.gradients = std::move(gradients);
    }
  }

  /// The elements [begin, end) of all sums.
  void add_up(std::size_t begin, std::size_t end) const {
    std::vector<const std::byte*> sources;
    for (const Sum& sum : sums_) {
      const auto count = static_cast<std::size_t>(sum.gradients[0].numel());
      const std::size_t from = std::max(begin, sum.begin), to = std::min(end, sum.begin + count);
      if (from >= to) continue;
      const std::size_t offset = (from - sum.begin) * sum.gradients[0].element_size();
      sources.clear();
      for (const std::byte* memory : sum.memory) sources.push_back(memory + offset);
      const std::array target{static_cast<std::byte*>(sum.gradients[0].mutable_data_ptr()) + offset};
      reduce_elements(sum.gradients[0].scalar_type(), ReduceOp::sum, sources, target, to - from, 1);
    }
  }

  std::vector<Replica>& replicas_;
  ReplicaThreads& threads_;
  std::vector<Sum> sums_;  // reused
  std::size_t elements_ = 0;
};

}  // namespace

std::unique_ptr<ReplicaExchange> make_replica_exchange(std::vector<Replica>& replicas,
                                                       ReplicaThreads& threads,
                                                       const StrategyContext& context) {
  const at::Device first = replicas[0].device;
  if (std::ranges::all_of(replicas, [&](const Replica& r) { return r.device == first; })) {
    return std::make_unique<SharedExchange>(replicas, threads);
  }
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    for (std::size_t other = 0; other < r; ++other) {
      if (replicas[r].device != replicas[other].device) continue;
      throw ConfigError("trainer.devices",
                        "replicas " + std::to_string(other) + " and " + std::to_string(r) +
                            " of dp are both on " + replicas[r].device.str() +
                            ", which cannot talk to itself",
                        "name each GPU once", MessageCode::conflicting_options);
    }
  }
  return std::make_unique<PeerExchange>(
      replicas, context.accelerator->connect_peers(context.world, transformed(replicas, &Replica::device)));
}

}  // namespace cxtrain
