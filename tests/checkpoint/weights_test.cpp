#include "cxtrain/checkpoint/weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cerrno>

#include "checkpoint/weights_support.h"
#include "support/catch.h"

namespace cxtrain::test {
namespace {

std::string names_of(const StoredWeights& weights) {
  std::string names;
  for (const StoredTensor& tensor : weights.tensors) names += (names.empty() ? "" : " ") + tensor.name;
  return names;
}

void put_shards(Filesystem& files, const std::string& folder) {
  put_file(files, folder + "model-00001-of-00002.safetensors", safetensors_of({{"a", at::arange(3)}}));
  put_file(files, folder + "model-00002-of-00002.safetensors",
           safetensors_of({{"b", at::arange(4)}, {"c", at::full({}, 7)}}));
  put_file(files, folder + "model.safetensors.index.json",
           R"({"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors",
               "b":"model-00002-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
}

TEST_CASE("weights are recognised by content") {
  FaultyFilesystem files;
  files.make_directory("/one");
  put_file(files, "/one/model.safetensors", safetensors_of({{"a", at::arange(3)}}, {{"format", "pt"}}));
  files.make_directory("/several");
  put_shards(files, "/several/");
  put_file(files, "/odd name", safetensors_of({{"a", at::arange(3)}}));

  CHECK(open_weights(files, "/odd name").format == "safetensors");
  const StoredWeights one = open_weights(files, "/one");
  CHECK(one.path == "/one");
  CHECK(one.metadata.at("format") == "pt");
  CHECK(names_of(one) == "a");
  for (const char* path : {"/several", "/several/model.safetensors.index.json"}) {
    const StoredWeights several = open_weights(files, path);
    CHECK(several.format == "safetensors in several files");
    CHECK(names_of(several) == "a b c");
    CHECK(same_bits(several.tensors[2].read(), at::full({}, 7)));
  }
}

TEST_CASE("a tensor can be read when the weights are gone") {
  FaultyFilesystem files;
  put_shards(files, "/");
  std::function<at::Tensor()> read = open_weights(files, "/model.safetensors.index.json").tensors[1].read;
  CHECK(same_bits(read(), at::arange(4)));
}

TEST_CASE("weights that cannot be had are refused with the reason") {
  FaultyFilesystem files;
  files.make_directory("/empty");
  const auto refused = [&](const std::string& path, const std::string& content, const std::string& why) {
    if (!content.empty()) put_file(files, path, content);
    CHECK_THROWS_WITH(open_weights(files, path), contains(why));
    CHECK_THROWS_AS(open_weights(files, path), CheckpointError);
  };
  refused("/none", "", "there is no file or folder '/none'; check the path");
  refused("/empty", "", "the folder '/empty' has no weights: neither model.safetensors nor");
  refused("/text", "hello, world, this is a text", "'/text' is damaged or no file of weights");
  refused("/w.safetensors", "short",
          "'/w.safetensors' is damaged or no safetensors file: it has only 5 bytes");
  refused("/i.json", "{", "no index of safetensors files: it is no JSON with a weight_map");
  refused("/i.json", "{\"a\":1}", "it is no JSON with a weight_map");
  refused("/i.json", R"({"weight_map":[1]})", "it is no JSON with a weight_map");
  refused("/i.json", R"({"weight_map":{"a":1}})", "'a' has no file");
  refused("/i.json", R"({"weight_map":{"a":"../w.safetensors"}})", "is no name of a file beside it");
  refused("/i.json", R"({"weight_map":{"a":"gone"}})", "cannot read '/gone'");
  refused("/i.json", std::string(200000, '[').replace(0, 1, "{\"weight_map\":"), "it is no JSON");
  put_file(files, "/other", safetensors_of({{"b", at::arange(3)}}));
  refused("/i.json", R"({"weight_map":{"a":"other"}})", "'/other' lacks 'a', which '/i.json' says is in it");
  files.fail({0, EACCES, FaultyFilesystem::Call::open});
  CHECK_THROWS_AS(open_weights(files, "/text"), CheckpointError);
}

}  // namespace
}  // namespace cxtrain::test
