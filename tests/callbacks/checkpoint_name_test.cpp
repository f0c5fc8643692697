#include "cxtrain/callbacks/checkpoint_name.h"

#include "cxtrain/base/error.h"
#include "support/catch.h"

using namespace cxtrain;

TEST_CASE("checkpoints are named as in Lightning", "[checkpoint]") {
  const std::map<std::string, double> values{
      {"epoch", 3}, {"step", 1200}, {"val_loss", 0.12345}, {"val/acc", 0.5}, {"lr", 1e-5}};
  const auto name = [&](const char* filename) { return checkpoint_name(filename, values, true); };
  CHECK(name("{epoch}-{step}") == "epoch=3-step=1200");
  CHECK(name("{epoch:02d}-{val_loss:.2f}") == "epoch=03-val_loss=0.12");
  CHECK(name("run_{step:06d}") == "run_step=001200");
  CHECK(name("{val/acc:.3f}") == "val_acc=0.500");
  CHECK(name("{lr:.1e}") == "lr=1.0e-05");
  CHECK(name("{val_loss}") == "val_loss=0.12345");
  CHECK(name("{unknown}") == "unknown=0");
  CHECK(name("model") == "model");
  CHECK(checkpoint_name("e{epoch}_{val_loss:.1f}", values, false) == "e3_0.1");
  CHECK(checkpoint_name("{x:.2f}{x}{x:5d}", {{"x", std::numeric_limits<double>::infinity()}}, false) ==
        "infinf  inf");
  CHECK(checkpoint_name("{x:.99f}", {{"x", 1e308}}, false).size() == 409);
}

TEST_CASE("names that lead elsewhere or cannot be filled in are refused", "[checkpoint]") {
  for (const char* filename :
       {"../{epoch}", "a/b", "{epoch", "epoch}", "{}", "{a:.2x}", ".", "..", "{a:%n}"}) {
    CAPTURE(filename);
    CHECK_THROWS_AS(check_name_template(filename), ConfigError);
  }
  CHECK_THROWS_AS(check_name_template("{" + std::string(200'000, 'a') + "}"), ConfigError);
  check_name_template("{val/acc:.2f}-{epoch}");
}
