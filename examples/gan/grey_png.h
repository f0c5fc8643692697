#pragma once

#include <ATen/core/Tensor.h>

#include <string>

/// Returns a PNG of grey pixels (RFC 2083, colour type 0, 8 bits), for a tensor of shape [height, width] with
/// values in 0..1. Values outside are clamped.
std::string grey_png(const at::Tensor& pixels);

/// Returns one picture of `columns` pictures in a row, for pictures of shape [N, height, width]. N is a
/// multiple of `columns`.
at::Tensor grid(const at::Tensor& pictures, std::int64_t columns);
