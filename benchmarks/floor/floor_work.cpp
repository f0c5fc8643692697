#include "floor/floor_work.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/container/modulelist.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

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

/// The rows of `samples`, which lie on the host, on the device; by way of page-locked memory to a GPU.
at::Tensor rows_on(at::Device device, const at::Tensor& samples, const at::Tensor& index) {
  const at::Tensor rows = samples.index_select(0, index);
  return device.is_cpu() ? rows : rows.pin_memory().to(device, /*non_blocking=*/true);
}

FloorWork simple_work(const FloorTask& task) {
  constexpr std::int64_t kIn = 12800, kOut = 6400, kSamples = 1024;
  torch::nn::Linear linear(kIn, kOut);
  linear->to(task.device);
  const at::Generator generator = at::detail::createCPUGenerator(/*seed=*/1);
  const at::Tensor x = at::randn({kSamples, kIn}, generator, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor y = at::randn({kSamples, kOut}, generator, at::TensorOptions().dtype(at::kFloat));
  return {kSamples, task.batch_size,
          [=](const at::Tensor& index) mutable {
            return at::mse_loss(linear(rows_on(task.device, x, index)), rows_on(task.device, y, index));
          },
          [=] { return FloorAdam({{linear->parameters()}}, 1e-3, 0.999, /*decoupled=*/false); }};
}

FloorWork mnist_work(const FloorTask& task) {
  torch::nn::Sequential net = make_mnist_net(task.model);
  net->to(task.device);
  const at::Tensor images = read_bytes(task.data + "/train-images-idx3-ubyte", 16).view({-1, 1, 28, 28});
  const at::Tensor labels = read_bytes(task.data + "/train-labels-idx1-ubyte", 8).to(at::kLong);
  return {labels.size(0), task.batch_size,
          [=](const at::Tensor& index) mutable {
            const at::Tensor x = rows_on(task.device, images, index).to(at::kFloat).mul_(1.0 / 255);
            return at::cross_entropy_loss(net->forward(x), rows_on(task.device, labels, index));
          },
          [=] { return FloorAdam({{net->parameters()}}, 1e-3, 0.999, /*decoupled=*/false); }};
}

class GptNetImpl : public torch::nn::Module {
 public:
  explicit GptNetImpl(const GptSizes& sizes)
      : embedding_(register_module("embedding", GptEmbedding(sizes))),
        blocks_(register_module("blocks", torch::nn::ModuleList())) {
    for (std::int64_t i = 0; i < sizes.layers; ++i) blocks_->push_back(GptBlock(sizes));
    head_ = register_module("head", GptHead(sizes, embedding_->weight()));
  }
  at::Tensor forward(const at::Tensor& bytes) {
    at::Tensor x = embedding_(bytes);
    for (const auto& block : *blocks_) x = block->as<GptBlock>()->forward(x);
    return head_(x);
  }
  /// Each once; the head shares one with the embedding.
  std::vector<at::Tensor> trained() const {
    std::vector<at::Tensor> parameters;
    for (const auto& item : named_parameters())
      if (item.key() != "head.weight") parameters.push_back(item.value());
    return parameters;
  }

 private:
  GptEmbedding embedding_;
  torch::nn::ModuleList blocks_;
  GptHead head_{nullptr};
};
TORCH_MODULE(GptNet);

FloorWork gpt_work(const FloorTask& task) {
  GptNet net(task.gpt);
  net->to(task.device);
  const at::Tensor text = read_bytes(task.data, 0);
  const std::int64_t context = task.gpt.context, train = text.size(0) / 10 * 9,
                     samples = (train - context - 1) / context + 1;
  const at::Tensor x = text.as_strided({samples, context}, {context, 1}, 0);
  const at::Tensor y = text.as_strided({samples, context}, {context, 1}, 1);
  return {samples, task.batch_size,
          [=](const at::Tensor& index) mutable {
            const at::Tensor logits = net(rows_on(task.device, x, index).to(at::kLong));
            return at::cross_entropy_loss(logits.flatten(0, 1),
                                          rows_on(task.device, y, index).to(at::kLong).flatten());
          },
          [=] {
            FloorAdam::Group matrices{{}, 0.1}, others{{}, 0};
            for (const at::Tensor& p : net->trained())
              (p.dim() >= 2 ? matrices : others).parameters.push_back(p);
            return FloorAdam({matrices, others}, 1e-3, 0.95, /*decoupled=*/true);
          }};
}

}  // namespace

FloorWork make_floor_work(const FloorTask& task) {
  if (task.model == "simple") return simple_work(task);
  if (task.model == "mlp" || task.model == "cnn") return mnist_work(task);
  if (task.model == "gpt") return gpt_work(task);
  throw std::runtime_error("no model " + task.model + "; there are simple, mlp, cnn, gpt");
}
