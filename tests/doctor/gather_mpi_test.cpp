#include "cxtrain/doctor/gather.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include "cxtrain/doctor/report.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

/// One folder for all ranks.
class SharedDir {
 public:
  SharedDir() {
    if (test_world().is_root()) dir_ = std::make_unique<TempDir>();
    path_ = test_world().broadcast(dir_ ? dir_->path() : "", 0);
  }
  ~SharedDir() { test_world().barrier(); }
  SharedDir(const SharedDir&) = delete;
  SharedDir& operator=(const SharedDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::unique_ptr<TempDir> dir_;
  std::string path_;
};

doctor::DoctorInputs own_facts(const std::string& folder) {
  doctor::DoctorInputs own;
  own.plan.world_size = test_world().size();
  own.plan.num_nodes = test_world().facts().num_nodes;
  own.hardware.nodes.emplace_back();
  own.output_folder = folder;
  own.data_path = folder;
  own.rank.data_fingerprint = "same";
  return own;
}

TEST_CASE("the root gets the facts of all ranks and nodes") {
  const SharedDir dir;
  doctor::DoctorInputs own = own_facts(dir.path());
  own.rank.plugin_hashes["of rank"] = std::to_string(test_world().rank());
  const auto begin = std::chrono::steady_clock::now();
  const doctor::Recording world = gather(test_world(), own);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  CHECK(seconds.count() < 20);  // 3 where ranks have cores of their own

  if (!test_world().is_root()) {
    CHECK(world.ranks.empty());
    return;
  }
  const int size = test_world().size();
  CHECK(world.job.world_size == size);
  REQUIRE(static_cast<int>(world.ranks.size()) == size);
  REQUIRE(static_cast<int>(world.nodes.size()) == test_world().facts().num_nodes);
  for (int rank = 0; rank < size; ++rank) {
    const doctor::RankFacts& facts = world.ranks[static_cast<std::size_t>(rank)];
    CHECK(facts.rank == rank);
    CHECK_FALSE(facts.cores.empty());
    CHECK(facts.plugin_hashes.at("of rank") == std::to_string(rank));
    CHECK(facts.program_hash == world.ranks[0].program_hash);
    CHECK(facts.program_hash.size() == 64);
    CHECK_FALSE(facts.mpi_version.empty());
    CHECK_FALSE(facts.mpi_threads.empty());
    CHECK(facts.open_files.has_value());
  }
}

TEST_CASE("what ranks find out together is there") {
  const SharedDir dir;
  const doctor::Recording world = gather(test_world(), own_facts(dir.path()));
  if (!test_world().is_root()) return;
  const bool several = test_world().size() > 1;
  CHECK(world.job.reduce_seconds.has_value() == several);
  CHECK(world.job.small_reduce_seconds.has_value() == several);
  if (several) CHECK(*world.job.small_reduce_seconds > 0);
  if (several) CHECK(*world.job.reduce_seconds > 0);
  const doctor::NodeFacts& node = world.nodes[0];
  REQUIRE(node.output.has_value());
  CHECK(node.output->writable == true);
  CHECK(node.output->sees_root == true);
  CHECK(node.data->readable == true);
  for (const doctor::RankFacts& rank : world.ranks) {
    if (test_world().facts().num_nodes == 1) CHECK(rank.maps_memory_of_others.has_value() == several);
  }
  for (const doctor::NodeFacts& other : world.nodes) {  // of one machine
    constexpr double kDigits = 1e-6;                    // that a time of day has as a double
    CHECK(std::abs(other.clock_offset.value_or(0)) <= other.clock_error.value_or(0) + kDigits);
    CHECK(other.clock_error.value_or(0) < 10);
  }
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("the facts of a good world give no error") {
  const SharedDir dir;
  const doctor::Recording good = gather(test_world(), own_facts(dir.path()));
  doctor::DoctorInputs own = own_facts(dir.path());
  if (test_world().rank() == test_world().size() - 1) own.rank.data_fingerprint = "other";
  const doctor::Recording bad = gather(test_world(), own);
  if (!test_world().is_root()) return;
  const doctor::Diagnosis diagnosis = doctor::diagnose(good);
  INFO(to_text(diagnosis, true));
  CHECK(diagnosis.count(doctor::Severity::error) == 0);
  bool found = false;
  for (const doctor::Finding& finding : doctor::diagnose(bad).findings)
    found = found || (finding.check == "same.data" && finding.severity == doctor::Severity::error);
  CHECK(found == (test_world().size() > 1));
}

TEST_CASE("a folder that a rank cannot have is no obstacle to the others") {
  doctor::DoctorInputs own = own_facts("/proc/none");
  own.data_path = "/none";
  const doctor::Recording world = gather(test_world(), own);
  if (!test_world().is_root()) return;
  CHECK(world.nodes[0].output->writable == false);
  CHECK_FALSE(world.nodes[0].output->sees_root.has_value());
  CHECK(world.nodes[0].data->exists == false);
}

}  // namespace
}  // namespace cxtrain::test
