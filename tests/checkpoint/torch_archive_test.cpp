#include "cxtrain/checkpoint/torch_archive.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <map>

#include "checkpoint/pickle_support.h"
#include "checkpoint/weights_support.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_program.h"
#include "support/skip.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

std::map<std::string, at::Tensor> tensors_of(const StoredWeights& weights) {
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : weights.tensors) {
    tensors[stored.name] = stored.read();
    CHECK(tensors[stored.name].sizes() == at::IntArrayRef(stored.shape));
    CHECK(tensors[stored.name].scalar_type() == stored.dtype);
  }
  return tensors;
}

std::string names_in(const StoredWeights& weights) {
  std::string names;
  for (const auto& [name, tensor] : tensors_of(weights)) names += (names.empty() ? "" : " ") + name;
  return names;
}

/// What is read of an archive with this pickle and the storages "0" (6 floats) and "1" (3 bytes).
StoredWeights read_pickled(FaultyFilesystem& files, const std::string& value) {
  put_file(files, "/w",
           pickled::archive({{"data.pkl", pickled::program(value)},
                             {"byteorder", "little"},
                             {"data/0", pickled::floats(6)},
                             {"data/1", std::string{0, 1, 2}}}));
  return open_weights(files, "/w");
}

std::string refusal_of_pickled(const std::string& value) {
  FaultyFilesystem files;
  try {
    read_pickled(files, value);
  } catch (const CheckpointError& error) {
    CHECK_THAT(printed(error),
               contains(code(MessageCode::bad_checkpoint)) && contains("'/w'") && contains("torch.save"));
    return printed(error);
  }
  return "";
}

TEST_CASE("a state dict in the forms in which people save one") {
  const std::string weights = pickled::dict({{"fc.weight", pickled::tensor({})}, {"steps", "K\x07"}});
  const std::string ordered = pickled::ordered_dict() + pickled::text("fc.weight") + pickled::tensor({}) +
                              "s" + pickled::dict({{"_metadata", pickled::ordered_dict()}}) + "b";
  for (const std::string& value :
       {weights, ordered, pickled::dict({{"epoch", "K\x07"}, {"state_dict", ordered}, {"callbacks", "}"}}),
        pickled::dict({{"model_state_dict", weights}}),
        pickled::dict({{"model", weights}, {"optimizer", "}"}})}) {
    FaultyFilesystem files;
    const StoredWeights read = read_pickled(files, value);
    CHECK(read.format == "PyTorch");
    const auto tensors = tensors_of(read);
    REQUIRE(tensors.size() == 1);
    CHECK(same_bits(tensors.at("fc.weight"), at::arange(6, at::kFloat).view({2, 3})));
  }
}

TEST_CASE("pickled tensors may be parts of storages, turned, or parameters") {
  const std::string part = pickled::tensor({.offset = 2, .shape = {2}, .strides = {3}});
  const std::string turned = pickled::tensor({.shape = {3, 2}, .strides = {1, 3}});
  const std::string parameter = pickled::call(pickled::global("torch._utils", "_rebuild_parameter"),
                                              pickled::tensor({}) + "\x88" + pickled::ordered_dict());
  const std::string subclass =
      pickled::call(pickled::global("torch._tensor", "_rebuild_from_type_v2"),
                    pickled::global("torch._utils", "_rebuild_parameter") +
                        pickled::global("torch.nn.parameter", "Parameter") +
                        pickled::tuple(pickled::tensor({}) + "\x88" + pickled::ordered_dict()) + "}");
  const std::string untyped = pickled::call(
      pickled::global("torch._utils", "_rebuild_tensor_v3"),
      pickled::storage_of({.elements = 24}, pickled::global("torch.storage", "UntypedStorage")) + "K" +
          std::string(1, '\0') + pickled::integers({12}) + pickled::integers({1}) + "\x89" +
          pickled::ordered_dict() + pickled::global("torch", "uint16") + "N");
  const std::string flags =
      pickled::tensor({.key = "1", .storage = "BoolStorage", .elements = 3, .shape = {3}, .strides = {1}});
  const std::string scalar = pickled::tensor({.offset = 5, .shape = {}, .strides = {}});
  const std::string empty = pickled::tensor({.shape = {0, 4}, .strides = {4, 1}});
  FaultyFilesystem files;
  const auto tensors = tensors_of(read_pickled(files, pickled::dict({{"part", part},
                                                                     {"turned", turned},
                                                                     {"parameter", parameter},
                                                                     {"subclass", subclass},
                                                                     {"untyped", untyped},
                                                                     {"flags", flags},
                                                                     {"scalar", scalar},
                                                                     {"empty", empty}})));
  const at::Tensor all = at::arange(6, at::kFloat).view({2, 3});
  REQUIRE(tensors.size() == 8);
  CHECK(same_bits(tensors.at("part"), all.select(1, 2)));
  CHECK(same_bits(tensors.at("turned"), all.t()));
  CHECK(same_bits(tensors.at("parameter"), all));
  CHECK(same_bits(tensors.at("subclass"), all));
  CHECK(same_bits(tensors.at("untyped"), all.view({6}).view(at::kUInt16)));
  CHECK(tensors.at("flags").to(at::kByte).sum().item<int>() == 2);
  CHECK(tensors.at("scalar").item<float>() == 5);
  CHECK(tensors.at("empty").numel() == 0);
}

TEST_CASE("a module that was pickled as a whole has its parameters and buffers by name") {
  const auto module = [](const std::vector<std::pair<std::string, std::string>>& state) {
    return pickled::global("__main__", "Net") + ")\x81" + pickled::dict(state) + "b";
  };
  const std::string inner =
      module({{"_parameters", pickled::dict({{"weight", pickled::tensor({})}, {"bias", "N"}})},
              {"_buffers", pickled::dict({{"count", pickled::tensor({})}})},
              {"_modules", pickled::ordered_dict()}});
  FaultyFilesystem files;
  const StoredWeights read =
      read_pickled(files, module({{"training", "\x88"},
                                  {"_parameters", "}"},
                                  {"_modules", pickled::dict({{"fc", inner}, {"no", "N"}})}}));
  CHECK(names_in(read) == "fc.count fc.weight");
}

TEST_CASE("tensors of other kinds are noted") {
  FaultyFilesystem files;
  const StoredWeights read = read_pickled(
      files, pickled::dict({{"a", pickled::tensor({})},
                            {"q", pickled::call(pickled::global("torch._utils", "_rebuild_qtensor"), "N")},
                            {"x", pickled::call(pickled::global("os", "system"), pickled::text("exit 1"))}}));
  CHECK(names_in(read) == "a");
  CHECK(read.skipped == std::vector<std::string>{"q"});
}

TEST_CASE("a conjugate or negative view is noted: its storage has other numbers") {
  FaultyFilesystem files;
  const auto with_metadata = [](const std::string& metadata) {
    const std::string plain = pickled::tensor({});
    return plain.substr(0, plain.size() - 2) + metadata + "tR";
  };
  const StoredWeights read =
      read_pickled(files, pickled::dict({{"plain", with_metadata("N")},
                                         {"none", with_metadata("}")},
                                         {"conj", with_metadata(pickled::dict({{"conj", "\x88"}}))}}));
  CHECK(names_in(read) == "none plain");
  CHECK(read.skipped == std::vector<std::string>{"conj"});
}

TEST_CASE("modules that hold each other more than once do not fill the memory") {
  const auto module = [](const std::vector<std::pair<std::string, std::string>>& modules) {
    return pickled::global("__main__", "Net") + ")\x81" +
           pickled::dict({{"_parameters", pickled::dict({{"w", pickled::tensor({})}})},
                          {"_modules", pickled::dict(modules)}}) +
           "b";
  };
  // Each level has the one below twice: 2^19 tensors in the innermost.
  std::string program = module({}) + "q" + '\x01' + "0";
  for (char level = 1; level < 20; ++level)
    program += module({{"a", std::string("h") + level}, {"b", std::string("h") + level}}) + "q" +
               static_cast<char>(level + 1) + "0";
  CHECK_THAT(refusal_of_pickled(program + "h" + '\x14'), contains("too many tensors"));
}

TEST_CASE("pickled tensors that do not lie in their storage are refused") {
  const auto refusal = [](const pickled::Tensor& tensor) {
    return refusal_of_pickled(pickled::dict({{"a", pickled::tensor(tensor)}}));
  };
  const char* room = "no room";
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  CHECK(refusal({}).empty());
  CHECK_THAT(refusal({.key = "none"}), contains("data/none"));
  CHECK_THAT(refusal({.elements = 7}),
             contains(code(MessageCode::bad_checkpoint)) && contains("'a'") && contains("storage"));
  CHECK_THAT(refusal({.elements = -1}),
             contains(code(MessageCode::bad_checkpoint)) && contains("'a'") && contains("storage"));
  CHECK_THAT(refusal({.offset = 1}), contains(room));
  CHECK_THAT(refusal({.offset = -1}), contains(room));
  CHECK_THAT(refusal({.offset = kHuge}), contains(room));
  CHECK_THAT(refusal({.shape = {3, 3}}), contains(room));
  CHECK_THAT(refusal({.shape = {-2, -3}}), contains(room));
  CHECK_THAT(refusal({.shape = {kHuge, kHuge}, .strides = {0, 0}}), contains(room));
  CHECK_THAT(refusal({.shape = {1000}, .strides = {0}}), contains(room));
  CHECK_THAT(refusal({.shape = {2, 2}, .strides = {kHuge, kHuge}}), contains(room));
  CHECK_THAT(refusal({.shape = {2, 2}, .strides = {-1, 1}}), contains(room));
  CHECK_THAT(refusal({.shape = {2, 3}, .strides = {1}}),
             contains(code(MessageCode::bad_checkpoint)) && contains("'a'") && contains("shape"));
  CHECK_THAT(refusal({.elements = 0, .shape = {}, .strides = {}}), contains(room));
}

TEST_CASE("an archive that would fill the memory is refused before anything is unpacked") {
  FaultyFilesystem files;
  const std::string record = GENERATE("version", ".data/serialization_id", "code/x.py");
  std::string bytes = pickled::archive({{"data.pkl", pickled::program("}")}, {"byteorder", "little"}});
  // The archive's directory says of one of its records that it is packed and has 1 GB.
  const std::string entry = "PK\x01\x02";
  std::string added = entry + std::string(42, '\0') + record;
  added[10] = 8;
  added.replace(24, 4, pickled::little_endian(1'000'000'000, 4));
  added.replace(28, 2, pickled::little_endian(record.size(), 2));
  bytes.insert(bytes.find(entry), added);
  // The directory is longer then, and what stands behind the directory lies further back.
  const auto add = [&](std::size_t at, int size) {
    std::uint64_t value = 0;
    for (int i = size; i-- > 0;)
      value = value << 8U | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
    bytes.replace(at, static_cast<std::size_t>(size), pickled::little_endian(value + added.size(), size));
  };
  add(bytes.rfind("PK\x05\x06") + 12, 4);
  add(bytes.rfind("PK\x06\x06") + 40, 8);
  add(bytes.rfind("PK\x06\x07") + 8, 8);
  put_file(files, "/w", bytes);
  CHECK_THAT(error_of([&] { open_weights(files, "/w"); }),
             contains(code(MessageCode::bad_checkpoint)) && contains("'" + record + "'"));
}

TEST_CASE("an archive that is cut short says so, in words of our own") {
  FaultyFilesystem files;
  const std::string whole = pickled::archive({{"data.pkl", pickled::program("}")}, {"byteorder", "little"}});
  for (const std::size_t size : {whole.size() / 2, whole.size() - 10}) {
    put_file(files, "/w", whole.substr(0, size));
    try {
      open_weights(files, "/w");
      FAIL("it was read");
    } catch (const CheckpointError& error) {
      CHECK_THAT(printed(error),
                 contains("cut short") && !contains("miniz") && !contains("PytorchStreamReader"));
    }
  }
}

TEST_CASE("archives without weights are refused with what they have") {
  CHECK_THAT(refusal_of_pickled(pickled::dict({{"epoch", "K\x01"}, {"loops", "}"}})),
             contains(code(MessageCode::bad_checkpoint)) && contains("state_dict, model_state_dict") &&
                 contains("epoch, loops"));
  CHECK_THAT(refusal_of_pickled("K"), contains("its pickle"));
  std::string deep = "N";
  for (int i = 0; i < 200; ++i)
    deep = pickled::global("a", "B") + ")\x81" + pickled::dict({{"x", deep}}) + "b";
  CHECK_THAT(refusal_of_pickled(deep), contains(code(MessageCode::bad_checkpoint)) && contains("deep"));
  const std::string itself = pickled::global("a", "B") + ")\x81q\x01" + pickled::dict({{"x", "h\x01"}}) + "b";
  CHECK_THAT(refusal_of_pickled(itself), contains("too deep"));

  FaultyFilesystem files;
  const auto refused = [&](const std::string& content, const std::string& why) {
    put_file(files, "/w", content);
    CHECK_THAT(error_of([&] { open_weights(files, "/w"); }),
               contains(code(MessageCode::bad_checkpoint)) && contains("'/w'") && contains(why));
    CHECK_THROWS_AS(open_weights(files, "/w"), CheckpointError);
  };
  refused(pickled::archive({{"other", "x"}}), "without data.pkl");
  refused(pickled::archive({{"data.pkl", "x"}, {"byteorder", "big"}}), "big");
  refused(pickled::archive({{"data.pkl", std::string(1'000'000, 'N')}}, /*packed=*/true), "'data.pkl'");
  refused(pickled::archive({{"data.pkl", "x"}}).substr(0, 100), "torch.save");
  refused("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", "PyTorch 1.6");
}

struct SavedNet : torch::nn::Module {
  torch::nn::Sequential body =
      register_module("body", torch::nn::Sequential(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2)));
};

TEST_CASE("what LibTorch's torch::save and torch::pickle_save write is read") {
  const TempDir dir;
  const auto net = std::make_shared<SavedNet>();
  torch::save(net, dir.file("module"));
  const auto tensors = tensors_of(open_weights(real_filesystem(), dir.file("module")));
  CHECK(tensors.size() == 7);
  for (const auto& item : net->named_parameters())
    CHECK(same_bits(tensors.at(item.key()), item.value().detach()));
  for (const auto& item : net->named_buffers()) CHECK(same_bits(tensors.at(item.key()), item.value()));

  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("a", at::arange(3));
  dict.insert("b", at::arange(4, at::kHalf));
  const std::vector<char> bytes = torch::pickle_save(dict);
  dir.write("dict", std::string(bytes.begin(), bytes.end()));
  const StoredWeights read = open_weights(real_filesystem(), dir.file("dict"));
  CHECK(same_bits(tensors_of(read).at("a"), at::arange(3)));
  CHECK(same_bits(tensors_of(read).at("b"), at::arange(4, at::kHalf)));
}

TEST_CASE("a TorchScript module is read without running it") {
  const TempDir dir;
  torch::jit::Module inner("Inner"), outer("Outer");
  inner.register_parameter("weight", at::arange(6, at::kFloat), false);
  inner.register_buffer("count", at::arange(1));
  outer.register_module("fc", inner);
  outer.define("def forward(self, x):\n    return x + 1\n");
  outer.save(dir.file("script"));
  const StoredWeights read = open_weights(real_filesystem(), dir.file("script"));
  CHECK(read.format == "TorchScript");
  CHECK(names_in(read) == "fc.count fc.weight");
  CHECK(same_bits(tensors_of(read).at("fc.weight"), at::arange(6, at::kFloat)));
}

TEST_CASE("what Python's pickler makes of a Lightning checkpoint is read") {
  if (run_command("python3 -c \"import pickle, zipfile\"").status != 0) {
    skip("there is no python3");
    return;
  }
  const TempDir dir;
  // Stands in for torch, whose functions and classes a pickle only names.
  dir.write("save.py", R"(
import argparse, collections, pickle, struct, sys, types, zipfile
torch, utils = types.ModuleType('torch'), types.ModuleType('torch._utils')
class FloatStorage: pass
FloatStorage.__module__ = 'torch'
def _rebuild_tensor_v2(*args): pass
_rebuild_tensor_v2.__module__ = 'torch._utils'
torch.FloatStorage, utils._rebuild_tensor_v2 = FloatStorage, _rebuild_tensor_v2
sys.modules['torch'], sys.modules['torch._utils'] = torch, utils
class Storage:
    def __init__(self, key, values): self.key, self.values = key, values
class Tensor:
    def __init__(self, storage, shape): self.storage, self.shape = storage, shape
    def __reduce__(self):
        strides, stride = [], 1
        for size in reversed(self.shape):
            strides.insert(0, stride)
            stride *= size
        return _rebuild_tensor_v2, (self.storage, 0, self.shape, tuple(strides), False, collections.OrderedDict())
class Callback:
    def __init__(self): self.best, self.me = float('inf'), self
class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Storage):
            return 'storage', FloatStorage, value.key, 'cpu', len(value.values)
storages = [Storage(str(i), [float(i), 1.0, 2.0, 3.0]) for i in range(2)]
state = collections.OrderedDict([('net.weight', Tensor(storages[0], (2, 2))), ('net.bias', Tensor(storages[1], (4,)))])
state._metadata = collections.OrderedDict([('', {'version': 1})])
checkpoint = {'epoch': 3, 'global_step': 2**40, 'pytorch-lightning_version': '2.6.0', 'state_dict': state,
              'callbacks': {'x': Callback()}, 'hyper_parameters': argparse.Namespace(lr=0.1, layers=[1, {2, 3}]),
              'optimizer_states': [{'state': {0: {'step': Tensor(storages[0], (4,))}}}], 'blob': b'xyz'}
for protocol in range(2, 6):
    with zipfile.ZipFile(sys.argv[1] + str(protocol), 'w') as archive:
        with archive.open('archive/data.pkl', 'w') as file:
            Pickler(file, protocol).dump(checkpoint)
        archive.writestr('archive/byteorder', 'little')
        for storage in storages:
            archive.writestr('archive/data/' + storage.key, struct.pack('<4f', *storage.values))
        archive.writestr('archive/version', '3\n')
)");
  const ProgramResult saved = run_command("python3 " + dir.file("save.py") + " " + dir.file("checkpoint"));
  INFO(saved.output);
  REQUIRE(saved.status == 0);
  for (int protocol = 2; protocol <= 5; ++protocol) {
    const StoredWeights read =
        open_weights(real_filesystem(), dir.file("checkpoint") + std::to_string(protocol));
    const auto tensors = tensors_of(read);
    REQUIRE(tensors.size() == 2);
    CHECK(same_bits(tensors.at("net.bias"),
                    at::arange(4, at::kFloat).index_put({torch::tensor(0)}, torch::tensor(1.F))));
    CHECK(tensors.at("net.weight").size(1) == 2);
  }
}

}  // namespace
}  // namespace cxtrain::test
