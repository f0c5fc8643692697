#include "cxtrain/checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <array>
#include <cerrno>

#include "checkpoint/weights_support.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_program.h"
#include "support/skip.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

constexpr std::array kAllDtypes{
    at::kDouble,         at::kFloat,        at::kHalf,   at::kBFloat16, at::kFloat8_e4m3fn, at::kFloat8_e5m2,
    at::kFloat8_e8m0fnu, at::kComplexFloat, at::kLong,   at::kInt,      at::kShort,         at::kChar,
    at::kUInt64,         at::kUInt32,       at::kUInt16, at::kByte,     at::kBool};

/// A tensor of this dtype whose bytes are 0, 1, 0, 1, ...: a value of every dtype.
at::Tensor patterned(at::ScalarType dtype, const std::vector<std::int64_t>& shape) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions(dtype));
  auto* bytes = static_cast<char*>(tensor.data_ptr());
  for (std::size_t i = 0; i < tensor.nbytes(); ++i) bytes[i] = static_cast<char>(i % 2);
  return tensor;
}

std::vector<NamedTensor> tensors_of_all_kinds() {
  std::vector<NamedTensor> tensors;
  for (const at::ScalarType dtype : kAllDtypes)
    tensors.push_back({std::string("of.") + c10::toString(dtype), patterned(dtype, {3, 5})});
  tensors.push_back({"scalar", at::full({}, 2.5)});
  tensors.push_back({"empty", at::empty({0, 7})});
  tensors.push_back({"", at::empty({4, 0})});
  tensors.push_back({"größe.日本.😀", at::arange(3)});
  tensors.push_back({"a \"quoted\" \\ name\n\t\x01", at::arange(2)});
  return tensors;
}

std::string refusal_of(const std::string& content) {
  FaultyFilesystem files;
  put_file(files, "/w", content);
  try {
    const SafetensorsFile file(files, "/w");
  } catch (const CheckpointError& error) {
    CHECK(error.code() == ExitCode::refused);
    CHECK_THAT(printed(error), contains(code(MessageCode::bad_checkpoint)) && contains("'/w'"));
    return printed(error);
  }
  return "";
}

TEST_CASE("safetensors keep tensors of every dtype and shape under any name") {
  FaultyFilesystem files;
  const std::vector<NamedTensor> tensors = tensors_of_all_kinds();
  const std::string content = safetensors_of(tensors, {{"format", "pt"}, {"who \"?\"", "größe\n"}});
  put_file(files, "/w", content);
  const SafetensorsFile file(files, "/w");
  CHECK(file.path() == "/w");
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"who \"?\"", "größe\n"}});
  REQUIRE(file.entries().size() == tensors.size());
  for (const NamedTensor& named : tensors) {
    CAPTURE(named.name);
    const SafetensorsEntry* entry = file.find(named.name);
    REQUIRE(entry != nullptr);
    CHECK(same_bits(file.read(*entry), named.tensor));
  }
  CHECK(file.find("of.float") == nullptr);
}

TEST_CASE("a part of a tensor can be read") {
  FaultyFilesystem files;
  put_file(files, "/w", safetensors_of({{"a", at::arange(3)}, {"b", at::arange(100, at::kByte)}}));
  const SafetensorsFile file(files, "/w");
  std::array<char, 3> bytes{};
  file.read(*file.find("b"), 40, bytes);
  CHECK(bytes == std::array<char, 3>{40, 41, 42});
  CHECK_THAT(error_of([&] { file.read(*file.find("b"), 98, bytes); }),
             contains(code(MessageCode::bad_checkpoint)) && contains("100 bytes") && contains("98"));
  CHECK_THROWS_AS(file.read(*file.find("b"), ~std::uint64_t{0}, bytes), CheckpointError);
}

TEST_CASE("the data of a safetensors file begins at a multiple of 64 bytes") {
  for (std::size_t length = 0; length < 70; ++length) {
    const std::string header =
        safetensors_header(lay_out(std::vector<NamedTensor>{{std::string(length, 'x'), at::arange(2)}}), {});
    CHECK(header.size() % 64 == 0);
  }
  CHECK(safetensors_header({}, {}).size() == 64);
}

TEST_CASE("tensors lie one after the other, and sorted ones at multiples of their elements") {
  std::vector<NamedTensor> tensors{{"flags", patterned(at::kBool, {3})},
                                   {"half", patterned(at::kHalf, {3})},
                                   {"double", patterned(at::kDouble, {1})},
                                   {"float", patterned(at::kFloat, {3})},
                                   {"bytes", patterned(at::kByte, {1})}};
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : lay_out(tensors)) {
    CHECK(entry.begin == end);
    end = entry.end;
  }
  CHECK(end == 3 + 6 + 8 + 12 + 1);
  sort_for_alignment(tensors);
  std::string order;
  for (const SafetensorsEntry& entry : lay_out(tensors)) {
    CHECK(entry.begin % c10::elementSize(entry.dtype) == 0);
    order += entry.name + " ";
  }
  CHECK(order == "double float half flags bytes ");
}

TEST_CASE("what a safetensors file cannot hold is refused") {
  CHECK_THAT(error_of([&] {
               lay_out(std::vector<NamedTensor>{{"z", at::empty({1}, at::kComplexDouble)}});
             }),
             contains(code(MessageCode::bad_checkpoint)) && contains("'z'") && contains("ComplexDouble"));
  const auto header_of = [](const std::vector<NamedTensor>& tensors) {
    return safetensors_header(lay_out(tensors), {});
  };
  CHECK_THAT(error_of([&] {
               header_of({{"a", at::arange(1)}, {"a", at::arange(1)}});
             }),
             contains(code(MessageCode::bad_checkpoint)) && contains("'a'"));
  CHECK_THAT(error_of([&] {
               header_of({{"__metadata__", at::arange(1)}});
             }),
             contains(code(MessageCode::bad_checkpoint)) && contains("'__metadata__'"));
  CHECK_THROWS_WITH(header_of({{"\xff", at::arange(1)}}), contains("UTF-8"));
}

TEST_CASE("safetensors headers are checked") {
  const std::string f32 = R"({"dtype":"F32","shape":[2],"data_offsets":[)";
  struct Row {
    std::string json;
    std::size_t data_bytes;
    std::string reason;  ///< empty: it is fine
  };
  const std::vector<Row> rows{
      {"{}", 0, ""},
      {R"({"a":)" + f32 + "0,8]}}", 8, ""},
      {R"({"a":)" + f32 + "0,8]}}   ", 8, ""},
      {R"({"a":)" + f32 + R"(8,16]},"b":)" + f32 + "0,8]}}", 16, ""},
      {R"({"a":{"data_offsets":[0,0],"shape":[0,9000000000],"dtype":"BOOL"}})", 0, ""},
      {R"({"__metadata__":{"a":"b"}})", 0, ""},
      {" {}", 0, "JSON object"},
      {"[]", 0, "JSON object"},
      {"", 0, "JSON object"},
      {"{", 0, "byte 2"},
      {"{}x", 0, "byte 3"},
      {"{\"\xff\":1}", 0, "JSON"},
      {R"({"a":1})", 0, "'a' is not"},
      {R"({"a":null})", 0, "'a' is not"},
      {R"({"a":[1]})", 0, "'a' is not"},
      {R"({"a":{}})", 0, "'a' lacks"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", 0, "'a' lacks"},
      {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8, "F33"},
      {R"({"a":{"dtype":3}})", 8, "'dtype' of 'a' is not"},
      {R"({"a":{"dtype":"F32","dtype":"F32"}})", 8, "'dtype' of 'a' occurs twice"},
      {R"({"a":{"more":"F32"}})", 8, "'more' of 'a' is not"},
      {R"({"a":{"shape":{}}})", 8, "'shape' of 'a' is not"},
      {R"({"a":{"shape":[[]]}})", 8, "'shape' of 'a' is not"},
      {R"({"a":{"shape":[-1]}})", 8, "'shape' of 'a' has a negative"},
      {R"({"a":{"shape":[1.5]}})", 8, "'shape' of 'a' is not"},
      {R"({"a":{"shape":[9223372036854775808]}})", 8, "too large"},
      {R"({"a":{"shape":[18446744073709551616]}})", 8, "'shape' of 'a' is not"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0, "too large"},
      {R"({"a":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,0]}})", 0, "too large"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "too large"},
      {R"({"a":{"data_offsets":[0]}})", 8, "'data_offsets' of 'a' has not two"},
      {R"({"a":{"data_offsets":[0,1,2]}})", 8, "'data_offsets' of 'a' has more"},
      {R"({"a":)" + f32 + "0,4]}}", 4, "0 and 4"},
      {R"({"a":)" + f32 + "8,0]}}", 8, "8 and 0"},
      {R"({"a":)" + f32 + "18446744073709551608,0]}}", 8, "8 bytes"},
      {R"({"a":)" + f32 + "4,12]}}", 12, "byte 4"},
      {R"({"a":)" + f32 + R"(0,8]},"b":)" + f32 + "12,20]}}", 20, "byte 12"},
      {R"({"a":)" + f32 + R"(0,8]},"b":)" + f32 + "4,12]}}", 12, "byte 4"},
      {R"({"a":)" + f32 + R"(0,8]},"b":)" + f32 + "0,8]}}", 8, "byte 0"},
      {R"({"a":)" + f32 + R"(0,8]},"a":)" + f32 + "8,16]}}", 16, "'a' occurs twice"},
      {R"({"a":)" + f32 + "0,8]}}", 9, "has 9"},
      {R"({"a":)" + f32 + "0,8]}}", 7, "has 7"},
      {R"({"__metadata__":{"a":1}})", 0, "'a' of '__metadata__'"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' occurs twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "'__metadata__' occurs twice"},
      {R"({"a":)" + std::string(100000, '['), 0, "'a' is not"},
      {R"({"a":{"shape":[)" + std::string(130, '1'), 0, "'shape' of 'a' is not"},
      {R"({"a":{"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,)"
       R"(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}})",
       0, "64 dimensions"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json.substr(0, 300), row.data_bytes);
    const std::string refusal = refusal_of(with_header(row.json, row.data_bytes));
    CHECK(refusal.empty() == row.reason.empty());
    CHECK_THAT(refusal, contains(row.reason));
  }
}

TEST_CASE("files that end too soon are no safetensors files") {
  CHECK_THAT(refusal_of(""), contains(code(MessageCode::bad_checkpoint)) && contains("0 bytes"));
  CHECK_THAT(refusal_of("1234567"), contains(code(MessageCode::bad_checkpoint)) && contains("7 bytes"));
  CHECK_THAT(refusal_of(std::string(8, '\xff')),
             contains(code(MessageCode::bad_checkpoint)) && contains("18446744073709551615 bytes"));
  const std::string whole = safetensors_of({{"a", at::arange(9)}, {"b", at::arange(9, at::kByte)}});
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK(!refusal_of(whole.substr(0, size)).empty());
}

TEST_CASE("a safetensors file that cannot be read is a CheckpointError") {
  FaultyFilesystem files;
  CHECK_THROWS_WITH((SafetensorsFile(files, "/none")), contains("cannot read '/none'"));
  CHECK_THROWS_AS((SafetensorsFile(files, "/none")), CheckpointError);
  put_file(files, "/w", safetensors_of({{"a", at::arange(9)}}));
  const SafetensorsFile file(files, "/w");
  files.create("/w")->close();
  CHECK_THAT(error_of([&] { file.read(file.entries()[0]); }),
             contains(code(MessageCode::bad_checkpoint)) && contains("'/w'") && contains("'a'"));
  files.fail({0, EIO, FaultyFilesystem::Call::read});
  CHECK_THROWS_AS(file.read(file.entries()[0]), CheckpointError);
}

TEST_CASE("a bool that a file has as another byte than 0 and 1 is true") {
  FaultyFilesystem files;
  std::string content = with_header(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", 0);
  put_file(files, "/w", content + std::string{0, 2, '\xff'});
  const SafetensorsFile file(files, "/w");
  const at::Tensor flags = file.read(file.entries()[0]);
  CHECK(flags.scalar_type() == at::kBool);
  CHECK(flags.to(at::kByte).sum().item<int>() == 2);
}

TEST_CASE("Python's safetensors and ours read each other's files") {
  const char* chosen = std::getenv("CXTRAIN_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  if (run_command(python + " -c \"import numpy, safetensors.numpy\"").status != 0) {
    skip(python +
         " has no numpy and safetensors (pip install numpy safetensors, or name one in CXTRAIN_PYTHON)");
    return;
  }
  const TempDir dir;
  std::vector<NamedTensor> tensors{{"größe \"1\"", at::arange(6).view({2, 3})},
                                   {"scalar", at::full({}, 2.5)},
                                   {"empty", at::empty({0, 7})},
                                   {"half", at::arange(5, at::kHalf)},
                                   {"flags", patterned(at::kBool, {3})},
                                   {"unsigned", patterned(at::kUInt32, {3})}};
  dir.write("ours", safetensors_of(tensors, {{"format", "pt"}}));
  dir.write("convert.py",
            "import sys, safetensors, safetensors.numpy as st\n"
            "with safetensors.safe_open(sys.argv[1], 'np') as f:\n"
            "    assert f.metadata() == {'format': 'pt'}, f.metadata()\n"
            "    tensors = {name: f.get_tensor(name) for name in f.keys()}\n"
            "assert tensors['größe \"1\"'].tolist() == [[0, 1, 2], [3, 4, 5]], tensors\n"
            "assert tensors['scalar'].shape == () and tensors['scalar'] == 2.5, tensors\n"
            "st.save_file(tensors, sys.argv[2], {'from': 'Python'})\n");
  const ProgramResult converted =
      run_command(python + " " + dir.file("convert.py") + " " + dir.file("ours") + " " + dir.file("theirs"));
  INFO(converted.output);
  REQUIRE(converted.status == 0);
  const SafetensorsFile theirs(real_filesystem(), dir.file("theirs"));
  CHECK(theirs.metadata().at("from") == "Python");
  CHECK(theirs.entries().size() == tensors.size());
  for (const NamedTensor& named : tensors) {
    CAPTURE(named.name);
    REQUIRE(theirs.find(named.name) != nullptr);
    CHECK(same_bits(theirs.read(*theirs.find(named.name)), named.tensor));
  }
}

}  // namespace
}  // namespace cxtrain::test
