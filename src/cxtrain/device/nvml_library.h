#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

namespace cxtrain {

/// The driver's management library, opened by name, with a session in it. Functions are looked up when they
/// are called: an old library lacks some.
class NvmlLibrary {
 public:
  using Device = struct nvmlDevice_st*;
  static constexpr int kSuccess = 0;
  static constexpr int kInsufficientSize = 7;

  explicit NvmlLibrary(const char* name) : library_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    started_ = library_ && call<int()>("nvmlInit_v2") == kSuccess;
  }
  ~NvmlLibrary() {
    if (started_) call<int()>("nvmlShutdown");
  }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  bool started() const { return started_; }

  /// Calls the function of this name; an error of NVML's when the library has none.
  template <class Signature, class... Args>
  int call(const char* name, Args... args) const {
    constexpr int kFunctionNotFound = 13;
    auto* function = reinterpret_cast<Signature*>(dlsym(library_.get(), name));
    return function == nullptr ? kFunctionNotFound : function(args...);
  }

  /// The GPU of this index in PCI bus order; null for none.
  Device device(unsigned int index) const {
    Device device = nullptr;
    const int status = call<int(unsigned int, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
    return status == kSuccess ? device : nullptr;
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  std::unique_ptr<void, Close> library_;
  bool started_ = false;
};

}  // namespace cxtrain
