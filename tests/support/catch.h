#pragma once

#include <string>

// LibTorch's logging has a CHECK as well, which counts nothing. It is read here, first, so that no later
// header brings it back.
#include <c10/util/Logging.h>
#undef CHECK

/// Catch2, version 2 or 3, under one name.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
namespace cxtrain::test {
using ListenerBase = Catch::EventListenerBase;
inline auto contains(const std::string& text) { return Catch::Matchers::ContainsSubstring(text); }
}  // namespace cxtrain::test
#else
#ifndef CATCH_CONFIG_EXTERNAL_INTERFACES
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // the listener's base class
#endif
#include <catch2/catch.hpp>
namespace Catch {
using Detail::Approx;
}
namespace cxtrain::test {
using ListenerBase = Catch::TestEventListenerBase;
inline auto contains(const std::string& text) { return Catch::Matchers::Contains(text); }
}  // namespace cxtrain::test
#endif
