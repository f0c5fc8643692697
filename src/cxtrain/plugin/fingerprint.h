#pragma once

#include <torch/headeronly/version.h>

#include "cxtrain/base/version.h"
#include "cxtrain/plugin/headers_hash.h"  // generated: cmake/HeadersHash.cmake

/// Properties that must be equal in a plugin and the program, as text. Each side has its own copy compiled
/// in.
#define CXTRAIN_TEXT_OF(x) CXTRAIN_TEXT(x)
#define CXTRAIN_TEXT(x) #x
#if defined(__clang__)
#define CXTRAIN_COMPILER "clang " CXTRAIN_TEXT_OF(__clang_major__)
#else
#define CXTRAIN_COMPILER "g++ " CXTRAIN_TEXT_OF(__GNUC__)
#endif

#define CXTRAIN_FINGERPRINT                                                                                  \
  "cxtrain " CXTRAIN_VERSION " (headers " CXTRAIN_HEADERS "), LibTorch " TORCH_VERSION ", " CXTRAIN_COMPILER \
  ", C++ ABI " CXTRAIN_TEXT_OF(__GXX_ABI_VERSION)
