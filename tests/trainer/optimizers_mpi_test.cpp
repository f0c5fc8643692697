#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cxtrain/callbacks/ema.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/data/tensor_dataset.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// Several optimizers, in automatic and in manual optimization.
namespace cxtrain {
namespace {

using test::flat_parameters;

/// How the model below steps its optimizers.
enum class Way { minimize, by_hand, clipped_by_norm, clipped_by_value };

/// A generator and a discriminator; each batch brings its noise along, so that ranks add nothing of their
/// own.
class Gan : public Module {
 public:
  explicit Gan(Way way = Way::minimize) : way_(way) {
    automatic_optimization = false;
    at::manual_seed(6);
    g_ = register_module("g", torch::nn::Linear(6, 2));
    d_ = register_module("d", torch::nn::Linear(2, 1));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    if (way_ == Way::minimize) {
      optimizer("g").minimize([&] { return generator_loss(batch); });
      optimizer("d").minimize([&] { return discriminator_loss(batch); });
    } else {
      step_by_hand(optimizer("g"), [&] { return generator_loss(batch); });
      step_by_hand(optimizer("d"), [&] { return discriminator_loss(batch); });
    }
    return {};
  }
  Optimizers configure_optimizers() override {
    return {{"g", Adam{.lr = 0.02, .beta1 = 0.5}, g_->parameters()},
            {"d", Sgd{.lr = 0.1, .momentum = 0.9}.with(CosineSchedule{}), d_->parameters()}};
  }
  void on_before_optimizer_step(OptimizerRef& optimizer) override { stepped.push_back(optimizer.name()); }

  std::vector<std::string> stepped;

 private:
  void step_by_hand(OptimizerRef& optimizer, const std::function<at::Tensor()>& loss) {
    const Toggle only = optimizer.toggle();
    optimizer.zero_grad();
    manual_backward(loss());
    if (way_ == Way::clipped_by_norm) optimizer.clip(0.05);
    if (way_ == Way::clipped_by_value) optimizer.clip(0.05, GradientClipAlgorithm::value);
    CHECK(optimizer.gradients().size() == 2);
    optimizer.step();
  }
  static at::Tensor judged(const at::Tensor& scores, double truth) {
    return at::binary_cross_entropy_with_logits(scores, at::full_like(scores, truth));
  }
  at::Tensor generator_loss(const Batch& batch) {
    const at::Tensor loss = judged(d_->forward(g_->forward(batch[0])), 1);
    log("g_loss", loss);
    return loss;
  }
  at::Tensor discriminator_loss(const Batch& batch) {
    const at::Tensor loss =
        judged(d_->forward(batch[1]), 1) + judged(d_->forward(g_->forward(batch[0]).detach()), 0);
    log("d_loss", loss);
    return loss;
  }

  Way way_;
  torch::nn::Linear g_{nullptr}, d_{nullptr};
};

/// 29 samples in batches of 12: the last one has five, which four ranks cannot divide.
class Pairs : public DataModule {
 public:
  explicit Pairs(std::int64_t batch_size, std::int64_t samples = 29) : batch_size_(batch_size) {
    at::manual_seed(7);
    train_ = std::make_shared<TensorDataset>(
        std::vector<at::Tensor>{at::randn({samples, 6}), at::randn({samples, 2})});
  }
  Loaders train_dataloader() override { return {train_, batch_size_, /*shuffle=*/true}; }

 private:
  std::int64_t batch_size_;
  std::shared_ptr<TensorDataset> train_;
};

Options of_fit(const std::string& strategy, const std::string& root) {
  Options options = test::quiet(root);
  options.trainer.max_epochs = 3;
  options.trainer.strategy = strategy;
  return options;
}

template <class Model>
at::Tensor fitted(World& world, Model& model, Options options, std::int64_t samples = 29) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  Pairs data(12 / world.size(), samples);
  Trainer trainer(world, options);
  trainer.fit(model, data);
  return flat_parameters(model);
}

at::Tensor of_one_process(Way way, const Options& options, std::int64_t samples = 29) {
  SoloWorld world;
  Options single = options;
  single.trainer.strategy = "single";
  Gan model(way);
  return fitted(world, model, single, samples);
}

TEST_CASE("manual optimization on several ranks trains as on one, with uneven last batches") {
  const Way way = GENERATE(Way::minimize, Way::by_hand, Way::clipped_by_norm, Way::clipped_by_value);
  const std::int64_t samples = GENERATE(29, 25, 24);  // of the last batch: five, one, twelve
  Options options = of_fit("ddp", "");
  options.data.uneven = Uneven::exact;
  options.trainer.precision = "64-true";  // Adam divides by small gradients, and magnifies rounding
  Gan model(way);
  const at::Tensor parameters = fitted(test_world(), model, options, samples);
  const at::Tensor alone = of_one_process(way == Way::by_hand ? Way::minimize : way, options, samples);
  CAPTURE(samples, (parameters - alone).abs().max().item<double>());
  CHECK(parameters.allclose(alone, 1e-9, 1e-10));
  const std::int64_t batches = samples > 24 ? 3 : 2;
  CHECK(model.stepped.size() == static_cast<std::size_t>(2 * 3 * batches));
  CHECK(model.stepped[0] == "g");
  CHECK(model.stepped[1] == "d");
}

/// The optimizer that steps first has more and larger parameters than the other one.
class Lopsided : public Module {
 public:
  Lopsided() {
    automatic_optimization = false;
    at::manual_seed(10);
    large_ = register_module("large", torch::nn::Sequential(Wide(6, 120), Wide(120, 120), Wide(120, 120),
                                                            Wide(120, 120), Wide(120, 2)));
    small_ = register_module("small", torch::nn::Sequential(Wide(2, 120), Wide(120, 120), Wide(120, 1)));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    optimizer("large").minimize([&] { return small_->forward(large_->forward(batch[0])).square().mean(); });
    optimizer("small").minimize([&] { return small_->forward(batch[1]).sub(1).square().mean(); });
    return {};
  }
  Optimizers configure_optimizers() override {
    return {{"large", Sgd{.lr = 0.01}, large_->parameters()},
            {"small", Sgd{.lr = 0.01}, small_->parameters()}};
  }

 private:
  using Wide = torch::nn::Linear;
  torch::nn::Sequential large_{nullptr}, small_{nullptr};
};

TEST_CASE("optimizers of different sizes exchange gradients in the memory of a node") {
  const std::string strategy = GENERATE("ddp", "zero");
  Options options = of_fit(strategy, "");
  options.trainer.max_steps = 3;
  if (strategy == "zero") options.strategy.args["stage"] = "2";
  Lopsided model, alone;
  const at::Tensor parameters = fitted(test_world(), model, options, 24);
  SoloWorld solo;
  options.trainer.strategy = "single";
  options.strategy.args.clear();
  CHECK(parameters.allclose(fitted(solo, alone, options, 24), 1e-4, 1e-6));
}

TEST_CASE("options of the trainer hold in manual optimization") {
  Options options = of_fit("ddp", "");
  SECTION("gradient_clip_val") { options.trainer.gradient_clip_val = 0.05; }
  SECTION("bf16-mixed") { options.trainer.precision = "bf16-mixed"; }
  SECTION("16-mixed") { options.trainer.precision = "16-mixed"; }
  SECTION("accumulate_grad_batches") { options.trainer.accumulate_grad_batches = 2; }
  Gan model;
  const at::Tensor parameters = fitted(test_world(), model, options, 24);
  // 16-bit matrix products of fewer rows are rounded alike, sums over ranks are not.
  CHECK(parameters.allclose(of_one_process(Way::minimize, options, 24), 1e-2, 2e-3));
  CHECK_FALSE(parameters.allclose(of_one_process(Way::minimize, of_fit("ddp", ""), 24), 1e-6, 1e-7));
}

/// L-BFGS ends a step by the loss, which differs between ranks.
class Bfgs : public Module {
 public:
  explicit Bfgs(bool manual) {
    automatic_optimization = !manual;
    at::manual_seed(9);
    net_ = register_module("net", torch::nn::Linear(6, 2));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const auto loss = [&] { return at::mse_loss(net_->forward(batch[0]), batch[1]); };
    if (automatic_optimization) return loss();
    optimizer("LBFGS").minimize(loss);
    return {};
  }
  Optimizers configure_optimizers() override { return Lbfgs{.max_iter = 30, .history_size = 10}; }

 private:
  torch::nn::Linear net_{nullptr};
};

TEST_CASE("l-bfgs on several ranks trains as on one, with ranks that have no sample") {
  const bool manual = GENERATE(false, true);
  const std::int64_t samples = GENERATE(12, 3, 1);  // one batch: what L-BFGS remembers is of one function
  Options options = of_fit("ddp", "");
  options.data.uneven = Uneven::exact;
  options.trainer.precision = "64-true";
  Bfgs model(manual), alone(manual);
  const at::Tensor parameters = fitted(test_world(), model, options, samples);
  options.trainer.strategy = "single";
  SoloWorld solo;
  const at::Tensor expected = fitted(solo, alone, options, samples);
  CAPTURE(manual, samples, (parameters - expected).abs().max().item<double>());
  CHECK(parameters.allclose(expected, 1e-3, 1e-4));
}

/// One loss, and an optimizer for each of two layers.
class TwoLayers : public Module {
 public:
  explicit TwoLayers(std::int64_t frequency) : frequency_(frequency) {
    at::manual_seed(8);
    first_ = register_module("first", torch::nn::Linear(6, 4));
    second_ = register_module("second", torch::nn::Linear(4, 2));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return at::mse_loss(second_->forward(first_->forward(batch[0])), batch[1]);
  }
  Optimizers configure_optimizers() override {
    return {{"first", Sgd{.lr = 0.1}, first_->parameters(), frequency_},
            {"second", Sgd{.lr = 0.1}, second_->parameters()}};
  }
  void optimizer_step(OptimizerRef& optimizer) override {
    ++steps[optimizer.name()];
    optimizer.step();
  }
  std::map<std::string, int> steps;

 protected:
  std::int64_t frequency_;
  torch::nn::Linear first_{nullptr}, second_{nullptr};
};

class OneForBoth : public TwoLayers {
 public:
  OneForBoth() : TwoLayers(1) {}
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
};

TEST_CASE("two optimizers of one loss train as one optimizer of all parameters does") {
  const std::string precision = GENERATE("32-true", "16-mixed");
  Options options = of_fit("ddp", "");
  options.trainer.precision = precision;
  TwoLayers two(1);
  OneForBoth one;
  CHECK(fitted(test_world(), two, options).equal(fitted(test_world(), one, options)));
}

TEST_CASE("an optimizer with a frequency steps every so many steps") {
  TwoLayers model(2);
  const at::Tensor before = model.named_parameters()["first.weight"].detach().clone();
  Options options = of_fit("ddp", "");
  options.trainer.max_steps = 1;
  options.trainer.max_epochs = -1;
  fitted(test_world(), model, options);
  CHECK(model.named_parameters()["first.weight"].equal(before));
  CHECK(model.steps == std::map<std::string, int>{{"second", 1}});
  options.trainer.max_steps = 5;
  fitted(test_world(), model, options);
  CHECK(model.steps == std::map<std::string, int>{{"first", 2}, {"second", 6}});
}

TEST_CASE("a model may set the rate of a step, and leave steps out") {
  struct Warm : TwoLayers {
    Warm() : TwoLayers(1) {}
    Optimizers configure_optimizers() override {
      return OptimizerSetup{.optimizer = Sgd{.lr = 0.1},
                            .groups = {{.parameters = {}, .lr = 7},  // has no part in the optimizer
                                       {.parameters = first_->parameters(), .lr = 0.2}}};
    }
    void optimizer_step(OptimizerRef& optimizer) override {
      if (global_step() == 1) return;
      optimizer.set_lr(0.4);
      rate = optimizer.lr();
      before = second_->bias.detach().clone();
      optimizer.step();
      gradient = second_->bias.grad().clone();
    }
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override {
      if (global_step() == 1) moved = (second_->bias.detach() - before).clone();
    }
    double rate = 0;
    at::Tensor before, moved, gradient;
  };
  Options options = of_fit("ddp", "");
  options.trainer.max_steps = 2;
  Warm model;
  fitted(test_world(), model, options);
  CHECK(model.rate == 0.4);
  CHECK(model.moved.allclose(model.gradient.mul(-0.2), 1e-5, 1e-7));  // the second group's rate is half of it
}

TEST_CASE("a rate that a model sets holds until the schedule moves") {
  struct Sets : TwoLayers {
    explicit Sets(std::int64_t its_step_size) : TwoLayers(1), step_size(its_step_size) {}
    Optimizers configure_optimizers() override {
      return Sgd{.lr = 0.1}.with(StepSchedule{.step_size = step_size, .gamma = 0.1});
    }
    void optimizer_step(OptimizerRef& optimizer) override {
      if (global_step() == 1) optimizer.set_lr(0.05);
      optimizer.step();
      rate = optimizer.lr();
    }
    const std::int64_t step_size;
    double rate = 0;
  };
  Sets keeps(100), moves(2);
  fitted(test_world(), keeps, of_fit("ddp", ""));
  CHECK(keeps.rate == 0.05);
  fitted(test_world(), moves, of_fit("ddp", ""));
  CHECK(moves.rate == Catch::Approx(0.01));
}

TEST_CASE("in manual optimization an overflow of one optimizer's gradients skips its step alone") {
  struct Overflows : TwoLayers {
    Overflows() : TwoLayers(1) { automatic_optimization = false; }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      OptimizerRef &first = optimizer("first"), &second = optimizer("second");
      first.zero_grad();
      second.zero_grad();
      const double factor = global_step() == 1 ? 1e38 : 1;
      const at::Tensor of_first = first_->forward(batch[0]).to(at::kFloat).square().mean() * 0.01;
      const at::Tensor of_second =
          second_->forward(batch[0].narrow(1, 0, 4)).to(at::kFloat).square().mean() * 0.01;
      manual_backward(of_first + of_second * factor);
      first.clip(1);
      second.clip(1);
      const at::Tensor before = test::flat_parameters(*this);
      first.step();
      second.step();
      const at::Tensor change = test::flat_parameters(*this) - before;
      const std::int64_t elements = first_->weight.numel() + first_->bias.numel();
      moved.push_back({change.narrow(0, 0, elements).ne(0).any().item<bool>(),
                       change.narrow(0, elements, change.numel() - elements).ne(0).any().item<bool>()});
      return {};
    }
    std::vector<std::pair<bool, bool>> moved;
  };
  Options options = of_fit("ddp", "");
  options.trainer.max_steps = 3;
  options.trainer.precision = "16-mixed";
  Overflows model;
  CHECK(fitted(test_world(), model, options).isfinite().all().item<bool>());
  CHECK(model.moved == std::vector<std::pair<bool, bool>>{{true, true}, {true, false}, {true, true}});
}

TEST_CASE("gradients of a backward that the trainer has not seen are refused") {
  if (test_world().size() == 1) return;  // where they are complete
  struct Plain : TwoLayers {
    explicit Plain(bool with_manual) : TwoLayers(1), mixed(with_manual) { automatic_optimization = false; }
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (mixed) {
        manual_backward(TwoLayers::training_step(batch, idx).loss);
        optimizer("second").step();
      }
      OptimizerRef& first = optimizer("first");
      first.zero_grad();
      TwoLayers::training_step(batch, idx).loss.backward();
      first.step();
      return {};
    }
    bool mixed;
  };
  Plain model(GENERATE(false, true));
  CHECK_THAT(test::error_of<TrainingError>([&] { fitted(test_world(), model, of_fit("ddp", "")); }),
             test::contains("optimizer first") && test::contains("manual_backward"));
}

TEST_CASE("in automatic optimization an optimizer steps in optimizer_step only, and once") {
  struct Twice : TwoLayers {
    Twice() : TwoLayers(1) {}
    void optimizer_step(OptimizerRef& optimizer) override {
      optimizer.step();
      optimizer.step();
    }
  };
  struct InAHook : TwoLayers {
    InAHook() : TwoLayers(1) {}
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override {
      optimizer("first").step();
    }
  };
  Options options = of_fit("ddp", "");
  options.trainer.max_steps = 2;
  Twice twice;
  InAHook in_a_hook;
  for (TwoLayers* const model : {static_cast<TwoLayers*>(&twice), static_cast<TwoLayers*>(&in_a_hook)}) {
    CHECK_THAT(test::error_of<TrainingError>([&] { fitted(test_world(), *model, options); }),
               test::contains("optimizer first") && test::contains("optimizer_step"));
  }
}

TEST_CASE("several optimizers resume to the same bits, and on one rank to the same but for rounding") {
  const Way way = GENERATE(Way::minimize, Way::by_hand);
  const std::string precision = GENERATE("64-true", "16-mixed");
  World& world = test_world();
  const test::TempDir dir;
  const std::string folder = world.broadcast(dir.path());
  const auto fit = [&](World& of_fit_world, Gan& model, const std::string& root,
                       const std::string& ckpt_path) {
    Options options = of_fit(of_fit_world.size() > 1 ? "ddp" : "single", root);
    options.trainer.precision = precision;
    options.data.uneven = Uneven::exact;
    Pairs data(12 / of_fit_world.size());
    Trainer trainer(of_fit_world, options);
    trainer.add_callback<Ema>({.decay = 0.9});
    trainer.add_callback<ModelCheckpoint>({.save_top_k = -1, .every_n_train_steps = 4});
    trainer.fit(model, data, {.ckpt_path = ckpt_path});
    return trainer.log_dir() + "/checkpoints/epoch=1-step=4.ckpt";
  };
  Gan straight(way), resumed(way), alone(way);
  const std::string path = fit(world, straight, folder + "/straight", "");
  fit(world, resumed, folder + "/resumed", path);
  CHECK(resumed.stepped.size() == 2 * 5);
  CHECK(flat_parameters(resumed).equal(flat_parameters(straight)));
  SoloWorld solo;
  fit(solo, alone, dir.path() + "/alone", path);
  CHECK(alone.stepped.size() == 2 * 5);
  if (precision == "64-true") CHECK(flat_parameters(alone).allclose(flat_parameters(straight), 1e-9, 1e-10));
  world.barrier();
}

TEST_CASE("what a model does wrong with its optimizers is said") {
  struct Wrong : TwoLayers {
    explicit Wrong(std::function<Optimizers(Wrong&)> its_optimizers,
                   std::function<void(Wrong&)> its_step = {})
        : TwoLayers(1), optimizers(std::move(its_optimizers)), step(std::move(its_step)) {}
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (step) step(*this);
      return TwoLayers::training_step(batch, idx);
    }
    Optimizers configure_optimizers() override { return optimizers(*this); }
    std::vector<at::Tensor> first() { return first_->parameters(); }
    std::vector<at::Tensor> second() { return second_->parameters(); }
    std::function<Optimizers(Wrong&)> optimizers;
    std::function<void(Wrong&)> step;
  };
  const auto both = [](Wrong& w) -> Optimizers {
    return {{"a", Sgd{}, w.first()}, {"b", Sgd{}, w.second()}};
  };
  Options options = of_fit("ddp", "");
  const auto error = [&](Wrong& model) {
    return test::error_of([&] { fitted(test_world(), model, options); });
  };

  Wrong shared([](Wrong& w) -> Optimizers { return {{"a", Sgd{}, w.first()}, {"b", Sgd{}, w.first()}}; });
  CHECK_THAT(error(shared), test::contains("`a` and `b` both have the parameter first.weight"));
  Wrong unnamed([](Wrong& w) -> Optimizers { return {{"a", Sgd{}, w.first()}, {"b", Sgd{}}}; });
  CHECK_THAT(error(unnamed), test::contains("`b` has no parameters"));
  Wrong twice([](Wrong& w) -> Optimizers { return {{"a", Sgd{}, w.first()}, {"a", Sgd{}, w.second()}}; });
  CHECK_THAT(error(twice), test::contains("two optimizers are named `a`"));
  Wrong automatic(both, [](Wrong& w) { w.optimizer("a").step(); });
  CHECK_THAT(error(automatic), test::contains("automatic_optimization"));
  Wrong unknown(both, [](Wrong& w) { w.optimizer("c"); });
  CHECK_THAT(error(unknown), test::contains("returns `a`, `b`"));
  Wrong accumulates(both, [](Wrong& w) { w.optimizer("a").zero_grad(); });
  accumulates.automatic_optimization = false;
  options.trainer.accumulate_grad_batches = 2;
  CHECK_THAT(error(accumulates), test::contains("use minimize()"));
  Wrong adds(both, [](Wrong& w) {
    for (int i = 0; i < 2; ++i) w.optimizer("a").minimize([&] { return w.first()[0].square().sum(); });
  });
  adds.automatic_optimization = false;
  CHECK_THAT(error(adds), test::contains("twice in a batch"));
  options.trainer.accumulate_grad_batches = 1;
  options.optimizer.args["lr"] = "0.5";
  Wrong overridden(both);
  CHECK_THAT(error(overridden), test::contains("this model has several: a, b"));
  options.optimizer.args.clear();
  options.trainer.gradient_clip_val = 1;
  Wrong clips([](Wrong&) -> Optimizers { return Lbfgs{}; });
  CHECK_THAT(error(clips), test::contains("gradient_clip_val"));
  test_world().barrier();
}

}  // namespace
}  // namespace cxtrain
