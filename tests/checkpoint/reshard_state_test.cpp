#include "cxtrain/trainer/reshard_state.h"

#include <ATen/Functions.h>

#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/checkpoint/safetensors.h"
#include "cxtrain/checkpoint/shard_files.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/tensor/host_bytes.h"
#include "support/catch.h"
#include "support/faulty_filesystem.h"

namespace cxtrain {
namespace {

/// Counts what is read of a checkpoint, in bytes.
class CountingFiles final : public FaultyFilesystem {
 public:
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    return std::make_unique<Reader>(FaultyFilesystem::open(path), read_);
  }
  std::uint64_t take_count() { return std::exchange(read_, 0); }

 private:
  class Reader final : public ReadableFile {
   public:
    Reader(std::unique_ptr<ReadableFile> file, std::uint64_t& read) : file_(std::move(file)), read_(read) {}
    std::uint64_t size() const override { return file_->size(); }
    std::size_t read(std::uint64_t offset, std::span<char> bytes) const override {
      read_ += bytes.size();
      return file_->read(offset, bytes);
    }

   private:
    std::unique_ptr<ReadableFile> file_;
    std::uint64_t& read_;
  };
  std::uint64_t read_ = 0;
};

/// Rows of a matrix [8, 1000], of which each of two ranks has half.
Piece half(const at::Tensor& matrix, int rank) {
  return part_of("moment", matrix, {rank * 4000, (rank + 1) * 4000});
}

/// Sections in which each rank may have something of its own.
constexpr const char* kOfRanks[] = {"callbacks", "module", "data"};

/// What one of two ranks saves.
StateDict state_of(int rank, const at::Tensor& moments) {
  StateDict state;
  for (const char* section : {"model", "generators", "loggers"}) state.make_section(section);
  for (const char* section : kOfRanks) {
    StateDict& own = state.make_section(section);
    own.set("of_rank", std::int64_t{rank});
    own.set("memory", at::full({3}, static_cast<double>(rank)));
  }
  MetricStore().save(state.make_section("metrics"));
  state.make_section("optimization").add(half(moments, rank));
  StateDict& memory = state.make_section("strategy").make_section("exchange_0");
  memory.make_section(kMeanOfRanks).set("layer", at::full({2, 3}, rank == 0 ? 1.0 : 5.0));
  memory.make_section("q").set("layer", at::ones({3}));
  return state;
}

/// Writes a checkpoint of two ranks; returns its manifest.
Manifest write_checkpoint(CountingFiles& files, const at::Tensor& moments) {
  Manifest manifest;
  manifest.world_size = 2;
  make_directories(files, "/c");
  for (int rank = 0; rank < 2; ++rank) {
    const StateDict state = state_of(rank, moments);
    const RankShare share =
        shard_files({.rank = rank,
                     .ranks = 2,
                     .model = {},
                     .state = &state,
                     .of_each_rank = {"strategy", "optimization"},
                     .exchange = [](const std::string& own) {
                       return std::vector<std::string>{own, "{}"};  // no section is equal on both ranks
                     }});
    for (const PlannedFile& planned : share.files) {
      std::string content = safetensors_header(lay_out(planned.tensors), planned.metadata);
      for (const NamedTensor& named : planned.tensors) {
        const auto bytes = host_bytes(on_host(named.tensor));
        content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
      put_file(files, "/c/" + planned.name, content);
      manifest.files.push_back({planned.name, content.size(), checksum_of(content)});
    }
  }
  return manifest;
}

TEST_CASE("another number of ranks reads what it needs of the state, and no more", "[checkpoint]") {
  CountingFiles files;
  const at::Tensor moments = at::rand({8, 1000});
  CheckpointReader reader(files, "/c", write_checkpoint(files, moments));
  SoloWorld world;
  const StateDict state = reshard_state(reader, world);
  files.take_count();
  // A third of the matrix, across the border of the two halves.
  const at::Tensor third = at::zeros({2667});
  const Piece target{"moment", third, {8, 1000}, {2666, 5333}};
  fill_pieces({{target}}, state.section("optimization").pieces());
  CHECK(third.equal(moments.view(-1).slice(0, 2666, 5333)));
  CHECK(files.take_count() == third.nbytes());
  const at::Tensor whole = at::zeros({1000, 8}).t();  // with other strides than the file
  fill_pieces({{whole_piece("moment", whole)}}, state.section("optimization").pieces());
  CHECK(whole.equal(moments));
  CHECK(files.take_count() == whole.nbytes());
}

TEST_CASE("another number of ranks gets the mean of what each rank remembers for itself", "[checkpoint]") {
  CountingFiles files;
  CheckpointReader reader(files, "/c", write_checkpoint(files, at::rand({8, 1000})));
  SoloWorld world;
  const StateDict memory = reshard_state(reader, world).section("strategy").section("exchange_0");
  CHECK(memory.section(kMeanOfRanks).tensor("layer").equal(at::full({2, 3}, 3.0)));
  CHECK(memory.section("q").tensor("layer").equal(at::ones({3})));
}

TEST_CASE("the state of callbacks, model and data is a rank's own, and rank 0's on another number of ranks",
          "[checkpoint]") {
  CountingFiles files;
  CheckpointReader reader(files, "/c", write_checkpoint(files, at::rand({8, 1000})));
  SoloWorld world;
  const StateDict alone = reshard_state(reader, world), second = reader.state(1);
  for (const char* section : kOfRanks) {
    CAPTURE(section);
    CHECK(alone.section(section).integer("of_rank") == 0);
    CHECK(alone.section(section).tensor("memory").equal(at::zeros({3})));
    CHECK(second.section(section).integer("of_rank") == 1);
    CHECK(second.section(section).tensor("memory").equal(at::ones({3})));
  }
}

}  // namespace
}  // namespace cxtrain
