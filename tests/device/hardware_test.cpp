#include <sched.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "support/catch.h"
#include "support/error_text.h"

#include "cxtrain/base/error.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/device/nvml.h"
#include "support/random_texts.h"

using namespace cxtrain;

namespace {

std::string refusal(const std::string& text) {
  return cxtrain::test::error_of<DataError>([&] { parse_hardware(text, "hw.json"); });
}

}  // namespace

TEST_CASE("the last node's entry stands for all further ones", "[device]") {
  Hardware hardware;
  CHECK_THROWS_AS(hardware.node(0), std::logic_error);
  hardware.nodes = {{"a", 1, {}}, {"b", 2, {}}};
  CHECK(hardware.node(0).hostname == "a");
  CHECK(hardware.node(1).hostname == "b");
  CHECK(hardware.node(7).hostname == "b");
}

TEST_CASE("this machine has a name and the cores of its affinity mask", "[device]") {
  const Hardware hardware = probe_hardware();
  REQUIRE(hardware.nodes.size() == 1);
  CHECK_FALSE(hardware.nodes[0].hostname.empty());
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  CHECK(hardware.nodes[0].cores == CPU_COUNT(&all));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(probe_hardware().nodes[0].cores == 1);
  REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
}

TEST_CASE("no management library, or one that is another, means no GPUs", "[device]") {
  CHECK(read_gpus_from_nvml("libno_such_driver.so.1").empty());
  CHECK(read_gpus_from_nvml("libm.so.6").empty());
}

TEST_CASE("a hardware file reads back as it was printed", "[device]") {
  const std::string text =
      R"({"nodes":[{"hostname":"n1","cores":32,"gpus":[{"index":3,"uuid":"GPU-a","name":"NVIDIA H100",)"
      R"("memory_total_mib":81559,"memory_used_mib":4,"utilization":7,"compute_mode":"default","processes":2}]},)"
      R"({"hostname":"n2","cores":8,"gpus":[]}],"env":{"CUDA_VISIBLE_DEVICES":"2,3"}})";
  const Hardware hardware = parse_hardware(text, "hw.json");
  CHECK(hardware.nodes.at(0).gpus.at(0).index == 3);
  CHECK(hardware.nodes.at(0).gpus.at(0).memory_total_mib == 81559);
  CHECK(hardware.env.at("CUDA_VISIBLE_DEVICES") == "2,3");
  CHECK(to_json(hardware) == text);
}

/// Any hardware that a file can hold.
Hardware random_hardware(unsigned seed) {
  test::RandomTexts random(seed);
  const auto number = [&](std::int64_t most) {
    return random.chance(4) ? most : static_cast<std::int64_t>(random.pick(1000));
  };
  const auto perhaps = [&](auto value) { return random.chance(2) ? std::nullopt : std::optional(value); };
  constexpr int kMax = std::numeric_limits<int>::max();
  Hardware hardware;
  for (std::size_t nodes = 1 + random.pick(4); nodes > 0; --nodes) {
    Node node{"n" + random.text(), 1 + static_cast<int>(number(kMax - 1)), {}};
    for (std::size_t gpus = random.pick(4); gpus > 0; --gpus) {
      node.gpus.push_back({.index = static_cast<int>(10 * gpus + random.pick(10)),
                           .uuid = random.text(),
                           .name = random.text(),
                           .memory_total_mib = number(std::numeric_limits<std::int64_t>::max()),
                           .compute_mode = random.text(),
                           .memory_used_mib = perhaps(number(std::numeric_limits<std::int64_t>::max())),
                           .utilization = perhaps(static_cast<int>(number(kMax))),
                           .processes = perhaps(static_cast<int>(number(kMax)))});
    }
    hardware.nodes.push_back(node);
  }
  for (std::size_t variables = random.pick(4); variables > 0; --variables)
    hardware.env[random.text()] = random.text();
  return hardware;
}

TEST_CASE("any hardware as JSON reads back as itself", "[device]") {
  const auto fields = [](const Gpu& gpu) {
    return std::tie(gpu.index, gpu.uuid, gpu.name, gpu.memory_total_mib, gpu.memory_used_mib, gpu.utilization,
                    gpu.compute_mode, gpu.processes);
  };
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Hardware hardware = random_hardware(seed);
    const std::string text = to_json(hardware);
    CAPTURE(seed, text);
    const Hardware again = parse_hardware(text, "hw.json");
    REQUIRE(again.env == hardware.env);
    REQUIRE(again.nodes.size() == hardware.nodes.size());
    for (std::size_t n = 0; n < hardware.nodes.size(); ++n) {
      const Node &before = hardware.nodes[n], &after = again.nodes[n];
      REQUIRE(after.hostname == before.hostname);
      REQUIRE(after.cores == before.cores);
      REQUIRE(std::equal(after.gpus.begin(), after.gpus.end(), before.gpus.begin(), before.gpus.end(),
                         [&](const Gpu& a, const Gpu& b) { return fields(a) == fields(b); }));
    }
    REQUIRE(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("a hardware file may be short", "[device]") {
  const Hardware hardware =
      parse_hardware(R"({"nodes":[{"gpus":[{"index":0}]}],"comment":"more"})", "hw.json");
  CHECK(hardware.nodes[0].cores == 1);
  const Gpu& gpu = hardware.nodes[0].gpus[0];
  CHECK(gpu.compute_mode == "default");
  CHECK_FALSE(gpu.processes.has_value());
  CHECK_FALSE(gpu.memory_used_mib.has_value());
  CHECK_FALSE(gpu.utilization.has_value());
  for (const char* not_known : {"processes", "memory_used_mib", "utilization"})
    CHECK_THAT(to_json(hardware), !test::contains(not_known));
}

TEST_CASE("a damaged hardware file is refused by file and field", "[device]") {
  CHECK_THAT(refusal("{\n\"nodes\": [\n}"), test::contains(test::code(MessageCode::invalid_file)) &&
                                                test::contains("hw.json:") && test::contains("line 3") &&
                                                test::contains("JSON"));
  CHECK_THAT(refusal("[]"), test::contains(test::code(MessageCode::invalid_file)) &&
                                test::contains("hw.json") && test::contains("found []"));
  CHECK_THAT(refusal("{}"), test::contains(test::code(MessageCode::invalid_file)) &&
                                test::contains("'nodes'") && test::contains("hw.json"));
  CHECK_THAT(refusal(R"({"nodes":[]})"), test::contains(test::code(MessageCode::invalid_file)) &&
                                             test::contains("hw.json") && test::contains("nodes:") &&
                                             test::contains("found none"));
  CHECK_THAT(refusal(R"({"nodes":[{"cores":"many"}]})"),
             test::contains(test::code(MessageCode::invalid_file)) && test::contains("hw.json") &&
                 test::contains("nodes[0].cores:") && test::contains("found \"many\""));
  CHECK_THAT(refusal(R"({"nodes":[{"cores":0}]})"), test::contains(test::code(MessageCode::invalid_file)) &&
                                                        test::contains("nodes[0].cores:") &&
                                                        test::contains("at least 1, found 0"));
  CHECK_THAT(refusal(R"({"nodes":[{"gpus":[{"uuid":"GPU-a"}]}]})"),
             test::contains(test::code(MessageCode::invalid_file)) && test::contains("nodes[0].gpus[0]:") &&
                 test::contains("'index'"));
  CHECK_THAT(refusal(R"({"nodes":[{"gpus":[{"index":-1}]}]})"),
             test::contains(test::code(MessageCode::invalid_file)) && test::contains("found -1"));
  CHECK_THAT(refusal(R"({"nodes":[{"gpus":[{"index":1},{"index":1}]}]})"),
             test::contains(test::code(MessageCode::invalid_file)) && test::contains("gpus[1]:") &&
                 test::contains("index 1"));
  CHECK_THAT(refusal(R"({"nodes":[{}],"env":{"CUDA_VISIBLE_DEVICES":2}})"),
             test::contains(test::code(MessageCode::invalid_file)) &&
                 test::contains("env.CUDA_VISIBLE_DEVICES:") && test::contains("found 2"));
}

TEST_CASE("hardware files that are nested without end, or hold no numbers", "[device]") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK_THAT(refusal(deep), test::contains(test::code(MessageCode::invalid_file)) &&
                                test::contains("hw.json") && test::contains("found a list"));
  CHECK_THAT(refusal("{\"nodes\":[{\"cores\":" + deep + "}]}"),
             test::contains(test::code(MessageCode::invalid_file)) && test::contains("hw.json") &&
                 test::contains("nodes[0].cores:") && test::contains("found a list"));
  CHECK(parse_hardware("{\"nodes\":[{}],\"comment\":" + deep + "}", "hw.json").nodes.size() == 1);
  CHECK_THAT(refusal(R"({"nodes":[{"cores":1e400}]})"),
             test::contains(test::code(MessageCode::invalid_file)) && test::contains("'1e400'") &&
                 test::contains("hw.json"));
  CHECK_THAT(refusal("{"), !test::contains("json.exception"));
  CHECK(refusal("{\"nodes\":" + std::string(1'000'000, 'x')).size() < 1000);
}
