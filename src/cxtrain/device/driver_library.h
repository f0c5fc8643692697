#pragma once

#include <dlfcn.h>

#include <memory>

namespace cxtrain {

/// A library that belongs to the GPU's driver, opened by name: it is there or not, and an old one lacks
/// functions. They are looked up when they are called.
class DriverLibrary {
 public:
  /// `mode`: dlopen's, besides RTLD_NOW and RTLD_LOCAL.
  explicit DriverLibrary(const char* name, int mode = 0)
      : library_(dlopen(name, RTLD_NOW | RTLD_LOCAL | mode)) {}

  explicit operator bool() const { return library_ != nullptr; }

  /// Calls the function of this name; `lacking` where the library has none.
  template <class Signature, class... Args>
  int call_or(int lacking, const char* name, Args... args) const {
    if (!library_) return lacking;
    auto* function = reinterpret_cast<Signature*>(dlsym(library_.get(), name));
    return function == nullptr ? lacking : function(args...);
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  std::unique_ptr<void, Close> library_;
};

}  // namespace cxtrain
