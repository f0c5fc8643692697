#include <cxtrain/cxtrain.h>

#include <map>
#include <stdexcept>

/// The code of docs/own_code.md and docs/larger_models.md, with the parts that the pages leave out. `main` is
/// the program of "A main of your own".
// clang-format off

class Waves : public cxtrain::Dataset {
  std::int64_t size() const override { return x_.size(0); }
  void collate(std::span<const std::int64_t> indices, const cxtrain::SampleContext&,
               cxtrain::Batch& batch) const override {
    const at::Tensor rows = torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()));
    batch.tensors = {x_.index_select(0, rows), y_.index_select(0, rows)};  // dimension 0 counts the samples
  }
  at::Tensor x_ = torch::rand({1000, 1}), y_ = x_.sin();
};

class MyLogger : public cxtrain::MetricLogger {
 public:
  void log(std::int64_t, std::int64_t, std::span<const Metric>) override {}
  void flush() override {}
};

class Sine : public cxtrain::Module {
 public:
  struct Args {
    std::int64_t hidden = 32;
    void fields(auto&& field) { field("hidden", hidden, "units of the hidden layer", cxtrain::Range::at_least(1)); }
  };
  explicit Sine(const Args& args) {
    save_hyperparameters(args);
    net_ = register_module("net", torch::nn::Sequential(torch::nn::Linear(1, args.hidden), torch::nn::Tanh(),
                                                        torch::nn::Linear(args.hidden, 1)));
  }
  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t batch_idx) override {
    const at::Tensor logits = net_->forward(batch[0]), loss = at::mse_loss(logits, batch[1]);
    const at::Tensor hits = (logits.detach() - batch[1]).abs().lt(0.1).sum().to(at::kFloat);
    const at::Tensor accuracy = hits / batch.size;
    const bool useless = batch_idx == 1;
    log("hits", hits, {.reduce_fx = cxtrain::ReduceFx::sum, .sync_dist = true});  // mean, sum, min, max; over the ranks
    log_dict({{"train_loss", loss}, {"train_acc", accuracy}}, {.prog_bar = true, .batch_size = 7});
    if (useless) return {};                                                       // no loss: the batch is skipped
    return {loss, {{"logits", logits}}};                                          // further tensors, for on_train_batch_end
  }
  void test_step(const cxtrain::Batch& batch, std::int64_t) override {
    log("test_loss", at::mse_loss(net_->forward(batch[0]), batch[1]));
  }
  cxtrain::Optimizers configure_optimizers() override { return cxtrain::AdamW{.lr = 1e-2}; }

 private:
  torch::nn::Sequential net_;
};

class SineData : public cxtrain::DataModule {
 public:
  cxtrain::Loaders train_dataloader() override { return {waves_, 100, /*shuffle=*/true}; }
  cxtrain::Loaders test_dataloader() override { return {waves_, 100}; }

 private:
  std::shared_ptr<const cxtrain::Dataset> waves_ = std::make_shared<Waves>();
};

void update(Sine&) {}
double distance() { return 0; }

class Mean : public cxtrain::Callback {
 public:
  struct Args {
    double decay = 0.99;
    void fields(auto&& field) {
      field("decay", decay, "weight of the old average in each step", cxtrain::Range::between(0, 1));
    }
  };
  explicit Mean(const Args& args);
  void on_train_batch_end(cxtrain::Run& run, const cxtrain::StepOutput&, const cxtrain::Batch&, std::int64_t) override {
    update(run.module<Sine>());  // the model; also: run.log_dir(), run.current_epoch() ...
    run.log("mean_distance", distance());
  }
};
CXTRAIN_REGISTER(Mean, "mean", "a moving average of the parameters");
CXTRAIN_REGISTER(MyLogger, "mine", "my logger");

Mean::Mean(const Args&) {}

void add_callbacks(cxtrain::Trainer& trainer) {
  trainer.add_callback<cxtrain::LambdaCallback>({.on_train_epoch_end = [](cxtrain::Run& run) {
    if (run.rank() == 0) cxtrain::log_info("epoch " + std::to_string(run.current_epoch()));
  }});
  trainer.add_callback<cxtrain::LambdaCallback>({.on_validation_epoch_end = [](cxtrain::Run& run) {
    run.loggers().log_text("notes", "**best** so far");
  }});
}

/// Lacks its steps.
class Classifier : public cxtrain::Module {
 public:
  using Args = Sine::Args;
  explicit Classifier(const Args& args) : args(args) { save_hyperparameters(args); }
  Args args;
};

/// Two losses, two tables, and pictures.
class Generator : public cxtrain::Module {
 public:
  void on_train_epoch_end() override { loggers().log_image("samples", generator->forward(noise)); }

  cxtrain::Optimizers configure_optimizers() override {
    return {{"embeddings", cxtrain::Rmsprop{.lr = 1e-2}, embeddings->parameters()},
            {"layers", cxtrain::AdamW{.lr = 1e-3}.with(cxtrain::CosineSchedule{}), layers->parameters()}};
  }

  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
    optimizer("g").minimize([&] { return bce(D(G(noise(batch))), 1); });
    optimizer("d").minimize([&] { return bce(D(batch[0]), 1) + bce(D(G(noise(batch)).detach()), 0); });
    return {};
  }

  at::Tensor contrast(const cxtrain::Batch& batch) {
    const at::Tensor keys = all_gather(encoder->forward(batch[1]), /*sync_grads=*/true);
    return at::cross_entropy_loss(encoder->forward(batch[0]).matmul(keys.t()), batch[2]);
  }

 private:
  struct Noise {
    operator at::Tensor() const { return at::zeros({1, 8}); }
    at::Tensor operator()(const cxtrain::Batch& batch) const { return at::randn({batch.size, 8}); }
  } noise;
  at::Tensor bce(const at::Tensor& logits, double target) {
    return at::binary_cross_entropy_with_logits(logits, at::full_like(logits, target));
  }
  at::Tensor G(const at::Tensor& z) { return generator->forward(z); }
  at::Tensor D(const at::Tensor& x) { return encoder->forward(x); }
  torch::nn::Linear generator{8, 8}, encoder{8, 1}, layers{8, 1};
  torch::nn::Embedding embeddings{4, 8};
};

int main(int argc, char** argv) {
  return cxtrain::run(argc, argv, {.trainer = {.devices = 4, .max_epochs = 10}}, [](cxtrain::Trainer& trainer) {
    Sine model({.hidden = 32});
    SineData data;
    trainer.fit(model, data);
    trainer.test(model, data);  // the model as it is, in the folder of the fit; throws if a signal has ended the fit
    trainer.test(model, data, {.ckpt_path = "best"});  // with the values of the fit's best checkpoint
  });
}

/// As Catch2's.
#undef CHECK  // LibTorch has one of its own
#define TEST_CASE(name) void test_case()
#define CHECK(condition) if (!(condition)) throw std::runtime_error(#condition)

class StopAt : public cxtrain::Callback {
 public:
  struct Args {
    std::int64_t step = 1;
    void fields(auto&& field) { field("step", step, "the last step"); }
  };
  explicit StopAt(const Args& args) : args_(args) {}
  void on_train_batch_end(cxtrain::Run& run, const cxtrain::StepOutput&, const cxtrain::Batch&, std::int64_t) override {
    if (run.global_step() >= args_.step) run.request_stop("the last step");
  }

 private:
  Args args_;
};

#include <cxtrain/callbacks/run_of_values.h>

TEST_CASE("the callback stops at step 10") {
  StopAt callback({.step = 10});
  cxtrain::RunOfValues values;
  values.state.global_step = 10;
  callback.on_train_batch_end(values.run, at::ones({}), {}, 0);
  CHECK(values.requests.stop);
}

class Keep : public cxtrain::Callback {
 public:
  void on_train_batch_end(cxtrain::Run&, const cxtrain::StepOutput&, const cxtrain::Batch& batch, std::int64_t) override {
    seen += batch.size;
  }
  void on_train_epoch_end(cxtrain::Run& run) override { run.request_checkpoint(); }
  void on_checkpoint(cxtrain::Run& run, const cxtrain::StateDict& state) override {
    last = state.clone();            // the tensors of `state` change with the next step
    run.saved_checkpoints().add(0);  // seconds that the save took: the run may now end here and be resumed
  }
  void on_save_checkpoint(cxtrain::StateDict& state) override { state.set("seen", seen); }
  void on_load_checkpoint(const cxtrain::StateDict& state) override { seen = state.integer("seen"); }

  cxtrain::StateDict last;
  std::int64_t seen = 0;  // samples of this rank
};

void resume(cxtrain::Trainer& trainer, Sine& model, SineData& data) {
  auto& keep = trainer.add_callback<Keep>();
  trainer.fit(model, data);
  Sine again({.hidden = 32});                                // a new model with equal arguments
  trainer.fit(again, data, cxtrain::ResumeFrom{keep.last});  // each rank has its own state; in a new run folder
}

class SaveOnRequest : public cxtrain::Callback {
  std::optional<cxtrain::CheckpointPlan> plan_checkpoint(cxtrain::Run& run,
                                                         const cxtrain::CheckpointOccasion& occasion) override {
    if (!occasion.must_save) return {};
    return cxtrain::CheckpointPlan{.path = run.log_dir() + "/requested.ckpt"};  // equal on all ranks
  }
};

#include <cxtrain/trainer/chain_module.h>
#include <torch/nn/modules/linear.h>

class ResidualImpl : public torch::nn::Module {
 public:
  explicit ResidualImpl(std::int64_t width) {
    layer_ = register_module("layer", torch::nn::Linear(width, width));
  }
  at::Tensor forward(const at::Tensor& x) { return x + at::relu(layer_(x)); }

 private:
  torch::nn::Linear layer_{nullptr};
};
TORCH_MODULE(Residual);

class Net : public cxtrain::ChainModule {
 public:
  Net() {
    add_block("first", torch::nn::Linear(64, 256));
    for (int i = 0; i < 6; ++i) add_block("blocks." + std::to_string(i), Residual(256));
    add_block("last", torch::nn::Linear(256, 10));
  }
  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
    const at::Tensor loss = at::cross_entropy_loss(run_blocks(batch).tensor(), batch[1]);
    log("train_loss", loss);
    return loss;
  }
  cxtrain::Optimizers configure_optimizers() override { return cxtrain::Adam{.lr = 1e-3}; }
};

class EncoderImpl : public torch::nn::Module {
 public:
  EncoderImpl(std::int64_t inputs, std::int64_t outputs) {
    layer_ = register_module("layer", torch::nn::Linear(inputs, outputs));
  }
  at::Tensor forward(const at::Tensor& x) { return layer_(x); }

 private:
  torch::nn::Linear layer_{nullptr};
};
TORCH_MODULE(Encoder);

class DecoderImpl : public torch::nn::Module {
 public:
  DecoderImpl(std::int64_t, std::int64_t) {}
  cxtrain::Carry forward(const cxtrain::Carry& inputs) { return cxtrain::Carry({inputs.tensors[0] + inputs.tensors[1]}); }
};
TORCH_MODULE(Decoder);

#include <cxtrain/trainer/block_module.h>

class UNet : public cxtrain::BlockModule {
 public:
  UNet() {
    fine_ = add_block("fine", Encoder(1, 16));
    coarse_ = add_block("coarse", Encoder(16, 32));
    decoder_ = add_block("decoder", Decoder(16, 32));
  }
  cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
    const at::Tensor fine = run_block(fine_, batch[0]);
    const at::Tensor coarse = run_block(coarse_, fine);
    const at::Tensor image = run_block(decoder_, cxtrain::Carry({fine, coarse})).tensor();
    return at::mse_loss(image, batch[1]);
  }
  cxtrain::Optimizers configure_optimizers() override { return cxtrain::Adam{.lr = 1e-3}; }

 private:
  Encoder fine_{nullptr}, coarse_{nullptr};
  Decoder decoder_{nullptr};
};

void train_in_parts(cxtrain::Trainer& trainer, cxtrain::DataModule& data) {
  const auto net = trainer.init_module<Net>();  // passes its arguments to the constructor
  trainer.fit(*net, data);
  trainer.test(*net, data, {.ckpt_path = "best"});
}
