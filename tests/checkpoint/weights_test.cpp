#include "cxtrain/checkpoint/weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cerrno>

#include "checkpoint/weights_support.h"
#include "support/catch.h"
#include "support/error_text.h"

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
    CHECK_THAT(several.format, contains("safetensors"));
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
  const auto refused = [&](const std::string& path, const std::string& content, const std::string& why,
                           MessageCode reason = MessageCode::bad_checkpoint) {
    if (!content.empty()) put_file(files, path, content);
    CHECK_THAT(error_of([&] { open_weights(files, path); }), contains(code(reason)) && contains(why));
    CHECK_THROWS_AS(open_weights(files, path), CheckpointError);
  };
  refused("/none", "", "'/none'", MessageCode::checkpoint_missing);
  refused("/empty", "", "model.safetensors", MessageCode::checkpoint_missing);
  refused("/text", "hello, world, this is a text", "file of weights");
  refused("/w.safetensors", "short", "5 bytes");
  refused("/i.json", "{", "weight_map");
  refused("/i.json", "{\"a\":1}", "weight_map");
  refused("/i.json", R"({"weight_map":[1]})", "weight_map");
  refused("/i.json", R"({"weight_map":{"a":1}})", "'a'");
  refused("/i.json", R"({"weight_map":{"a":"../w.safetensors"}})", "../w.safetensors");
  refused("/i.json", R"({"weight_map":{"a":"gone"}})", "'/gone'", MessageCode::file_failed);
  refused("/i.json", std::string(200000, '[').replace(0, 1, "{\"weight_map\":"), "JSON");
  put_file(files, "/other", safetensors_of({{"b", at::arange(3)}}));
  refused("/i.json", R"({"weight_map":{"a":"other"}})", "'/other' lacks 'a'");
  files.fail({0, EACCES, FaultyFilesystem::Call::open});
  CHECK_THROWS_AS(open_weights(files, "/text"), CheckpointError);
}

}  // namespace
}  // namespace cxtrain::test
