#include "cxtrain/checkpoint/torch_dtypes.h"

#include <algorithm>
#include <iterator>

namespace cxtrain {
namespace {

constexpr TorchDtype kTorchDtypes[] = {
    {at::kDouble, "float64", "DoubleStorage"},
    {at::kFloat, "float32", "FloatStorage"},
    {at::kHalf, "float16", "HalfStorage"},
    {at::kBFloat16, "bfloat16", "BFloat16Storage"},
    {at::kLong, "int64", "LongStorage"},
    {at::kInt, "int32", "IntStorage"},
    {at::kShort, "int16", "ShortStorage"},
    {at::kChar, "int8", "CharStorage"},
    {at::kByte, "uint8", "ByteStorage"},
    {at::kBool, "bool", "BoolStorage"},
    {at::kComplexFloat, "complex64", "ComplexFloatStorage"},
    {at::kComplexDouble, "complex128", "ComplexDoubleStorage"},
    {at::kUInt16, "uint16", ""},
    {at::kUInt32, "uint32", ""},
    {at::kUInt64, "uint64", ""},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", ""},
    {at::kFloat8_e5m2, "float8_e5m2", ""},
    {at::kFloat8_e8m0fnu, "float8_e8m0fnu", ""},
};

}  // namespace

std::span<const TorchDtype> torch_dtypes() { return kTorchDtypes; }

const TorchDtype* find_torch_dtype(at::ScalarType dtype) {
  const auto* found = std::find_if(std::begin(kTorchDtypes), std::end(kTorchDtypes),
                                   [&](const TorchDtype& known) { return known.dtype == dtype; });
  return found == std::end(kTorchDtypes) ? nullptr : found;
}

std::string_view torch_name(at::ScalarType dtype) {
  const TorchDtype* found = find_torch_dtype(dtype);
  return found != nullptr ? found->name : c10::toString(dtype);
}

}  // namespace cxtrain
