#include "cxtrain/trainer/checkpointer.h"

#include <map>
#include <numeric>
#include <utility>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/base/text.h"
#include "cxtrain/checkpoint/shard_files.h"
#include "cxtrain/checkpoint/state_json.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/strategy/local_step.h"

namespace cxtrain {
namespace {

/// What a rank has written.
struct Written {
  std::vector<CheckpointFile> files;
  std::string error;

  void fields(auto&& field) { CXTRAIN_EACH(field, files, error); }
};

}  // namespace

bool Checkpointer::begin(const StateDict& state, CheckpointPlan plan, Manifest manifest) {
  const double began = clock_.now();
  plan_ = std::move(plan);
  manifest_ = std::move(manifest);
  manifest_.weights_only = plan_.weights_only;
  stage_ = Stage::writing;
  std::string error;
  try {
    run_agreed(parts_.world, [&] {
      if (parts_.world.is_root()) begin_checkpoint(parts_.files, plan_.path);
    });
    if (stage(state) == Tensors::copies) give_back_freed_memory();
  } catch (const AgreedError& refused) {
    error = refused.what();
  }
  stalled_ = clock_.now() - began;
  return error.empty() || end(error);
}

/// The model's tensors, whole where this rank has them, and for each tensor the ranks that have it; empty if
/// every rank has all.
struct Checkpointer::Whole {
  Tensors tensors = Tensors::of_the_model;
  std::vector<NamedTensor> model;
  std::vector<std::vector<int>> holders = {};
};

/// Collective.
Checkpointer::Whole Checkpointer::whole_tensors() const {
  Whole whole{.model = all_tensors(parts_.model)};
  if (parts_.strategy == nullptr || parts_.strategy->ranks_keep_whole_models()) return whole;
  std::map<std::string, at::Tensor> here;
  for (NamedTensor& named : parts_.strategy->whole_tensors()) here.emplace(named.name, named.tensor);
  std::vector<int> own;  // 1: the tensor is whole here
  for (NamedTensor& named : whole.model) {
    const auto found = here.find(named.name);
    own.push_back(found != here.end() ? 1 : 0);
    if (found == here.end() || found->second.is_same(named.tensor)) continue;
    whole.tensors = Tensors::copies;
    named.tensor = found->second;
  }
  whole.holders.resize(whole.model.size());
  const std::vector<std::vector<int>> ranks = gather_values(parts_.world, own);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t i = 0; i < whole.holders.size(); ++i)
      if (ranks[rank][i] == 1) whole.holders[i].push_back(static_cast<int>(rank));
  }
  return whole;
}

/// Copies this rank's part and begins to write it. What fails on any rank is an AgreedError on all.
Checkpointer::Tensors Checkpointer::stage(const StateDict& state) {
  const Whole whole = whole_tensors();
  const std::vector<NamedTensor>& model = whole.model;
  const RankShare share =
      shard_files({.rank = parts_.world.rank(),
                   .ranks = parts_.world.size(),
                   .model = model,
                   .holders = whole.holders,
                   .state = plan_.weights_only ? nullptr : &state,
                   .of_each_rank = parts_.of_each_rank,
                   .exchange = [this](const std::string& own) { return parts_.world.all_gather(own); }});
  run_agreed(parts_.world, [&] {
    staging_.begin(share.files, static_cast<std::size_t>(plan_.staging));
    staging_.next();
  });
  index_.reset();
  if (parts_.world.is_root()) {
    if (!plan_.weights_only) manifest_.state = to_json(state);
    std::set<std::string> files;
    for (const auto& [name, file] : share.model_files) files.insert(file);
    const std::uint64_t bytes = std::accumulate(
        model.begin(), model.end(), std::uint64_t{0},
        [](std::uint64_t sum, const NamedTensor& named) { return sum + named.tensor.nbytes(); });
    if (files.size() > 1) index_ = index_json(share.model_files, bytes);
  }
  write_in_rounds();
  return whole.tensors;
}

/// Training stands still during all rounds but the last one. An error of a round is the task's.
void Checkpointer::write_in_rounds() {
  written_.clear();
  writer_.emplace(parts_.files, plan_.path);
  for (;;) {
    const bool last = !staging_.has_next();
    task_.start([this, last](const std::function<bool()>& go_on) { write_round(last, go_on); });
    if (last) return;
    const Watchdog::Wait wait(parts_.world.watchdog(), "writing a checkpoint");
    if (!task_.finish().empty()) return;
    staging_.next();
  }
}

/// On the task's thread.
void Checkpointer::write_round(bool last, const std::function<bool()>& go_on) {
  std::vector<Staging::File> content(staging_.files().begin(), staging_.files().end());
  if (last && index_) content.push_back({kIndexFile, *index_});
  if (writer_->append(content, go_on) && last) written_ = writer_->finish();
}

std::optional<bool> Checkpointer::proceed() {
  if (stage_ == Stage::idle) return std::nullopt;
  const PhaseScope phase(Phase::checkpoint);
  const std::string own_error = task_.finish();
  if (stage_ == Stage::writing) last_seconds_ = stalled_ + task_.seconds();
  if (stage_ == Stage::publishing) return end(parts_.world.broadcast(own_error));
  std::string error;
  for (const Written& of_rank : gather_values_on_root(parts_.world, Written{written_, own_error})) {
    manifest_.files.insert(manifest_.files.end(), of_rank.files.begin(), of_rank.files.end());
    if (error.empty()) error = of_rank.error;
  }
  error = parts_.world.broadcast(error);
  if (!error.empty()) return end(error);
  stage_ = Stage::publishing;
  if (parts_.world.is_root()) task_.start([this](const std::function<bool()>&) { publish(); });
  return std::nullopt;
}

/// On the task's thread, of rank 0.
void Checkpointer::publish() {
  publish_checkpoint(parts_.files, plan_.path, manifest_);
  const auto attempt = [](const char* failure, const auto& work) {
    try {
      work();
    } catch (const FileError& error) {
      log_warning(failure + message_of(error));
    }
  };
  if (!plan_.link.empty()) {
    attempt("no link leads to the newest checkpoint: ",
            [this] { link_checkpoint(parts_.files, plan_.path, plan_.link); });
  }
  for (const std::string& path : plan_.remove)
    attempt("an older checkpoint stays: ", [&] { remove_checkpoint(parts_.files, path); });
}

/// A disk that is full refuses each attempt, of which there may be many in a second.
void Checkpointer::warn_of_failure(const std::string& message) {
  constexpr double kEvery = 30;  // s
  const double now = clock_.now();
  if (now < next_warning_) return log_detail(message);
  next_warning_ = now + kEvery;
  log_warning(message);
}

/// Returns whether the checkpoint is complete.
bool Checkpointer::end(const std::string& error) {
  stage_ = Stage::idle;
  writer_.reset();
  if (error.empty()) {
    last_seconds_ += task_.seconds();
    log_saved();
  } else if (parts_.world.is_root()) {
    warn_of_failure("no checkpoint was written, and the ones before it stay: " + error);
    try {
      remove_checkpoint(parts_.files, plan_.path + kPartSuffix);
    } catch (const FileError&) {
      // A disk that fails cannot be tidied up; the next attempt does.
    }
  }
  return error.empty();
}

std::optional<bool> Checkpointer::finish() {
  std::optional<bool> complete;
  while (under_way()) {
    const PhaseScope phase(Phase::checkpoint);
    {
      const Watchdog::Wait wait(parts_.world.watchdog(), "writing a checkpoint");
      task_.wait();
    }
    parts_.world.barrier();
    complete = proceed();
  }
  return complete;
}

void Checkpointer::log_saved() const {
  if (!parts_.world.is_root()) return;
  const double seconds = last_seconds_, megabytes = static_cast<double>(manifest_.bytes()) / 1e6;
  log_detail("checkpoint " + plan_.path +
             formatted(": %.3f MB in %.3f s, %.0f MB/s; training stood still for %.3f s", megabytes, seconds,
                       megabytes / seconds, stalled_));
  log_event({.event = RunEvent::Kind::checkpoint,
             .step = manifest_.global_step,
             .seconds = seconds,
             .stalled = stalled_,
             .text = plan_.path});
}

}  // namespace cxtrain
