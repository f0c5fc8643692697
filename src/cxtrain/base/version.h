#pragma once

/// The version of this library: the one place that says it (CMake reads it from here).
#define CXTRAIN_VERSION "0.1.0"
