// An encoder and a decoder, each a GRU over bytes (Sutskever et al. 2014): the encoder reads the end of a
// line, the decoder writes it backwards. The two may lie on different devices of a rank:
//
//     cxtrain_mpi fit --model seq2seq --devices_per_rank 2
//
// The data is in seq2seq_data.h.

#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/block_module.h"
#include "cxtrain/trainer/within_memory.h"
#include "seq2seq/seq2seq_data.h"

namespace {

using namespace cxtrain;
namespace nn = torch::nn;

constexpr std::int64_t kBytes = 256;
constexpr std::int64_t kBegin = 0;  // what the decoder reads before the first byte; no text has it

class EncoderImpl final : public nn::Module {
 public:
  EncoderImpl(std::int64_t width, std::int64_t hidden) {
    bytes_ = register_module("bytes", nn::Embedding(kBytes, width));
    gru_ = register_module("gru", nn::GRU(nn::GRUOptions(width, hidden).batch_first(true)));
  }
  /// int64 [B, T] to the state after the last byte, float [1, B, hidden].
  at::Tensor forward(const at::Tensor& text) { return std::get<1>(gru_->forward(bytes_(text))); }

 private:
  nn::Embedding bytes_{nullptr};
  nn::GRU gru_{nullptr};
};
TORCH_MODULE(Encoder);

class DecoderImpl final : public nn::Module {
 public:
  DecoderImpl(std::int64_t width, std::int64_t hidden, std::int64_t length) : length_(length) {
    bytes_ = register_module("bytes", nn::Embedding(kBytes, width));
    gru_ = register_module("gru", nn::GRU(nn::GRUOptions(width, hidden).batch_first(true)));
    output_ = register_module("output", nn::Linear(hidden, kBytes));
  }
  /// A state, and the bytes before each, int64 [B, T], to logits float [B, T, 256]. A state alone to the
  /// bytes that the decoder writes without a goal, int64 [B, T]: each time the likeliest byte.
  at::Tensor forward(const Carry& carry) {
    at::Tensor state = carry.tensors[0];
    if (carry.tensors.size() > 1) return logits(carry.tensors[1], state);
    at::Tensor byte = at::full({state.size(1), 1}, kBegin, state.options().dtype(at::kLong));
    std::vector<at::Tensor> written;
    for (std::int64_t i = 0; i < length_; ++i) written.push_back(byte = logits(byte, state).argmax(2));
    return at::cat(written, 1);
  }

 private:
  /// Changes the state to the one after the bytes.
  at::Tensor logits(const at::Tensor& before, at::Tensor& state) {
    auto [outputs, last] = gru_->forward(bytes_(before), state);
    state = last;
    return output_(outputs);
  }

  std::int64_t length_;
  nn::Embedding bytes_{nullptr};
  nn::GRU gru_{nullptr};
  nn::Linear output_{nullptr};
};
TORCH_MODULE(Decoder);

class Seq2SeqModel final : public BlockModule {
 public:
  struct Args {
    std::int64_t length = 12, width = 32, hidden = 128;
    double lr = 3e-3;

    void fields(auto&& field) {
      field("length", length, "bytes of each line", Range::between(1, 1e6));
      field("width", width, "features of a byte", Range::at_least(1));
      field("hidden", hidden, "units of each GRU", Range::at_least(1));
      field("lr", lr, "Adam's learning rate", Range::at_least(0));
    }
  };
  explicit Seq2SeqModel(const Args& args) : length_(args.length), lr_(args.lr) {
    const auto w = static_cast<double>(args.width), h = static_cast<double>(args.hidden);
    require_memory_for("model.width, model.hidden", 2 * (kBytes * w + 3 * h * (w + h)) + kBytes * h);
    encoder_ = add_block("encoder", Encoder(args.width, args.hidden));
    decoder_ = add_block("decoder", Decoder(args.width, args.hidden, args.length));
  }

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = loss_of(logits(batch), batch[1]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override { evaluate(batch, "val_loss", "val_acc"); }
  void test_step(const Batch& batch, std::int64_t) override { evaluate(batch, "test_loss", "test_acc"); }

  /// Returns the bytes that the decoder writes without a goal: int64 [B, T].
  at::Tensor predict_step(const Batch& batch, std::int64_t) override {
    return run_block(decoder_, run_block(encoder_, batch[0]));
  }

  Optimizers configure_optimizers() override { return Adam{.lr = lr_}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<ReversedLinesData>(length_); }
  TrainerDefaults trainer_defaults() const override { return {.max_epochs = 3}; }

 private:
  /// The decoder reads the right bytes, whatever it would have written itself (teacher forcing).
  at::Tensor logits(const Batch& batch) {
    const at::Tensor& goal = batch[1];
    const at::Tensor begin = at::full({batch.size, 1}, kBegin, goal.options());
    const at::Tensor before = at::cat({begin, goal.narrow(1, 0, length_ - 1)}, 1);
    const at::Tensor state = run_block(encoder_, batch[0]);
    return to_part(run_block(decoder_, Carry({state, before})).tensor(), 0);
  }
  static at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& goal) {
    return at::cross_entropy_loss(logits.flatten(0, 1), goal.flatten());
  }
  void evaluate(const Batch& batch, std::string_view loss_name, std::string_view accuracy_name) {
    const at::Tensor found = logits(batch);
    log(loss_name, loss_of(found, batch[1]), {.prog_bar = true});
    log(accuracy_name, found.argmax(2).eq(batch[1]).to(at::kFloat).mean(), {.prog_bar = true});
  }

  std::int64_t length_;
  double lr_;
  Encoder encoder_{nullptr};
  Decoder decoder_{nullptr};
};

}  // namespace

CXTRAIN_PLUGIN("seq2seq", [](Registry& registry) {
  registry.add<Seq2SeqModel>(
      "seq2seq",
      "encoder and decoder GRUs that write the ends of lines backwards; may span two devices a rank");
})
