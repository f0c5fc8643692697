#include "floor/floor_work.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "gpt/gpt_net.h"
#include "mnist/mnist_net.h"

namespace {

/// A file's bytes after the first `skip`, as uint8 [n].
at::Tensor read_bytes(const std::string& path, std::int64_t skip) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto size = static_cast<std::int64_t>(text.size());
  if (size <= skip) throw std::runtime_error("cannot read " + path);
  return at::from_blob(const_cast<char*>(text.data()) + skip, {size - skip}, at::kByte).clone();
}

FloorWork simple_work(std::int64_t batch_size) {
  constexpr std::int64_t kIn = 12800, kOut = 6400, kSamples = 1024;
  torch::nn::Linear linear(kIn, kOut);
  const at::Generator generator = at::detail::createCPUGenerator(/*seed=*/1);
  const at::Tensor x = at::randn({kSamples, kIn}, generator, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor y = at::randn({kSamples, kOut}, generator, at::TensorOptions().dtype(at::kFloat));
  return {kSamples, batch_size,
          [=](const at::Tensor& index) mutable {
            return at::mse_loss(linear(x.index_select(0, index)), y.index_select(0, index));
          },
          [=] { return FloorAdam({{linear->parameters()}}, 1e-3, 0.999, /*decoupled=*/false); }};
}

FloorWork mnist_work(const std::string& net_name, const std::string& folder, std::int64_t batch_size) {
  torch::nn::Sequential net = make_mnist_net(net_name);
  const at::Tensor images = read_bytes(folder + "/train-images-idx3-ubyte", 16).view({-1, 1, 28, 28});
  const at::Tensor labels = read_bytes(folder + "/train-labels-idx1-ubyte", 8).to(at::kLong);
  return {labels.size(0), batch_size,
          [=](const at::Tensor& index) mutable {
            const at::Tensor x = images.index_select(0, index).to(at::kFloat).mul_(1.0 / 255);
            return at::cross_entropy_loss(net->forward(x), labels.index_select(0, index));
          },
          [=] { return FloorAdam({{net->parameters()}}, 1e-3, 0.999, /*decoupled=*/false); }};
}

FloorWork gpt_work(const std::string& path, std::int64_t batch_size) {
  constexpr GptSizes kSizes{.layers = 4, .heads = 4, .width = 128, .context = 128, .dropout = 0};
  GptNet net(kSizes);
  const at::Tensor text = read_bytes(path, 0);
  const std::int64_t train = text.size(0) / 10 * 9,
                     samples = (train - kSizes.context - 1) / kSizes.context + 1;
  const at::Tensor x = text.as_strided({samples, kSizes.context}, {kSizes.context, 1}, 0);
  const at::Tensor y = text.as_strided({samples, kSizes.context}, {kSizes.context, 1}, 1);
  return {samples, batch_size,
          [=](const at::Tensor& index) mutable {
            const at::Tensor logits = net(x.index_select(0, index).to(at::kLong));
            return at::cross_entropy_loss(logits.flatten(0, 1),
                                          y.index_select(0, index).to(at::kLong).flatten());
          },
          [=] {
            FloorAdam::Group matrices{{}, 0.1}, others{{}, 0};
            for (const at::Tensor& p : net->parameters())
              (p.dim() >= 2 ? matrices : others).parameters.push_back(p);
            return FloorAdam({matrices, others}, 1e-3, 0.95, /*decoupled=*/true);
          }};
}

}  // namespace

FloorWork make_floor_work(const std::string& model, const std::string& data, std::int64_t batch_size) {
  if (model == "simple") return simple_work(batch_size);
  if (model == "mlp" || model == "cnn") return mnist_work(model, data, batch_size);
  if (model == "gpt") return gpt_work(data, batch_size);
  throw std::runtime_error("no model " + model + "; there are simple, mlp, cnn, gpt");
}
