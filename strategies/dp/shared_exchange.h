#pragma once

#include <vector>

#include "replica_exchange.h"

namespace cxtrain {

/// Replicas on one device: their parameters are leaves of their own over the primary's memory, so that an
/// optimizer step reaches all of them and nothing is sent. On the CPU the replicas' threads sum the
/// gradients, each its share of the elements, in one pass over all replicas (16-bit floats accumulate in
/// float32).
class SharedExchange final : public ReplicaExchange {
 public:
  SharedExchange(std::vector<Replica>& replicas, ReplicaThreads& threads);

  std::string description() const override;
  void send_parameters() override {}
  void send_buffers(std::size_t count) override;
  void sum_gradients() override;

 private:
  /// One parameter's gradients: summed into the first.
  struct Sum {
    std::vector<at::Tensor> gradients;
    std::vector<const std::byte*> memory;
    std::size_t begin;  ///< of its elements among those of all sums
  };

  /// Hands the gradients over to `sums_`, or adds them up at once where they are not plain host memory.
  void collect();
  /// The elements [begin, end) of all sums.
  void add_up(std::size_t begin, std::size_t end) const;

  std::vector<Replica>& replicas_;
  ReplicaThreads& threads_;
  std::vector<Sum> sums_;  // reused
  std::size_t elements_ = 0;
};

}  // namespace cxtrain
