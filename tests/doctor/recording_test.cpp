#include "cxtrain/base/error.h"
#include "cxtrain/doctor/facts.h"
#include "doctor/worlds_support.h"
#include "support/catch.h"

namespace cxtrain::test {
namespace {

doctor::Recording parsed(const std::string& text) { return doctor::parse_recording(text, "world.json"); }

constexpr const char* kBases[] = {"laptop",  "cpu_node",   "spawned",  "ethernet", "gpu_node",   "two_nodes",
                                  "cluster", "containers", "emulated", "mig",      "workstation"};

TEST_CASE("a recording comes back as it was") {
  for (const char* base : kBases) {
    INFO(base);
    const WorldJson json = base_world(base);
    const std::string text = to_json(parsed(json.dump()));
    CHECK(to_json(parsed(text)) == text);
    // Nothing was left out: what the file has, in whatever order, is what is written, but for empty texts and
    // objects.
    WorldJson written = WorldJson::parse(text), read = json;
    for (WorldJson* world : {&written, &read}) {
      for (WorldJson& rank : world->at("ranks")) {
        if (rank.contains("planned_gpus") && rank["planned_gpus"].empty()) rank.erase("planned_gpus");
      }
    }
    CHECK(nlohmann::json::parse(written.dump()) == nlohmann::json::parse(read.dump()));
  }
}

TEST_CASE("every kind of fact keeps its value") {
  const doctor::Recording world =
      parsed(R"({"job": {"launcher": "srun", "allocation": {"job": "7", "nodes": 2}},
      "nodes": [{"host": "a", "load": 0.25, "peer_access": [[true, false], [null, true]], "infiniband": [],
                 "output": {"path": "/x", "writable": false}}],
      "ranks": [{"rank": 3, "core_bytes": -1, "environment": {"A": "1"}, "nccl": [{"path": "p", "version": "2"}]}]})");
  CHECK(world.job.allocation->nodes == 2);
  CHECK(world.nodes[0].load == 0.25);
  CHECK(world.nodes[0].peer_access->at(0).at(1) == false);
  CHECK_FALSE(world.nodes[0].peer_access->at(1).at(0).has_value());
  CHECK_THAT(to_json(world), contains("[[true,false],[null,true]]"));
  CHECK(world.nodes[0].infiniband->empty());
  CHECK_FALSE(world.nodes[0].interfaces.has_value());
  CHECK(world.nodes[0].output->writable == false);
  CHECK_FALSE(world.nodes[0].output->exists.has_value());
  CHECK(world.ranks[0].core_bytes == -1);
  CHECK(world.ranks[0].environment->at("A") == "1");
  CHECK(world.ranks[0].nccl->at(0).version == "2");
}

TEST_CASE("what a recording lacks is not known") {
  const doctor::Recording world = parsed("{}");
  CHECK(world.nodes.empty());
  CHECK(world.ranks.empty());
  CHECK_FALSE(world.job.world_size.has_value());
  CHECK_FALSE(parsed(R"({"ranks": [{"pmix": null}]})").ranks[0].pmix.has_value());
}

TEST_CASE("what doctor prints can be judged again") {
  const doctor::Recording world = changed_world("two_nodes", "{}");
  const std::string printed = doctor::to_json(doctor::diagnose(world), world);
  CHECK(to_json(parsed(printed)) == to_json(world));
}

TEST_CASE("a wrong field of a recording is named") {
  struct Case {
    const char *text, *expected;
  };
  const Case cases[] = {
      {R"({"ranks": [{}, {"local_rank": "0"}]})", "ranks[1].local_rank"},
      {R"({"ranks": [{"local_rank": 0.5}]})", "ranks[0].local_rank"},
      {R"({"ranks": [{"local_rank": 3000000000}]})", "ranks[0].local_rank"},
      {R"({"ranks": [{"pid": 18446744073709551615}]})", "ranks[0].pid"},
      {R"({"ranks": [{"pid": -5}]})", "ranks[0].pid"},
      {R"({"ranks": {}})", "ranks: "},
      {R"({"ranks": [{"environment": {"OMP_NUM_THREADS": 4}}]})", "ranks[0].environment.OMP_NUM_THREADS: "},
      {R"({"nodes": [{"output": {"writable": 1}}]})", "nodes[0].output.writable: "},
      {R"({"nodes": [{"load": "high"}]})", "nodes[0].load: "},
      {R"({"nodes": [{"gpus": [{"index": 0}, 7]}]})", "nodes[0].gpus[1]: "},
      {R"({"nodes": [{"hots": "a"}]})", "nodes[0].hots: "},
      {R"({"jobs": {}})", "jobs: "},
      {R"([])", "object"},
      {R"({"ranks": [)", "JSON"},
      {"", "JSON"},
  };
  for (const Case& one : cases) {
    INFO(one.text);
    CHECK_THROWS_AS(parsed(one.text), DataError);
    CHECK_THROWS_WITH(parsed(one.text), contains(one.expected) && contains("world.json"));
  }
}

TEST_CASE("a text that is no UTF-8 does not keep a recording from being written") {
  doctor::Recording world;
  world.ranks.emplace_back().host = "n\xff";
  CHECK(parsed(to_json(world)).ranks.size() == 1);
}

}  // namespace
}  // namespace cxtrain::test
