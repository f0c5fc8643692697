#include "cxtrain/plugin/accelerator_library.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/process.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/plugin/fingerprint.h"

namespace cxtrain {
namespace {

[[noreturn]] void refuse_accelerator(const std::string& why, const std::string& cure) {
  throw ConfigError("trainer.accelerator", "is to be gpu, and " + why, cure + ", or use --accelerator cpu",
                    MessageCode::no_device);
}

const AcceleratorEntry& load_accelerator() {
  const std::string path = cuda_library_path();
  if (!has_cuda_library()) {
    refuse_accelerator("this cxtrain was built without CUDA (there is no " + path + ")",
                       "configure it with -DCXTRAIN_CUDA=ON");
  }
  number_gpus_by_pci_bus();
  // Global, since LibTorch's CUDA half finds parts of itself by name.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    refuse_accelerator(path + " cannot be loaded: " + (reason == nullptr ? "no reason is given" : reason),
                       "put LibTorch's CUDA libraries and NCCL where they were at the build "
                       "(ldd lists missing libraries)");
  }
  const auto entry =
      reinterpret_cast<decltype(&cxtrain_accelerator_v1)>(dlsym(library, "cxtrain_accelerator_v1"));
  if (entry == nullptr) refuse_accelerator(path + " is not a part of cxtrain", "install cxtrain again");
  const AcceleratorEntry& found = *entry();
  if (std::string(found.fingerprint) != CXTRAIN_FINGERPRINT) {
    refuse_accelerator(path + " was built as " + found.fingerprint + ", this as " + CXTRAIN_FINGERPRINT,
                       "install both from one build");
  }
  // The stand-in that LibTorch has taken where somebody asked before CUDA was there has no CUDA runtime.
  if (!at::detail::getCUDAHooks().hasCUDART()) {
    refuse_accelerator("LibTorch was asked for CUDA before CUDA was loaded, and does not ask again",
                       "make the Trainer, or call cxtrain::open_accelerator(), before anything else that "
                       "uses tensors");
  }
  return found;
}

}  // namespace

Accelerator& open_accelerator() {
  static const AcceleratorEntry& entry = load_accelerator();
  return entry.open();
}

}  // namespace cxtrain
