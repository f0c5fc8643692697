#include "cxtrain/checkpoint/torch_dtypes.h"

#include <algorithm>
#include <iterator>

namespace cxtrain {
namespace {

constexpr TorchDtype kTorchDtypes[] = {
    {at::kDouble, "float64", "DoubleStorage", "F64"},
    {at::kFloat, "float32", "FloatStorage", "F32"},
    {at::kHalf, "float16", "HalfStorage", "F16"},
    {at::kBFloat16, "bfloat16", "BFloat16Storage", "BF16"},
    {at::kLong, "int64", "LongStorage", "I64"},
    {at::kInt, "int32", "IntStorage", "I32"},
    {at::kShort, "int16", "ShortStorage", "I16"},
    {at::kChar, "int8", "CharStorage", "I8"},
    {at::kByte, "uint8", "ByteStorage", "U8"},
    {at::kBool, "bool", "BoolStorage", "BOOL"},
    {at::kComplexFloat, "complex64", "ComplexFloatStorage", "C64"},
    {at::kComplexDouble, "complex128", "ComplexDoubleStorage", ""},
    {at::kUInt16, "uint16", "", "U16"},
    {at::kUInt32, "uint32", "", "U32"},
    {at::kUInt64, "uint64", "", "U64"},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", "", "F8_E4M3"},
    {at::kFloat8_e5m2, "float8_e5m2", "", "F8_E5M2"},
    {at::kFloat8_e8m0fnu, "float8_e8m0fnu", "", "F8_E8M0"},
};

}  // namespace

std::span<const TorchDtype> torch_dtypes() { return kTorchDtypes; }

const TorchDtype* find_torch_dtype(at::ScalarType dtype) {
  const auto* found = std::ranges::find(kTorchDtypes, dtype, &TorchDtype::dtype);
  return found == std::end(kTorchDtypes) ? nullptr : found;
}

std::string_view torch_name(at::ScalarType dtype) {
  const TorchDtype* found = find_torch_dtype(dtype);
  return found != nullptr ? found->name : c10::toString(dtype);
}

}  // namespace cxtrain
