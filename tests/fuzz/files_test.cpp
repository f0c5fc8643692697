#include <zlib.h>

#include "cxtrain/cli/yaml_config.h"
#include "cxtrain/device/hardware.h"
#include "fuzz/fuzz.h"

namespace cxtrain::test {
namespace {

std::string nested(const std::string& open, const std::string& close, std::size_t depth) {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += open;
  for (std::size_t i = 0; i < depth; ++i) text += close;
  return text;
}

/// Runs `arguments(file)` with damaged variants of the texts in a file of this name.
template <class Arguments>
void damage_file(const char* what, std::size_t stream, std::size_t share,
                 const std::vector<std::string>& texts, const std::vector<std::string>& words,
                 const std::string& name, Arguments arguments) {
  Random random(stream);
  {
    const TempDir folder;
    const ForkedResult whole = fork_program(arguments(folder, folder.write(name, texts.front())));
    INFO(whole.errors);
    CHECK(whole.status == 0);  // so that a refusal is one of the damage
  }
  check_cases(what, share, [&](const TempDir& folder) -> Case {
    const std::string text = random.damage(random.of(texts), words);
    return {arguments(folder, folder.write(name, text)), "the file was: " + text.substr(0, 2000)};
  });
}

TEST_CASE("damaged YAML") {
  Options options;
  options.plugins = {"a.so"};
  options.model.args = {{"hidden", "8"}, {"lr", "0.1"}};
  const std::vector<std::string> texts{to_yaml(Options{}),
                                       to_yaml(options),
                                       "trainer: {max_epochs: 1, devices: [0, 2]}\nmodel: gpt\n",
                                       "model:\n  class_path: digits\n  init_args: {hidden: 4}\n",
                                       "base: &b {x: 1}\ntrainer: *b\n",
                                       ""};
  const std::vector<std::string> words{"&a ",
                                       "*a",
                                       "&b [*b, *b]",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       "- ",
                                       ": ",
                                       "? ",
                                       "---\n",
                                       "...\n",
                                       "%YAML 1.2\n",
                                       "!!binary ",
                                       "|\n",
                                       ">-\n",
                                       "<<: *b",
                                       "\t",
                                       "\n",
                                       "#",
                                       "null",
                                       "~",
                                       "\"",
                                       "'",
                                       "\\x",
                                       "\xff",
                                       std::string(1, '\0'),
                                       nested("[", "]", 60),
                                       nested("{a: ", "}", 60),
                                       nested("[", "", 3000),
                                       nested("- ", "", 2000),
                                       std::string(3000, 'k'),
                                       "&c {c: *c}",
                                       "trainer:\n",
                                       "seed: 1\n",
                                       "max_epochs: nan",
                                       "1e400"};
  damage_file("YAML", 3, 400, texts, words, "c.yaml", [](const TempDir&, const std::string& file) {
    return std::vector<std::string>{"plan", "--config", file};
  });
}

TEST_CASE("damaged hardware JSON") {
  Hardware hardware;
  hardware.nodes.push_back({"n1", 8, {}});
  for (int i = 0; i < 4; ++i)
    hardware.nodes[0].gpus.push_back({i, "GPU-" + std::to_string(i), "H100", 80000, "default", 1, 0, 0});
  hardware.env["CUDA_VISIBLE_DEVICES"] = "0,2";
  const std::vector<std::string> texts{to_json(hardware), R"({"nodes":[{}]})",
                                       R"({"nodes":[{"gpus":[{"index":0}]}]})"};
  const std::vector<std::string> words =
      json_words({"1e400", "9223372036854775808", "2147483648", std::string(1, '\0'), "true", "0.5",
                  "{\"a\":1}", nested("[", "]", 2000), nested("{\"a\":", "}", 500), nested("[", "", 5000),
                  std::string(3000, 'k'), "//", "NaN", "\"nodes\"", "\"gpus\"", "\"env\"", "\"cores\":0"});
  damage_file("hardware", 4, 300, texts, words, "h.json", [](const TempDir&, const std::string& file) {
    return std::vector<std::string>{"plan", "--hardware", file, "--gpus", "2", "--json"};
  });
}

std::string gzipped(const TempDir& dir, const std::string& text) {
  const std::string path = dir.file("packed.gz");
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return slurp(path);
}

std::string digits() {
  std::string text;
  for (int line = 0; line < 40; ++line) {
    for (int pixel = 0; pixel < 64; ++pixel) text += std::to_string((line + pixel) % 17) + ",";
    text += std::to_string(line % 10) + "\n";
  }
  return text;
}

std::string idx(char dimensions, std::uint32_t count, std::size_t bytes_each) {
  std::string text{0, 0, 8, dimensions};
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(count >> shift);
  for (int d = 1; d < dimensions; ++d) text += std::string{0, 0, 0, 28};
  return text + std::string(count * bytes_each, '\3');
}

const std::vector<std::string> kDataWords{",",
                                          "\n",
                                          "-1",
                                          "17",
                                          "1e9",
                                          "99999999999999999999",
                                          "x",
                                          "\r\n",
                                          "\xff\xff\xff\xff",
                                          std::string(8, '\0'),
                                          "\x1f\x8b",
                                          std::string(500, 'z')};

std::vector<std::string> short_run(const std::string& model, const std::string& path) {
  return {"--model", model, "--data.path", path, "--fast_dev_run", "--enable_progress_bar=false"};
}

TEST_CASE("damaged digits, packed or not") {
  const TempDir dir;
  damage_file("digits", 5, 150, {digits(), gzipped(dir, digits()), digits().substr(0, 150)}, kDataWords,
              "digits.csv",
              [](const TempDir&, const std::string& file) { return short_run("digits", file); });
}

TEST_CASE("damaged IDX files") {
  const TempDir dir;
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  damage_file("images", 6, 100, {idx(3, 20, 784), idx(3, 0, 784), gzipped(dir, idx(3, 20, 784))}, kDataWords,
              images, [&](const TempDir& folder, const std::string&) {
                folder.write(labels, idx(1, 20, 1));
                return short_run("mnist", folder.path());
              });
  damage_file("labels", 7, 50, {idx(1, 20, 1), gzipped(dir, idx(1, 20, 1))}, kDataWords, labels,
              [&](const TempDir& folder, const std::string&) {
                folder.write(images, idx(3, 20, 784));
                return short_run("mnist", folder.path());
              });
}

TEST_CASE("damaged texts") {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "a line of some length, and another one\n";
  damage_file("text", 8, 50, {text, gzipped(dir, text), text.substr(0, 500), ""}, kDataWords, "text.txt",
              [](const TempDir&, const std::string& file) {
                std::vector<std::string> run = short_run("gpt", file);
                for (const char* small : {"--model.layers=1", "--model.width=16", "--model.context=16",
                                          "--model.sample_bytes=10"})
                  run.emplace_back(small);
                return run;
              });
}

TEST_CASE("damaged plugins") {
  const std::string whole = slurp(CXTRAIN_TEST_PLUGIN_DIR "/faulty.so");
  REQUIRE(!whole.empty());
  Random random(9);
  check_cases("plugins", 50, [&](const TempDir& folder) -> Case {
    std::string damaged = whole;
    if (random.one_in(2)) {
      damaged.resize(random.below(whole.size()));
    } else {
      for (std::size_t bits = 1 + random.below(8); bits > 0; --bits) {
        char& byte = damaged[random.below(random.one_in(2) ? 4096 : damaged.size())];
        byte = static_cast<char>(byte ^ (1 << random.below(8)));
      }
    }
    return {{"plan", "--plugin", folder.write("p.so", damaged)}};
  });
}

}  // namespace
}  // namespace cxtrain::test
