#include <limits>
#include <map>

#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/cluster/world.h"
#include "trainer/resume_support.h"

/// A state that one strategy has saved is loaded to the bit by every other one, on as many ranks and on one.
namespace cxtrain {
namespace {

using namespace test::resume;

constexpr std::int64_t kSteps = 6, kLeft = 2;  ///< to the checkpoint, and after it

/// A chain with a frozen layer. If it overflows, every gradient is infinite, and steps change nothing.
struct WatchedChain : ChainModule {
  explicit WatchedChain(bool overflows) : factor_(overflows ? std::numeric_limits<double>::infinity() : 1) {
    at::manual_seed(overflows ? 9 : 1);
    add_block("first", torch::nn::Linear(6, 300));
    add_block("tanh", torch::nn::Tanh());
    const auto frozen = add_block("frozen", torch::nn::Linear(300, 40));
    for (at::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    add_block("middle", torch::nn::Linear(40, 70));
    add_block("last", torch::nn::Linear(70, 2));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return factor_ * torch::nn::functional::mse_loss(run_blocks(batch).tensor().to(at::kFloat),
                                                     batch[1].to(at::kFloat));
  }
  Optimizers configure_optimizers() override {
    return Adam{.lr = 0.01, .weight_decay = 0.01, .amsgrad = true};
  }
  const double factor_;
};

using Tensors = std::map<std::string, at::Tensor>;

void collect(const StateDict& state, const std::string& prefix,
             std::map<std::string, std::vector<Piece>>& pieces) {
  for (const Piece& piece : state.pieces()) pieces[prefix + piece.name].push_back(piece);
  for (const auto& [name, section] : state.sections()) collect(section, prefix + name + ".", pieces);
}

/// The model and the optimizer's state in a checkpoint, as wholes.
Tensors tensors_of(const std::string& path) {
  const Manifest manifest = read_manifest(real_filesystem(), path);
  CheckpointReader reader(real_filesystem(), path, manifest);
  Tensors tensors;
  std::vector<NamedTensor> model;
  for (const auto& [name, entry] : reader.model())
    model.push_back({name, at::empty(entry->shape, entry->dtype)});
  reader.read_model(whole_pieces(model));
  for (const auto& [name, tensor] : model) tensors[name] = tensor;
  std::map<std::string, std::vector<Piece>> pieces;
  for (int rank = 0; rank < manifest.world_size; ++rank)
    collect(reader.state(rank).section("optimization"), "optimization.", pieces);
  for (auto& [name, parts] : pieces) {
    const Piece& first = parts.front();
    tensors[name] = at::empty(first.shape, first.read().options());
    const Piece whole = whole_piece(first.name, tensors[name]);
    fill_pieces({&whole, 1}, parts);
  }
  return tensors;
}

/// Trains an epoch, or the rest of one, and saves to `folder`; returns the checkpoint's path.
std::string train_and_save(World& world, const StrategyCase& strategy, const std::string& precision,
                           const std::string& folder, const std::string& ckpt_path) {
  const bool resumes = !ckpt_path.empty();
  Options options = test::quiet(folder);
  options.seed = 7;
  options.trainer.strategy = strategy.name;
  options.trainer.precision = precision == "O2" ? "16-mixed" : precision;
  if (precision == "O2") options.trainer.amp_level = "O2";
  options.trainer.max_epochs = resumes ? 1 : 2;
  if (!resumes) options.trainer.max_steps = kSteps;
  strategy.prepare(options);
  Trainer trainer(world, options);
  trainer.set_replica_factory(
      [&]() -> std::unique_ptr<Module> { return std::make_unique<WatchedChain>(resumes); });
  ModelCheckpoint::Args saves{.dirpath = folder + "/saved", .filename = "it"};
  if (!resumes) saves.every_n_train_steps = kSteps;
  trainer.add_callback<ModelCheckpoint>(saves);
  WatchedChain model(resumes);
  // The samples of a step are divided among the pipelines, or the ranks.
  const int pipelines = world.size() > 3 ? 2 : 1;
  const std::int64_t of_step = kBatch * test_world().size();
  test::ToyData data((kSteps + kLeft) * of_step,
                     of_step / (strategy.name == "pipeline" ? pipelines : world.size()));
  trainer.fit(model, data, {.ckpt_path = ckpt_path});
  return folder + "/saved/it.ckpt";
}

void check_equal(const Tensors& expected, const Tensors& found) {
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name).equal(tensor));
  }
  CHECK(found.size() == expected.size());
}

TEST_CASE("a state is loaded to the bit under every strategy, on as many ranks and on one", "[resume]") {
  const std::string precision = GENERATE("16-mixed", "O2");
  World& world = test_world();
  const test::TempDir dir;
  const std::string shared = world.broadcast(dir.path());
  const StrategyCase alone{.name = "single"};
  int number = 0;
  const auto folder = [&](const std::string& root) { return root + "/" + std::to_string(number++); };
  std::vector<StrategyCase> strategies = test::resume::strategies();
  if (precision == "O2")
    std::erase_if(strategies,
                  [](const StrategyCase& each) { return !each.master_weights || each.name == "dp"; });
  for (const StrategyCase& saves : strategies) {
    const std::string saved = train_and_save(world, saves, precision, folder(shared), "");
    const Tensors expected = tensors_of(saved);
    CHECK(expected.size() >= 8 + 3 * 6);  // three numbers of Adam's for each trained parameter
    for (const StrategyCase& loads : strategies) {
      CAPTURE(precision, saves.described, loads.described);
      check_equal(expected, tensors_of(train_and_save(world, loads, precision, folder(shared), saved)));
    }
    CAPTURE(precision, saves.described);
    SoloWorld solo;
    check_equal(expected,
                tensors_of(train_and_save(solo, alone, precision, folder(dir.path() + "/alone"), saved)));
    world.barrier();
  }

  // And from one rank.
  SoloWorld solo;
  std::string saved = train_and_save(solo, alone, precision, folder(dir.path() + "/alone"), "");
  saved = world.broadcast(saved);
  const Tensors expected = tensors_of(saved);
  for (const StrategyCase& loads : strategies) {
    CAPTURE(precision, loads.described);
    check_equal(expected, tensors_of(train_and_save(world, loads, precision, folder(shared), saved)));
  }
  world.barrier();
}

}  // namespace
}  // namespace cxtrain
