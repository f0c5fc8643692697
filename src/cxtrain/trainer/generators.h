#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/state/stateful.h"

namespace cxtrain {

/// The seeds of the devices of rank `rank` out of `world_size`: no two devices of a job have the same, as
/// long as no rank has another's number. The first device's is seed + rank.
std::vector<std::uint64_t> device_seeds(std::uint64_t seed, int rank, int world_size, std::size_t devices);

/// The state of the device's default generator.
at::Tensor generator_state(at::Device device);
void set_generator_state(at::Device device, const at::Tensor& state);

/// The random generators that this rank draws from: the processor's, and those of its GPUs.
class Generators final : public Stateful {
 public:
  /// `devices`: this rank's.
  explicit Generators(std::span<const at::Device> devices);

  /// Each rank, and each of its devices, its own numbers: dropout is not to be the same everywhere.
  void seed_apart(std::uint64_t seed, int rank, int world_size) const;

  /// The processor first, then this rank's GPUs.
  const std::vector<at::Device>& devices() const { return devices_; }
  std::string state_key() const override { return "generators"; }
  void save(StateDict& state) const override;
  /// Or begins anew with the seed of `new_beginning`.
  void load(const StateDict& state) override;
  /// What rank `rank` loads where a training goes on on another number of ranks: numbers that no rank has
  /// drawn before.
  static StateDict new_beginning(std::uint64_t seed, std::int64_t global_step, int rank, int world_size);
  bool differs_between_ranks() const override { return true; }

 private:
  std::vector<at::Device> devices_;
};

/// Returns a generator of the device, apart from the device's default generator.
at::Generator make_generator(at::Device device, std::uint64_t seed);

/// Seeds the processor's generator, as every rank does alike before it builds the model.
void seed_everything(std::uint64_t seed);

}  // namespace cxtrain
