#pragma once

#include "cxtrain/comm/node_barrier.h"
#include "cxtrain/comm/node_replicas.h"
#include "cxtrain/comm/shared_window.h"

namespace cxtrain {

/// The copies are the segments of a window.
class WindowReplicas final : public NodeReplicas {
 public:
  /// `barrier`: of the ranks that share the window; it outlives this.
  WindowReplicas(SharedWindow window, NodeBarrier& barrier) : window_(std::move(window)), barrier_(barrier) {}

  int rank() const override { return window_.rank(); }
  int size() const override { return static_cast<int>(window_.segments().size()); }
  std::shared_ptr<SharedMemory> mine() const override { return window_.memory(); }
  void all_gather(std::span<const std::size_t> ends) override;

 private:
  SharedWindow window_;
  NodeBarrier& barrier_;
};

}  // namespace cxtrain
