#include "support/fake_device/generator.h"

#include <vector>

#include "support/fake_device/guard.h"

namespace cxtrain::test {

FakeGenerator::FakeGenerator(c10::DeviceIndex device, std::uint64_t seed)
    : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      engine_(at::detail::createCPUGenerator(seed)) {}

void FakeGenerator::set_offset(std::uint64_t) { TORCH_CHECK(false, "fake generators have no offset"); }

std::uint64_t FakeGenerator::get_offset() const { TORCH_CHECK(false, "fake generators have no offset"); }

void FakeGenerator::set_state(const c10::TensorImpl& state) {
  engine_.unsafeGetGeneratorImpl()->set_state(state);
}

c10::intrusive_ptr<c10::TensorImpl> FakeGenerator::get_state() const {
  return engine_.unsafeGetGeneratorImpl()->get_state();
}

FakeGenerator* FakeGenerator::clone_impl() const {
  auto* const copy = new FakeGenerator(device_.index());
  copy->set_state(*get_state());
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto* const generators = [] {
    auto* const made = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < FakeGuard::instance().deviceCount(); ++i)
      made->push_back(at::make_generator<FakeGenerator>(i));
    return made;
  }();
  if (device < 0) device = FakeGuard::instance().getDevice().index();
  return generators->at(static_cast<std::size_t>(device));
}

}  // namespace cxtrain::test
