#pragma once

// A launcher knows nothing of tensors.
#include "cxtrain/tensor/piece.h"
