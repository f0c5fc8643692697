#include "cxtrain/checkpoint/shard_files.h"

#include <ATen/Functions.h>

#include <thread>

#include "cxtrain/checkpoint/state_json.h"
#include "support/catch.h"

using namespace cxtrain;

namespace {

/// A piece whose values the file of the model has.
Piece of_model(Piece piece) {
  piece.of_model = true;
  return piece;
}

/// What each rank writes of `states`, one for each.
std::vector<RankShare> divide_all(const std::vector<NamedTensor>& model, const std::vector<StateDict>& states,
                                  const std::set<std::string>& of_each_rank = {}) {
  std::vector<std::string> digests;
  std::vector<RankShare> shares;
  for (const bool exchanged : {false, true}) {
    shares.clear();
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      shares.push_back(shard_files({.rank = static_cast<int>(rank),
                                    .ranks = static_cast<int>(states.size()),
                                    .model = model,
                                    .state = &states[rank],
                                    .of_each_rank = of_each_rank,
                                    .exchange = [&](const std::string& own) {
                                      if (!exchanged) digests.push_back(own);
                                      return exchanged ? digests
                                                       : std::vector<std::string>(states.size(), own);
                                    }}));
    }
  }
  return shares;
}

std::size_t tensors_of(const RankShare& share, const std::string& stem) {
  std::size_t count = 0;
  for (const PlannedFile& file : share.files) {
    if (file.name.starts_with(stem)) count += file.tensors.size();
  }
  return count;
}

std::vector<NamedTensor> two_layers() {
  return {{"a.weight", at::rand({40, 10})}, {"b.weight", at::rand({40, 10})}};
}

}  // namespace

TEST_CASE("what all ranks hold is written once, by all of them", "[checkpoint]") {
  const std::vector<NamedTensor> model = two_layers();
  StateDict state;
  for (const NamedTensor& named : model) {
    state.make_section("model").add(of_model(whole_piece(named.name, named.tensor)));
    state.make_section("optimizer").set(named.name, at::rand({40, 10}));
  }
  state.make_section("generators").set("cpu", at::rand({8}));
  const std::vector<RankShare> shares = divide_all(model, {state, state}, {"generators"});
  CHECK(tensors_of(shares[0], "model") == 2);  // a small model is one file
  CHECK(tensors_of(shares[1], "model") == 0);
  for (const RankShare& share : shares) {
    CHECK(tensors_of(share, "training") == 2);  // its generators, and one of the optimizer's tensors
    CHECK(share.model_files.at("a.weight") == "model.safetensors");
  }
}

TEST_CASE("tensors of the model are written by ranks that have them, each once", "[checkpoint]") {
  const std::vector<NamedTensor> model{
      {"a", at::rand({4})}, {"b", at::rand({4})}, {"c", at::rand({4})}, {"of all", at::rand({4})}};
  const std::vector<std::vector<int>> holders{{2, 3}, {0, 1}, {2, 3}, {0, 1, 2, 3}};
  std::map<std::string, int> writers;
  for (int rank = 0; rank < 4; ++rank) {
    const RankShare share = shard_files(
        {.rank = rank, .ranks = 4, .model = model, .holders = holders, .of_each_rank = {}, .exchange = {}});
    CHECK(share.model_files.at("a") == "model-00002-of-00002.safetensors");
    CHECK(share.model_files.at("b") == "model-00001-of-00002.safetensors");
    for (const PlannedFile& file : share.files) {
      for (const NamedTensor& tensor : file.tensors) {
        CHECK(writers.emplace(tensor.name, rank).second);
        CHECK(share.model_files.at(tensor.name) == file.name);
      }
    }
  }
  CHECK(writers == std::map<std::string, int>{{"a", 2}, {"b", 0}, {"c", 2}, {"of all", 0}});
}

TEST_CASE("parts are written by the ranks that hold them", "[checkpoint]") {
  const std::vector<NamedTensor> model = two_layers();
  std::vector<StateDict> states(2);
  const at::Tensor masters = at::rand({400});
  for (int rank = 0; rank < 2; ++rank) {
    const ElementRange range{200 * rank, 200 * (rank + 1)};
    StateDict& state = states[static_cast<std::size_t>(rank)];
    state.make_section("optimizer").add(part_of("a.weight", masters, range));
    state.make_section("model").add(of_model(part_of("a.weight", model[0].tensor, range)));
  }
  const std::vector<RankShare> shares = divide_all(model, states);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(tensors_of(shares[rank], "training") == 1);
    const PlannedFile& file = shares[rank].files.back();
    CHECK(file.tensors[0].name == "optimizer/a.weight#" + std::to_string(200 * rank));
    CHECK(file.name == numbered_file("training", static_cast<int>(rank), 2));
    CHECK(file.metadata.contains(kStateKey));
  }
}

TEST_CASE("tensors that ranks set for themselves are written by each, however large", "[checkpoint]") {
  const auto state_of = [](double value) {
    StateDict state;
    state.make_section("callbacks").set("buffer", at::full({300'000}, value));
    return state;
  };
  for (const RankShare& share : divide_all({}, {state_of(0), state_of(1)}))
    CHECK(tensors_of(share, "training") == 1);
  const std::vector<RankShare> alike = divide_all({}, {state_of(2), state_of(2)});
  CHECK(tensors_of(alike[0], "training") + tensors_of(alike[1], "training") == 1);
}

TEST_CASE("a tensor of a rank leaves the other tensors of its section shared", "[checkpoint]") {
  std::vector<StateDict> states(2);
  const at::Tensor average = at::rand({300'000});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    states[rank].make_section("callbacks").add(whole_piece("average", average));
    states[rank].make_section("callbacks").set("rank", at::full({1}, static_cast<double>(rank)));
  }
  const std::vector<RankShare> shares = divide_all({}, states);
  CHECK(tensors_of(shares[0], "training") + tensors_of(shares[1], "training") == 3);
}

TEST_CASE("copies in another precision are written besides the model", "[checkpoint]") {
  const std::vector<NamedTensor> model{{"a", at::rand({10}).to(at::kBFloat16)}};
  StateDict state;
  state.make_section("model").set("a", at::rand({10}));
  CHECK(tensors_of(divide_all(model, {state})[0], "training") == 1);
}

TEST_CASE("a large model is divided among the ranks, with an index", "[checkpoint]") {
  std::vector<NamedTensor> model;
  for (int i = 0; i < 10; ++i)
    model.push_back({"w" + std::to_string(i), at::empty({16 << 20, 1}, at::kByte)});
  const std::vector<StateDict> states(4);
  const std::vector<RankShare> shares = divide_all(model, states);
  std::map<std::string, std::size_t> files;
  std::size_t tensors = 0;
  for (const RankShare& share : shares) {
    CHECK(share.model_files == shares[0].model_files);
    for (const PlannedFile& file : share.files) {
      if (!file.name.starts_with("model")) continue;
      CHECK(files.emplace(file.name, file.tensors.size()).second);
      tensors += file.tensors.size();
      for (const NamedTensor& named : file.tensors) CHECK(share.model_files.at(named.name) == file.name);
    }
  }
  CHECK(tensors == model.size());
  CHECK(files.size() == 3);  // of 64 MiB each
  CHECK(files.contains("model-00002-of-00003.safetensors"));
}
