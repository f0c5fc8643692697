#include "cxtrain/checkpoint/export_weights.h"

#include <torch/serialize.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cerrno>

#include "checkpoint/weights_support.h"
#include "cxtrain/checkpoint/safetensors.h"
#include "cxtrain/checkpoint/torch_dtypes.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_program.h"
#include "support/skip.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

std::vector<NamedTensor> tensors_to_export() {
  std::vector<NamedTensor> tensors{{"a name", at::arange(6, at::kFloat).view({2, 3})},
                                   {"scalar", at::full({}, 2.5)},
                                   {"empty", at::empty({0, 3})},
                                   {"flags", at::full({3}, true, at::kBool)}};
  for (const TorchDtype& dtype : torch_dtypes()) {
    at::Tensor tensor = at::empty({3}, at::TensorOptions(dtype.dtype));
    auto* bytes = static_cast<char*>(tensor.data_ptr());
    for (std::size_t i = 0; i < tensor.nbytes(); ++i) bytes[i] = static_cast<char>(i % 2);
    tensors.push_back({std::string(dtype.name), tensor});
  }
  return tensors;
}

StoredWeights stored(const std::vector<NamedTensor>& tensors) {
  StoredWeights weights{"here", "memory", {}, {}};
  for (const NamedTensor& named : tensors) {
    weights.tensors.push_back({named.name, named.tensor.scalar_type(), named.tensor.sizes().vec(),
                               [tensor = named.tensor] { return tensor; }});
  }
  return weights;
}

void check_same(const StoredWeights& read, const std::vector<NamedTensor>& tensors) {
  REQUIRE(read.tensors.size() == tensors.size());
  for (const NamedTensor& named : tensors) {
    CAPTURE(named.name);
    const auto found = std::find_if(read.tensors.begin(), read.tensors.end(),
                                    [&](const StoredTensor& tensor) { return tensor.name == named.name; });
    REQUIRE(found != read.tensors.end());
    CHECK(same_bits(found->read(), named.tensor));
  }
}

TEST_CASE("exported safetensors are read again, every element at a multiple of its size") {
  FaultyFilesystem files;
  std::vector<NamedTensor> tensors = tensors_to_export();
  std::erase_if(tensors, [](const NamedTensor& named) { return named.name == "complex128"; });
  StoredWeights weights = stored(tensors);
  weights.metadata["who"] = "me";
  write_safetensors(files, "/w", weights);
  const StoredWeights read = open_weights(files, "/w");
  check_same(read, tensors);
  CHECK(read.metadata == std::map<std::string, std::string>{{"format", "pt"}, {"who", "me"}});
  const SafetensorsFile written(files, "/w");
  for (const SafetensorsEntry& entry : written.entries())
    CHECK(entry.begin % c10::elementSize(entry.dtype) == 0);
}

TEST_CASE("an exported torch file is read again, by us and by LibTorch") {
  FaultyFilesystem files;
  const std::vector<NamedTensor> tensors = tensors_to_export();
  write_torch_file(files, "/w", stored(tensors));
  check_same(open_weights(files, "/w"), tensors);

  const TempDir dir;
  const std::vector<NamedTensor> common{tensors[0], tensors[1], tensors[2], tensors[3]};
  write_torch_file(real_filesystem(), dir.file("w"), stored(common));
  const std::string bytes = slurp(dir.file("w"));
  const auto dict = torch::pickle_load({bytes.begin(), bytes.end()}).toGenericDict();
  REQUIRE(dict.size() == common.size());
  for (const NamedTensor& named : common) CHECK(same_bits(dict.at(named.name).toTensor(), named.tensor));
}

TEST_CASE("an exported torch file has only what torch.load(weights_only=True) takes") {
  if (run_command("python3 -c \"import pickletools, zipfile\"").status != 0) {
    skip("there is no python3");
    return;
  }
  const TempDir dir;
  write_torch_file(real_filesystem(), dir.file("w"), stored(tensors_to_export()));
  // The opcodes and globals are those of torch/_weights_only_unpickler.py.
  dir.write("check.py", R"(
import pickletools, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
names = set(archive.namelist())
root = {name.split('/')[0] for name in names}
assert len(root) == 1, names
root = root.pop()
assert archive.read(root + '/version').strip() == b'3' and archive.read(root + '/byteorder') == b'little'
opcodes, globals = set(), set()
for opcode, argument, _ in pickletools.genops(archive.read(root + '/data.pkl')):
    opcodes.add(opcode.name)
    if opcode.name == 'GLOBAL': globals.add(argument.replace(' ', '.', 1))
pickletools.dis(archive.read(root + '/data.pkl'), out=open('/dev/null', 'w'))
allowed = 'PROTO EMPTY_DICT MARK BINUNICODE GLOBAL LONG1 TUPLE BINPERSID NEWFALSE EMPTY_TUPLE REDUCE NONE SETITEMS STOP'
assert opcodes <= set(allowed.split()), opcodes
dtypes = 'uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e8m0fnu'
storages = 'Double Float Half BFloat16 Long Int Short Char Byte Bool ComplexFloat ComplexDouble'
assert globals == ({'collections.OrderedDict', 'torch._utils._rebuild_tensor_v2', 'torch._utils._rebuild_tensor_v3',
                    'torch.storage.UntypedStorage'} | {'torch.' + name for name in dtypes.split()}
                   | {'torch.%sStorage' % name for name in storages.split()}), globals
)");
  const ProgramResult checked = run_command("python3 " + dir.file("check.py") + " " + dir.file("w"));
  INFO(checked.output);
  CHECK(checked.status == 0);
}

TEST_CASE("an export that fails leaves the old file, and nothing beside it") {
  std::vector<NamedTensor> tensors = tensors_to_export();
  tensors.resize(4);
  for (const auto write : {write_safetensors, write_torch_file}) {
    for (const auto kind :
         {FaultyFilesystem::Call::create, FaultyFilesystem::Call::write, FaultyFilesystem::Call::sync,
          FaultyFilesystem::Call::close, FaultyFilesystem::Call::rename}) {
      FaultyFilesystem files;
      put_file(files, "/w", "old");
      files.fail({files.calls(kind), ENOSPC, kind});
      CHECK_THROWS_AS(write(files, "/w", stored(tensors)), Error);
      files.heal();
      CHECK(read_whole_file(files, "/w") == "old");
      CHECK(files.list("/") == std::vector<std::string>{"w"});
    }
    FaultyFilesystem files;
    StoredWeights unreadable = stored(tensors);
    unreadable.tensors[2].read = []() -> at::Tensor { throw CheckpointError("gone"); };
    CHECK_THROWS_WITH(write(files, "/w", unreadable), "gone");
    CHECK(files.list("/").empty());
  }
}

TEST_CASE("a dtype that a file cannot have is refused by name") {
  FaultyFilesystem files;
  CHECK_THAT(error_of([&] {
               write_safetensors(files, "/w", stored({{"z", at::empty({1}, at::kComplexDouble)}}));
             }),
             contains(code(MessageCode::bad_checkpoint)) && contains("'z'") && contains("ComplexDouble"));
  CHECK_THAT(error_of([&] {
               write_torch_file(files, "/w", stored({{"z", at::empty({1}, at::kFloat8_e4m3fnuz)}}));
             }),
             contains(code(MessageCode::invalid_value)) && contains("'z'") && contains("Float8_e4m3fnuz"));
}

}  // namespace
}  // namespace cxtrain::test
