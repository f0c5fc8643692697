#include "cxtrain/trainer/generators.h"

#include <ATen/Context.h>

#include <mutex>
#include <string>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

at::Generator generator_of(at::Device device) { return at::globalContext().defaultGenerator(device); }

void seed_one(at::Generator generator, std::uint64_t seed) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

/// By its number among the rank's devices: the rank may have another GPU when the state is loaded.
std::string name_of(std::size_t device) { return device == 0 ? "cpu" : "gpu" + std::to_string(device - 1); }

}  // namespace

at::Tensor generator_state(at::Device device) {
  at::Generator generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(at::Device device, const at::Tensor& state) {
  at::Generator generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

std::vector<std::uint64_t> device_seeds(std::uint64_t seed, int rank, int world_size, std::size_t devices) {
  std::vector<std::uint64_t> seeds;
  for (std::size_t i = 0; i < devices; ++i)
    seeds.push_back(seed + static_cast<std::uint64_t>(rank) + i * static_cast<std::uint64_t>(world_size));
  return seeds;
}

Generators::Generators(std::span<const at::Device> devices) : devices_{at::kCPU} {
  for (const at::Device device : devices) {
    if (!device.is_cpu()) devices_.push_back(device);
  }
}

void Generators::seed_apart(std::uint64_t seed, int rank, int world_size) const {
  // The processor's generator is of another kind: what it draws from the seed of the first GPU is not the
  // same.
  const std::vector<std::uint64_t> seeds = device_seeds(seed, rank, world_size, devices_.size());
  seed_one(generator_of(devices_[0]), seeds[0]);
  for (std::size_t gpu = 1; gpu < devices_.size(); ++gpu)
    seed_one(generator_of(devices_[gpu]), seeds[gpu - 1]);
}

void Generators::save(StateDict& state) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) state.set(name_of(i), generator_state(devices_[i]));
}

StateDict Generators::new_beginning(std::uint64_t seed, std::int64_t global_step, int rank, int world_size) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio: spreads the steps
  StateDict state;
  state.set("seed", seed ^ (kOdd * static_cast<std::uint64_t>(global_step + 1)));
  state.set("rank", rank);
  state.set("world_size", world_size);
  return state;
}

void Generators::load(const StateDict& state) {
  if (state.has("seed")) {
    return seed_apart(static_cast<std::uint64_t>(state.integer("seed")),
                      static_cast<int>(state.integer("rank")), static_cast<int>(state.integer("world_size")));
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const at::Tensor saved = state.tensor(name_of(i));
    const at::Tensor present = generator_state(devices_[i]);
    if (saved.scalar_type() != present.scalar_type() || saved.sizes() != present.sizes())
      throw StateError("the saved state is damaged: the generator " + name_of(i) +
                       " is not a state of a generator");
    set_generator_state(devices_[i], saved);
  }
}

at::Generator make_generator(at::Device device, std::uint64_t seed) {
  at::Generator generator = generator_of(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

void seed_everything(std::uint64_t seed) { seed_one(generator_of(at::kCPU), seed); }

}  // namespace cxtrain
