#include <torch/csrc/jit/api/module.h>

#include <ATen/ops/arange.h>

#include <sstream>

#include "checkpoint/pickle_support.h"
#include "checkpoint/weights_support.h"
#include "cxtrain/checkpoint/pickle.h"
#include "cxtrain/checkpoint/weights.h"
#include "fuzz/fuzz.h"

namespace cxtrain::test {
namespace {

const std::vector<std::string> kPickleWords{"(",
                                            ")",
                                            "]",
                                            "}",
                                            "t",
                                            "e",
                                            "u",
                                            "s",
                                            "a",
                                            "R",
                                            "b",
                                            "Q",
                                            "2",
                                            "0",
                                            "1",
                                            "N",
                                            "\x81",
                                            "\x85",
                                            "h\x01",
                                            "q\x01",
                                            "K\x05",
                                            "\x8a\x08",
                                            "\x93",
                                            "\x94",
                                            ".",
                                            "\x80",
                                            "\xff",
                                            "c",
                                            "X\xff",
                                            "J",
                                            "]q\x01",
                                            "torch",
                                            "h\x01"
                                            "a",
                                            std::string(8, '\xff'),
                                            std::string(4, '\0'),
                                            std::string(500, '('),
                                            std::string(500, ']')};

std::string lightning_pickle() {
  const std::string module = pickled::global("a", "B") + ")\x81q\x01" +
                             pickled::dict({{"_parameters", pickled::dict({{"w", pickled::tensor({})}})}}) +
                             "b";
  const std::string state = pickled::ordered_dict() + "(" + pickled::text("w") + pickled::tensor({}) +
                            pickled::text("b") +
                            pickled::tensor({.offset = 3, .shape = {3}, .strides = {1}}) + "u";
  return pickled::program(pickled::dict({{"epoch", "K\x01"}, {"state_dict", state}, {"callbacks", module}}));
}

/// Opens and reads what may be damaged; whether that could be done. All tensors together may have more bytes
/// than the file, since they may share storages; each has less.
bool opens_or_refuses(const std::string& content) {
  FaultyFilesystem files;
  put_file(files, "/w", content);
  try {
    for (const StoredTensor& stored : open_weights(files, "/w").tensors) {
      const at::Tensor tensor = stored.read();
      CHECK(tensor.nbytes() <= content.size());
    }
    return true;
  } catch (const CheckpointError& error) {
    CHECK(std::string(error.what()).size() < 4096);
    return false;
  }
}

TEST_CASE("damaged pickles") {
  Random random(21);
  const std::string whole = lightning_pickle();
  CHECK_NOTHROW(Pickle(whole));
  std::size_t read = 0;
  const std::size_t all = cases(10000);
  for (std::size_t n = 0; n < all; ++n) {
    const std::string damaged = random.damage(whole, kPickleWords);
    try {
      const Pickle pickle(damaged);
      ++read;
    } catch (const CheckpointError& error) {
      CHECK(std::string(error.what()).size() < 4096);
    }
  }
  WARN("pickles: " << read << " read, " << all - read << " refused");
}

TEST_CASE("damaged files of torch.save") {
  Random random(22);
  const std::string whole = lightning_pickle();
  const auto archive_of = [](const std::string& pickle) {
    return pickled::archive({{"data.pkl", pickle}, {"byteorder", "little"}, {"data/0", pickled::floats(6)}});
  };
  const std::string archive = archive_of(whole);
  CHECK(opens_or_refuses(archive));
  std::size_t read = 0;
  const std::size_t all = cases(3000);
  for (std::size_t n = 0; n < all; ++n) {
    const bool inside = random.one_in(2);
    read += opens_or_refuses(inside ? archive_of(random.damage(whole, kPickleWords))
                                    : random.damage(archive, kPickleWords))
                ? 1
                : 0;
  }
  WARN("files of torch.save: " << read << " read, " << all - read << " refused");
}

/// A module as TorchScript saves it, record by record.
std::vector<std::pair<std::string, std::string>> torchscript_records() {
  torch::jit::Module inner("Inner"), outer("Outer");
  inner.register_parameter("weight", at::arange(6, at::kFloat).view({2, 3}), false);
  inner.register_buffer("seen", at::arange(1));
  outer.register_module("inner", inner);
  outer.register_attribute("factor", c10::FloatType::get(), 0.5);
  outer.define("def forward(self, x):\n    return x * self.factor\n");
  std::stringstream saved;
  outer.save(saved);
  caffe2::serialize::PyTorchStreamReader reader(&saved);
  std::vector<std::pair<std::string, std::string>> records;
  for (const std::string& name : reader.getAllRecords()) {
    const auto [bytes, size] = reader.getRecord(name);
    if (!name.starts_with(".data/"))
      records.emplace_back(name, std::string(static_cast<const char*>(bytes.get()), size));
  }
  return records;
}

TEST_CASE("damaged files of TorchScript") {
  Random random(24);
  const auto whole = torchscript_records();
  CHECK(opens_or_refuses(pickled::archive(whole)));
  std::size_t read = 0;
  const std::size_t all = cases(2000);
  for (std::size_t n = 0; n < all; ++n) {
    auto records = whole;
    std::string archive;
    if (random.one_in(4)) {
      archive = random.damage(pickled::archive(records), kPickleWords);
    } else {
      for (auto& [name, bytes] : records) {
        if (name == "data.pkl" || random.one_in(4)) bytes = random.damage(bytes, kPickleWords);
      }
      archive = pickled::archive(records);
    }
    read += opens_or_refuses(archive) ? 1 : 0;
  }
  WARN("files of TorchScript: " << read << " read, " << all - read << " refused");
}

TEST_CASE("damaged indices of safetensors files") {
  Random random(23);
  const std::string shard = safetensors_of({{"a", at::arange(3)}, {"b", at::arange(2)}});
  const std::string index = R"({"metadata":{"total_size":40},"weight_map":{"a":"s","b":"s"}})";
  const std::vector<std::string> words{"{",    "}", "[",      "]", ",",  ":",   "\"",
                                       "null", "1", "\"a\":", "/", "..", "\xff"};
  for (std::size_t n = cases(2000); n > 0; --n) {
    FaultyFilesystem files;
    put_file(files, "/s", shard);
    put_file(files, "/i", random.damage(index, words));
    try {
      for (const StoredTensor& tensor : open_weights(files, "/i").tensors) tensor.read();
    } catch (const CheckpointError& error) {
      CHECK(std::string(error.what()).size() < 4096);
    }
  }
}

}  // namespace
}  // namespace cxtrain::test
