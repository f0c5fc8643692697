#include "cxtrain/cli/checkpoint_command.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/weights_support.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/checkpoint/weights.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain::test {
namespace {

struct Answer {
  int status;
  std::string text;
};

Answer ask(FaultyFilesystem& files, const std::vector<const char*>& words) {
  std::ostringstream out;
  const int status = run_checkpoint_command(words, files, out);
  return {status, out.str()};
}

void put_weights(FaultyFilesystem& files) {
  put_file(
      files, "/a",
      safetensors_of({{"fc.weight", at::arange(6, at::kFloat).view({2, 3})}, {"fc.b\nias", at::arange(2)}},
                     {{"format", "pt"}}));
  put_file(files, "/b", safetensors_of({{"fc.weight", at::full({2, 3}, 1.0)}, {"more", at::arange(2)}}));
}

TEST_CASE("checkpoint inspect lists tensors") {
  FaultyFilesystem files;
  put_weights(files);
  const Answer table = ask(files, {"inspect", "/a"});
  CHECK(table.status == 0);
  CHECK(table.text ==
        "/a: safetensors, 2 tensors, 8 elements, 40 bytes\n"
        "  format: pt\n"
        "name       dtype    shape            bytes\n"
        "fc.weight  float32  [2, 3]              24\n"
        "fc.b?ias   int64    [2]                 16\n");
  const auto json = nlohmann::json::parse(ask(files, {"inspect", "/a", "--json"}).text);
  CHECK(json["bytes"] == 40);
  CHECK(json["metadata"]["format"] == "pt");
  CHECK(json["tensors"][1]["name"] == "fc.b\nias");
  CHECK(json["tensors"][0]["shape"] == nlohmann::json({2, 3}));
  CHECK(json["tensors"][0]["dtype"] == "float32");
}

TEST_CASE("checkpoint diff tells differences, and by its status") {
  FaultyFilesystem files;
  put_weights(files);
  const Answer same = ask(files, {"diff", "/a", "/a"});
  CHECK(same.status == 0);
  CHECK(same.text == "equal: 2 tensors, to the last bit\n");
  const Answer other = ask(files, {"diff", "/a", "/b"});
  CHECK(other.status == 1);
  CHECK(other.text ==
        "fc.b?ias: only in /a\n"
        "more: only in /b\n"
        "fc.weight: 5 elements differ, the largest difference is 4; the first at [0, 0]: 0 and 1\n");
  const Answer json = ask(files, {"diff", "--json", "/a", "/b"});
  CHECK(json.status == 1);
  const auto read = nlohmann::json::parse(json.text);
  CHECK(read["equal"] == false);
  CHECK(read["only_in_second"] == nlohmann::json({"more"}));
  CHECK(read["different"][0]["largest"] == 4);
}

TEST_CASE("checkpoint export converts there and back") {
  FaultyFilesystem files;
  put_weights(files);
  CHECK(ask(files, {"export", "/a", "--torch", "/t", "--safetensors=/s"}).text ==
        "/s: 2 tensors\n/t: 2 tensors\n");
  CHECK(open_weights(files, "/t").format == "PyTorch");
  CHECK(open_weights(files, "/s").format == "safetensors");
  CHECK(ask(files, {"diff", "/t", "/a"}).status == 0);
  CHECK(ask(files, {"diff", "/s", "/a"}).status == 0);
}

TEST_CASE("checkpoint inspect shows nothing that steers a terminal") {
  FaultyFilesystem files;
  files.make_directory("/c.ckpt");
  Manifest manifest;
  manifest.model = "digits\x1b]0;title\a";
  write_atomically(files, "/c.ckpt/manifest.json", to_text(manifest));
  put_file(files, "/c.ckpt/model.safetensors", safetensors_of({{"fc.bias", at::arange(2)}}));
  CHECK_THAT(ask(files, {"inspect", "/c.ckpt"}).text, contains("model digits?]0;title?"));
}

TEST_CASE("checkpoint's command line is checked") {
  FaultyFilesystem files;
  put_weights(files);
  const auto refused = [&](const std::vector<const char*>& words, MessageCode reason,
                           const std::string& why) {
    try {
      ask(files, words);
      FAIL("it was not refused");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::refused);
      CHECK_THAT(printed(error), contains(code(reason)) && contains(why));
    }
  };
  refused({}, MessageCode::unknown_option, "inspect, ");
  refused({"inspekt", "/a"}, MessageCode::unknown_option, "'inspekt' (did you mean inspect?)");
  refused({"inspect"}, MessageCode::out_of_range, "1 path, found 0");
  refused({"inspect", "/a", "/b"}, MessageCode::out_of_range, "1 path, found 2");
  refused({"diff", "/a"}, MessageCode::out_of_range, "2 paths, found 1");
  refused({"inspect", "/a", "--torch", "/t"}, MessageCode::unknown_option, "--torch: ");
  refused({"export", "/a", "--json"}, MessageCode::unknown_option, "--json: ");
  refused({"inspect", "/a", "-json"}, MessageCode::unknown_option, "-json: ");
  refused({"export", "/a"}, MessageCode::missing_value, "--safetensors FILE or --torch FILE");
  refused({"export", "/a", "--torch"}, MessageCode::missing_value, "--torch: ");
  refused({"export", "/a", "--torch="}, MessageCode::missing_value, "--torch: ");
  refused({"export", "/a", "--torch", "/no/folder"}, MessageCode::file_failed, "'/no/folder'");
  refused({"inspect", "/none"}, MessageCode::checkpoint_missing, "'/none'");
  CHECK_THAT(ask(files, {"--help"}).text, contains("inspect PATH [--json]"));
}

}  // namespace
}  // namespace cxtrain::test
