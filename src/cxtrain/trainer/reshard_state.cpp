#include "cxtrain/trainer/reshard_state.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "cxtrain/base/transformed.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/trainer/generators.h"

namespace cxtrain {
namespace {

/// Adds the pieces, of all sections, that `into` lacks.
void add_missing(StateDict& into, const StateDict& from) {
  const auto place = [](const Piece& piece) {
    return std::tuple(piece.name, piece.range.begin, piece.range.end);
  };
  std::set<std::tuple<std::string, std::int64_t, std::int64_t>> own;
  for (const Piece& piece : into.pieces()) own.insert(place(piece));
  for (const Piece& piece : from.pieces()) {
    if (own.insert(place(piece)).second) into.add(piece);
  }
  for (const auto& [name, section] : from.sections()) add_missing(into.make_section(name), section);
}

/// The sections whose tensors ranks may divide.
void add_divided(StateDict& into, const StateDict& from) {
  for (const char* divided : {"model", "optimization", "callbacks"})
    add_missing(into.make_section(divided), from.section(divided));
}

/// Makes each tensor of the sections `kMeanOfRanks`, at any depth, the mean over all ranks.
void take_means(StateDict& state, const std::vector<const StateDict*>& of_ranks) {
  for (const std::string& name : transformed(state.sections(), [](const auto& each) { return each.first; })) {
    const auto sections =
        transformed(of_ranks, [&](const StateDict* of_rank) { return &of_rank->section(name); });
    if (name != kMeanOfRanks) {
      take_means(state.make_section(name), sections);
      continue;
    }
    StateDict means;
    for (const Piece& piece : sections.front()->pieces()) {
      at::Tensor sum = sections.front()->tensor(piece.name).clone();
      for (std::size_t rank = 1; rank < sections.size(); ++rank) sum.add_(sections[rank]->tensor(piece.name));
      means.set(piece.name, sum.div_(static_cast<double>(sections.size())));
    }
    state.make_section(name) = std::move(means);
  }
}

std::int64_t elements(const Piece& piece, const Piece& within) {
  if (piece.name != within.name) return 0;
  return std::max<std::int64_t>(
      0, std::min(piece.range.end, within.range.end) - std::max(piece.range.begin, within.range.begin));
}

}  // namespace

bool covers(const StateDict& state, const std::vector<Piece>& parameters) {
  std::map<std::string_view, std::vector<const Piece*>> saved;
  for (const Piece& piece : state.section("model").section("parameters").pieces())
    saved[piece.name].push_back(&piece);
  return std::ranges::all_of(parameters, [&](const Piece& wanted) {
    std::int64_t found = 0;
    for (const Piece* piece : saved[wanted.name]) found += elements(*piece, wanted);
    return found >= wanted.range.size();
  });
}

void add_pieces_of_other_ranks(StateDict& state, CheckpointReader& checkpoint, const World& world) {
  for (int rank = 0; rank < checkpoint.manifest().world_size; ++rank) {
    if (rank != world.rank()) add_divided(state, checkpoint.state(rank));
  }
}

StateDict reshard_state(CheckpointReader& checkpoint, const World& world) {
  const Manifest& manifest = checkpoint.manifest();
  std::vector<StateDict> saved;
  for (int rank = 0; rank < manifest.world_size; ++rank) saved.push_back(checkpoint.state(rank));
  if (manifest.batch > 0 && saved.front().has_section("stream"))
    throw StateError(
        "it was saved within an epoch of a stream, of which each of the " +
            std::to_string(manifest.world_size) + " ranks had read a part of its own, and this run has " +
            std::to_string(world.size()) + " ranks; use as many ranks, or a checkpoint of an epoch's end",
        MessageCode::model_mismatch);
  const auto metrics =
      transformed(saved, [](const StateDict& of_rank) { return of_rank.section("metrics"); });

  StateDict state = saved.front();
  for (std::size_t rank = 1; rank < saved.size(); ++rank) add_divided(state, saved[rank]);
  take_means(state.make_section("strategy"),
             transformed(saved, [](const StateDict& of_rank) { return &of_rank.section("strategy"); }));
  state.make_section("metrics") = MetricStore::for_other_ranks(metrics, world.rank());
  state.make_section("generators") =
      Generators::new_beginning(manifest.seed, manifest.global_step, world.rank(), world.size());
  if (!world.is_root()) state.make_section("loggers") = {};
  return state;
}

}  // namespace cxtrain
