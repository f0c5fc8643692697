#pragma once

/// The version of this library, defined only here (CMake reads it from here).
#define CXTRAIN_VERSION "0.1.0"
