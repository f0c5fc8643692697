// A small GPT over bytes: it reads any text file, and after training writes some text of its own.
// The network is in gpt_net.cpp, the data in gpt_data.h.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <iostream>

#include "cxtrain/base/log.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/chain_module.h"
#include "cxtrain/trainer/within_memory.h"
#include "gpt/gpt_data.h"
#include "gpt/gpt_net.h"

namespace {

using namespace cxtrain;

const GptSizes& checked(const GptSizes& sizes) {
  if (sizes.width % sizes.heads != 0) {
    throw ConfigError(
        "model.heads",
        std::to_string(sizes.heads) + " heads do not divide a width of " + std::to_string(sizes.width),
        "choose a width that is a multiple of the heads", MessageCode::out_of_range);
  }
  const auto width = static_cast<double>(sizes.width);
  require_memory_for("model.layers, model.width, model.context",
                     static_cast<double>(sizes.layers) * 12 * width * width +
                         width * (GptSizes::kVocabulary + static_cast<double>(sizes.context)));
  return sizes;
}

/// Bytes that a terminal shows as they are; all others are written as \xNN, so that no sample clears a
/// screen.
std::string printable(const std::string& bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n' || (byte >= 0x20 && byte < 0x7f)) {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte / 16], kHex[byte % 16]};
    }
  }
  return text;
}

class GptModel final : public ChainModule {
 public:
  struct Args {
    GptSizes sizes;
    double lr = 1e-3;
    std::int64_t warmup = 100, sample_bytes = 200;
    double temperature = 0.8;

    void fields(auto&& field) {
      field("layers", sizes.layers, "transformer blocks", Range::between(1, 1e4));
      field("heads", sizes.heads, "attention heads in each", Range::at_least(1));
      field("width", sizes.width, "features of a position", Range::at_least(1));
      field("context", sizes.context, "bytes that it sees", Range::at_least(1));
      field("dropout", sizes.dropout, "probability", Range::below(0, 1));
      field("lr", lr, "AdamW's peak learning rate", Range::at_least(0));
      field("warmup", warmup, "steps of linear warm-up", Range::at_least(0));
      field("sample_bytes", sample_bytes, "length of the text printed after training; 0: none",
            Range::between(0, 1e6));
      field("temperature", temperature,
            "softmax temperature of the printed text; below 1: safer, above 1: wilder", Range::above(0));
    }
  };
  explicit GptModel(const Args& args) : args_(args) {
    const GptSizes& sizes = checked(args.sizes);
    const GptEmbedding embedding = add_block("embedding", GptEmbedding(sizes));
    for (std::int64_t i = 0; i < sizes.layers; ++i) add_block("blocks." + std::to_string(i), GptBlock(sizes));
    add_block("head", GptHead(sizes, embedding->weight()));
  }

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor value = loss(batch);
    log("train_loss", value, {.prog_bar = true});
    return value;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", loss(batch), {.prog_bar = true});
  }
  void test_step(const Batch& batch, std::int64_t) override { log("test_loss", loss(batch)); }
  /// Logits of the byte after each, float [B, T, 256].
  at::Tensor predict_step(const Batch& batch, std::int64_t) override { return run_blocks(batch).tensor(); }

  /// Weight decay on matrices only (as GPT-2 and its descendants do), and a cosine over the whole run after a
  /// warm-up.
  Optimizers configure_optimizers() override {
    ParameterGroup matrices, others{.parameters = {}, .lr = {}, .weight_decay = 0.0};
    for (const NamedTensor& parameter : all_parameters())
      (parameter.tensor.dim() >= 2 ? matrices : others).parameters.push_back(parameter.tensor);
    return OptimizerSetup{.optimizer = AdamW{.lr = args_.lr, .beta2 = 0.95, .weight_decay = 0.1},
                          .schedule = CosineSchedule{.warmup = args_.warmup, .min_ratio = 0.1},
                          .groups = {matrices, others}};
  }

  std::unique_ptr<DataModule> default_data() override {
    return std::make_unique<GptData>(args_.sizes.context);
  }
  TrainerDefaults trainer_defaults() const override { return {.max_epochs = 1}; }

  void on_fit_end() override {
    if (args_.sample_bytes == 0 || !is_global_zero()) return;
    if (!is_whole()) return log_info("gpt: no text, because other ranks have some of the blocks");
    std::cout << printable(sample(args_.sample_bytes)) << std::endl;
  }

 private:
  at::Tensor loss(const Batch& batch) {
    return at::cross_entropy_loss(run_blocks(batch).tensor().flatten(0, 1), batch[1].flatten());
  }

  /// Text of the model's own, beginning after a line break; the same for the same weights.
  std::string sample(std::int64_t bytes) {
    const at::NoGradGuard no_grad;
    const bool training = is_training();
    eval();
    at::Generator generator = at::detail::createCPUGenerator(/*seed=*/0);
    at::Tensor tokens = at::zeros({1, bytes + 1}, at::kLong);
    std::int64_t* token = tokens.mutable_data_ptr<std::int64_t>();
    token[0] = '\n';
    std::string text;
    for (std::int64_t i = 0; i < bytes; ++i) {
      const std::int64_t begin = std::max<std::int64_t>(0, i + 1 - args_.sizes.context);
      const at::Tensor logits =
          run_blocks({.tensors = {tokens.slice(1, begin, i + 1).to(device())}, .size = 1})
              .tensor()
              .select(1, -1)
              .cpu()
              .to(at::kFloat);
      if (!logits.isfinite().all().item<bool>()) {
        text = "(no text: the model's outputs are not finite)";
        break;
      }
      token[i + 1] = at::multinomial(at::softmax(logits / args_.temperature, 1), 1, false, generator)
                         .item<std::int64_t>();
      text += static_cast<char>(token[i + 1]);
    }
    train(training);
    return text;
  }

  Args args_;
};

}  // namespace

CXTRAIN_PLUGIN("gpt", [](Registry& registry) {
  registry.add<GptModel>("gpt", "a small GPT over the bytes of a text file (--data.path)");
})
