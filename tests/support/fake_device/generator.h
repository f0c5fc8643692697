#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <memory>

namespace cxtrain::test {

/// Random numbers of a fake device: the CPU's engine, of its own for each device. Its state has the CPU's
/// format.
class FakeGenerator final : public c10::GeneratorImpl {
 public:
  explicit FakeGenerator(c10::DeviceIndex device, std::uint64_t seed = c10::default_rng_seed_val);

  /// What the CPU's kernels draw from.
  const at::Generator& engine() const { return engine_; }

  void set_current_seed(std::uint64_t seed) override { engine_.set_current_seed(seed); }
  std::uint64_t current_seed() const override { return engine_.current_seed(); }
  std::uint64_t seed() override { return engine_.seed(); }
  void set_offset(std::uint64_t offset) override;
  std::uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  FakeGenerator* clone_impl() const override;

  at::Generator engine_;
};

/// The device's own, which operations use that are given none.
const at::Generator& default_generator(c10::DeviceIndex device);

}  // namespace cxtrain::test
