#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/cluster/world.h"

namespace cxtrain::test {

/// Another world, with a count of the sums and gathers over all ranks.
class CountingWorld final : public World {
 public:
  explicit CountingWorld(World& world) : World(world.facts()), world_(world) {}

  int sums = 0, gathers = 0;

  void sum(std::span<double> values) override {
    ++sums;
    world_.sum(values);
  }
  std::vector<std::string> all_gather(std::string_view text) override {
    ++gathers;
    return world_.all_gather(text);
  }
  void barrier() override { world_.barrier(); }
  std::int64_t max(std::int64_t value) override { return world_.max(value); }
  std::uint64_t any(std::uint64_t flags) override { return world_.any(flags); }
  void begin_any(std::uint64_t flags) override { world_.begin_any(flags); }
  std::uint64_t end_any() override { return world_.end_any(); }
  std::vector<std::string> gather_root(std::string_view text) override { return world_.gather_root(text); }
  std::vector<std::string> gather_node(std::string_view text) override { return world_.gather_node(text); }
  std::string broadcast(std::string text, int root) override {
    return world_.broadcast(std::move(text), root);
  }
  void set_timeout(double seconds, std::function<std::string()> where) override {
    world_.set_timeout(seconds, std::move(where));
  }
  void abort(int status) noexcept override { world_.abort(status); }
  Watchdog& watchdog() override { return world_.watchdog(); }

 private:
  World& world_;
};

}  // namespace cxtrain::test
