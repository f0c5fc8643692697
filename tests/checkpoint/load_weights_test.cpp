#include "cxtrain/checkpoint/load_weights.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "checkpoint/weights_support.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain::test {
namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 2));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
};

/// What a Net has, with other values and `prefix` before the names.
std::vector<NamedTensor> other_weights(const std::string& prefix = "") {
  std::vector<NamedTensor> tensors;
  const Net net;
  double value = 2;
  const auto add = [&](const auto& items) {
    for (const auto& item : items)
      tensors.push_back({prefix + item.key(), at::full_like(item.value().detach(), value++)});
  };
  add(net.named_parameters());
  add(net.named_buffers());
  return tensors;
}

bool has(const Net& net, const std::vector<NamedTensor>& tensors, const std::string& prefix = "") {
  auto all = net.named_parameters();
  for (const auto& item : net.named_buffers()) all.insert(item.key(), item.value());
  if (all.size() != tensors.size()) return false;
  return std::all_of(tensors.begin(), tensors.end(), [&](const NamedTensor& named) {
    return same_bits(all[named.name.substr(prefix.size())].detach(), named.tensor);
  });
}

/// What it says when these do not fit a Net, which is checked to be as it was.
std::string misfit_of(const std::vector<NamedTensor>& tensors, const NameMap& names = {}) {
  FaultyFilesystem files;
  put_file(files, "/w.safetensors", safetensors_of(tensors));
  Net net;
  const at::Tensor before = net.fc->weight.detach().clone();
  try {
    load_weights(net, "/w.safetensors", names, files);
  } catch (const CheckpointError& error) {
    CHECK(same_bits(net.fc->weight.detach(), before));
    return printed(error);
  }
  return "";
}

TEST_CASE("weights come into a module: parameters and buffers") {
  FaultyFilesystem files;
  const auto tensors = other_weights();
  put_file(files, "/w.safetensors", safetensors_of(tensors));
  Net net;
  CHECK_FALSE(has(net, tensors));
  load_weights(net, "/w.safetensors", NameMap(), files);
  CHECK(has(net, tensors));
  CHECK(net.fc->weight.requires_grad());
}

TEST_CASE("weights come in under other names") {
  FaultyFilesystem files;
  put_file(files, "/w.safetensors", safetensors_of(other_weights("model.")));
  Net net;
  load_weights(net, "/w.safetensors", {{"model.", ""}}, files);
  CHECK(has(net, other_weights("model."), "model."));
}

TEST_CASE("weights are converted to the module's dtypes") {
  std::vector<NamedTensor> tensors = other_weights();
  for (NamedTensor& named : tensors) named.tensor = named.tensor.to(at::kHalf);
  FaultyFilesystem files;
  put_file(files, "/w.safetensors", safetensors_of(tensors));
  Net net;
  load_weights(net, "/w.safetensors", NameMap(), files);
  CHECK(has(net, other_weights()));
}

TEST_CASE("weights that do not fit are all told, and nothing is changed") {
  CHECK(misfit_of(other_weights()).empty());
  std::vector<NamedTensor> tensors = other_weights();
  tensors[0] = {"fc.weight", at::zeros({5, 3})};
  tensors[1] = {"fc.bais", at::zeros({2})};
  tensors.push_back({"more", at::zeros({2})});
  const std::string text = misfit_of(tensors);
  CHECK_THAT(text, contains(code(MessageCode::model_mismatch)) && contains("'/w.safetensors'"));
  CHECK_THAT(text,
             contains(code(MessageCode::model_mismatch)) && contains("(1): fc.bias") && contains("fc.bais?"));
  CHECK_THAT(text, contains(code(MessageCode::model_mismatch)) && contains("(2): fc.bais, more\n"));
  CHECK_THAT(text, contains(code(MessageCode::model_mismatch)) && contains("(1): fc.weight: Float [5, 3]") &&
                       contains("Float [2, 3]"));
  CHECK_THAT(text, contains("--model.weights_map FROM=TO"));

  tensors.assign(1, {"fc.weight", at::zeros({2, 3}, at::kComplexFloat)});
  CHECK_THAT(misfit_of(tensors),
             contains(code(MessageCode::model_mismatch)) && contains("fc.weight: ComplexFloat [2, 3]"));
}

TEST_CASE("a part of the stored weights is loaded by the prefix of its names") {
  FaultyFilesystem files;
  std::vector<NamedTensor> tensors = other_weights();  // of a Net
  tensors.push_back({"head.weight", at::zeros({7, 7})});
  put_file(files, "/w.safetensors", safetensors_of(tensors));
  Net net;
  CHECK_THAT(error_of([&] { load_weights(net, "/w.safetensors", NameMap(), files); }),
             contains(code(MessageCode::model_mismatch)) && contains("head.weight"));
  const at::Tensor bias = net.fc->bias.detach().clone();
  const LoadedWeights loaded = load_weights(net, "/w.safetensors", {.prefix = "fc.weight"}, files);
  CHECK(loaded.loaded == 1);
  CHECK(loaded.left_out.empty());
  CHECK(std::count(loaded.kept.begin(), loaded.kept.end(), "fc.bias") == 1);
  CHECK(same_bits(net.fc->bias.detach(), bias));
  CHECK(same_bits(net.fc->weight.detach(), tensors[0].tensor));

  // Into a part of a model whose names lack the prefix.
  put_file(files, "/w.safetensors", safetensors_of(other_weights("backbone.")));
  Net part;
  load_weights(part, "/w.safetensors", {.names = {{"backbone.", ""}}, .prefix = "backbone."}, files);
  CHECK(has(part, other_weights()));
  // What has the prefix has to fit as a whole, and there has to be something.
  CHECK_THAT(error_of([&] { load_weights(part, "/w.safetensors", {.prefix = "backbone."}, files); }),
             contains(code(MessageCode::model_mismatch)) && contains("/w.safetensors"));
  CHECK_THROWS_AS(load_weights(part, "/w.safetensors", {.prefix = "none."}, files), CheckpointError);
}

TEST_CASE("what does not fit is left out where that is asked for, and told") {
  FaultyFilesystem files;
  std::vector<NamedTensor> tensors = other_weights();
  tensors[0] = {"fc.weight", at::zeros({5, 3})};
  tensors.push_back({"more", at::zeros({2})});
  put_file(files, "/w.safetensors", safetensors_of(tensors));
  Net net;
  const at::Tensor weight = net.fc->weight.detach().clone();
  const LoadedWeights loaded = load_weights(net, "/w.safetensors", {.strict = false}, files);
  CHECK(loaded.loaded == tensors.size() - 2);
  CHECK(loaded.left_out == std::vector<std::string>{"more"});
  REQUIRE(loaded.misshapen.size() == 1);
  CHECK(same_bits(net.fc->weight.detach(), weight));
  CHECK(same_bits(net.fc->bias.detach(), tensors[1].tensor));
  const std::string text = describe(loaded, "/w.safetensors");
  CHECK_THAT(text, contains("(1): more") && contains("fc.weight: Float [5, 3]"));
  put_file(files, "/w.safetensors", safetensors_of({{"x", at::zeros({2})}}));
  CHECK_THROWS_AS(load_weights(net, "/w.safetensors", {.strict = false}, files), CheckpointError);
}

TEST_CASE("weights in a checkpoint are compared with its checksums") {
  FaultyFilesystem files;
  const std::string path = "/c.ckpt", bytes = safetensors_of(other_weights());
  begin_checkpoint(files, path);
  Manifest manifest;
  CheckpointFilesWriter writer(files, path);
  REQUIRE(writer.append(std::vector<Staging::File>{{"model.safetensors", bytes}}, [] { return true; }));
  manifest.files = writer.finish();
  publish_checkpoint(files, path, manifest);
  Net net;
  load_weights(net, path, NameMap(), files);
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  put_file(files, path + "/model.safetensors", damaged);
  for (const std::string& place : {path, path + "/model.safetensors"})
    CHECK_THAT(error_of([&] { load_weights(net, place, NameMap(), files); }),
               contains(code(MessageCode::bad_checkpoint)) && contains("model.safetensors"));
}

TEST_CASE("weights beside a manifest of another program are read") {
  FaultyFilesystem files;
  put_file(files, "/w.safetensors", safetensors_of(other_weights()));
  put_file(files, "/manifest.json", R"({"name": "a web page", "icons": []})");
  Net net;
  CHECK_NOTHROW(load_weights(net, "/w.safetensors", NameMap(), files));
  put_file(files, "/manifest.json", R"({"format": "cxtrain check)");
  CHECK_THROWS_AS(load_weights(net, "/w.safetensors", NameMap(), files), CheckpointError);
}

TEST_CASE("a long list of names is cut") {
  std::vector<NamedTensor> tensors = other_weights();
  for (int i = 0; i < 40; ++i) tensors.push_back({"extra" + std::to_string(i), at::zeros({1})});
  const std::string text = misfit_of(tensors);
  CHECK_THAT(text, contains(code(MessageCode::model_mismatch)) && contains("40"));
  CHECK_THAT(text, contains("extra9 and 30 more"));
}

TEST_CASE("the prefix that stands between the names is told") {
  CHECK_THAT(misfit_of(other_weights("model.")), contains("try --model.weights_map model.="));
  CHECK_THAT(misfit_of(other_weights(), {{"", "x."}}), contains("try --model.weights_map x.="));
  std::vector<NamedTensor> inner{{"weight", at::zeros({2, 3})}, {"bias", at::zeros({2})}};
  CHECK_THAT(misfit_of(inner), contains("try --model.weights_map =fc."));
}

TEST_CASE("two stored names that become one are refused") {
  CHECK_THAT(misfit_of({{"a.x", at::zeros({2})}, {"b.x", at::zeros({2})}}, {{"a.", ""}, {"b.", ""}}),
             contains(code(MessageCode::bad_checkpoint)) && contains("'x'") && contains("'a.x'") &&
                 contains("'b.x'"));
}

struct Tied : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(2, 2));
  torch::nn::Linear second = register_module("second", first);
};

TEST_CASE("a tensor that a module has under two names needs one of them") {
  for (const char* name : {"first", "second"}) {
    FaultyFilesystem files;
    const at::Tensor weight = at::arange(4, at::kFloat).view({2, 2});
    put_file(
        files, "/w.safetensors",
        safetensors_of({{std::string(name) + ".weight", weight}, {std::string(name) + ".bias", weight[0]}}));
    Tied net;
    load_weights(net, "/w.safetensors", NameMap(), files);
    CHECK(same_bits(net.first->weight.detach(), weight));
  }
}

}  // namespace
}  // namespace cxtrain::test
