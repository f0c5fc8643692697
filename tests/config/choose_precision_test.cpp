#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

struct AskedPrecision {
  const char *precision = nullptr, *level = nullptr, *backend = nullptr;
  std::optional<bool> use_amp = std::nullopt;
};

Plan precision_plan(const AskedPrecision& asked, int gpus, const char* strategy = nullptr) {
  Options options;
  if (asked.precision) options.trainer.precision = asked.precision;
  if (asked.level) options.trainer.amp_level = asked.level;
  if (asked.backend) options.trainer.amp_backend = asked.backend;
  if (strategy) options.trainer.strategy = strategy;
  options.trainer.use_amp = asked.use_amp;
  return resolve(options, machine(gpus), {});
}

}  // namespace

TEST_CASE("precision, amp_level, amp_backend and use_amp together", "[config]") {
  struct Row {
    AskedPrecision asked;
    const char *gpu, *cpu, *level;
    const char* warning;  // the option that warns, on a GPU
  };
  const Row row = GENERATE(
      Row{{}, "32-true", "32-true", "", ""}, Row{{.precision = "16"}, "16-mixed", "bf16-mixed", "", ""},
      Row{{.precision = "16-mixed"}, "16-mixed", "16-mixed", "", ""},
      Row{{.precision = "bf16"}, "bf16-mixed", "bf16-mixed", "", ""},
      Row{{.precision = "bf16-mixed"}, "bf16-mixed", "bf16-mixed", "", ""},
      Row{{.precision = "16-true"}, "16-true", "16-true", "", ""},
      Row{{.precision = "bf16-true"}, "bf16-true", "bf16-true", "", ""},
      Row{{.precision = "32"}, "32-true", "32-true", "", ""},
      Row{{.precision = "32-true"}, "32-true", "32-true", "", ""},
      Row{{.precision = "64"}, "64-true", "64-true", "", ""},
      Row{{.precision = "64-true"}, "64-true", "64-true", "", ""},
      Row{{.level = "O0"}, "32-true", "32-true", "O0", ""},
      Row{{.level = "O1"}, "16-mixed", "16-mixed", "O1", ""},
      Row{{.level = "O2"}, "16-mixed", "16-mixed", "O2", ""},
      Row{{.level = "O3"}, "16-true", "16-true", "O3", ""},
      Row{{.precision = "16", .level = "O1"}, "16-mixed", "16-mixed", "O1", ""},
      Row{{.precision = "16", .level = "O2", .backend = "apex"}, "16-mixed", "16-mixed", "O2", ""},
      Row{{.precision = "16", .level = "O2", .backend = "native"},
          "16-mixed",
          "16-mixed",
          "O2",
          "amp_backend"},
      Row{{.precision = "16", .level = "O0"}, "32-true", "32-true", "O0", ""},
      Row{{.precision = "32", .level = "O2"}, "32-true", "32-true", "", "amp_level"},
      Row{{.precision = "32", .level = "O0"}, "32-true", "32-true", "", ""},
      Row{{.precision = "64", .level = "O1"}, "64-true", "64-true", "", "amp_level"},
      Row{{.precision = "bf16", .level = "O2"}, "bf16-mixed", "bf16-mixed", "", "amp_level"},
      Row{{.precision = "16-true", .level = "O3"}, "16-true", "16-true", "", ""},
      Row{{.precision = "16", .backend = "apex"}, "16-mixed", "bf16-mixed", "O2", "amp_backend"},
      Row{{.precision = "16", .backend = "native"}, "16-mixed", "bf16-mixed", "", ""},
      Row{{.precision = "32", .backend = "apex"}, "32-true", "32-true", "", "amp_backend"},
      Row{{.backend = "apex"}, "32-true", "32-true", "", "amp_backend"},
      Row{{.backend = "native"}, "32-true", "32-true", "", ""},
      Row{{.use_amp = true}, "16-mixed", "bf16-mixed", "", ""},
      Row{{.use_amp = false}, "32-true", "32-true", "", ""},
      Row{{.level = "O2", .use_amp = false}, "32-true", "32-true", "", "amp_level"},
      Row{{.precision = "32", .level = "O2", .use_amp = false}, "32-true", "32-true", "", "amp_level"},
      Row{{.level = "O1", .use_amp = true}, "16-mixed", "16-mixed", "O1", ""});
  CAPTURE(row.asked.precision ? row.asked.precision : "-", row.asked.level ? row.asked.level : "-",
          row.asked.backend ? row.asked.backend : "-");
  const Plan gpu = precision_plan(row.asked, 1), cpu = precision_plan(row.asked, 0);
  INFO(all(gpu.errors) << all(gpu.warnings));
  REQUIRE(gpu.ok());
  CHECK(gpu.precision == row.gpu);
  CHECK(gpu.amp_level == row.level);
  CHECK(cpu.precision == row.cpu);
  CHECK(gpu.warnings.size() == (*row.warning ? 1 : 0));
  if (*row.warning) CHECK(gpu.warnings.at(0).option == row.warning);
}

TEST_CASE("what the warnings about precision say", "[config]") {
  CHECK_THAT(all(precision_plan({.precision = "16"}, 0).warnings),
             test::contains("precision:") && test::contains("--precision") && test::contains("precision=16"));
  CHECK_THAT(
      all(precision_plan({.level = "O2", .use_amp = false}, 1).warnings),
      test::contains("amp_level:") && test::contains("amp_level=O2") && test::contains("use_amp=false"));
  CHECK_THAT(
      all(precision_plan({.precision = "bf16", .level = "O2"}, 1).warnings),
      test::contains("amp_level:") && test::contains("amp_level=O2") && test::contains("precision=bf16"));
  CHECK_THAT(all(precision_plan({.precision = "16", .backend = "apex"}, 1).warnings),
             test::contains("amp_backend:") && test::contains("--amp_level") &&
                 test::contains("amp_backend=apex") && test::contains("amp_level=O2"));
  CHECK_THAT(all(precision_plan({.backend = "apex"}, 1).warnings),
             test::contains("amp_backend:") && test::contains("--amp_level") &&
                 test::contains("amp_backend=apex") && test::contains("precision=32") &&
                 test::contains("16"));
  CHECK_THAT(all(precision_plan({.level = "O1", .backend = "native"}, 1).warnings),
             test::contains("amp_level=O1"));
}

TEST_CASE("what is refused about precision", "[config]") {
  CHECK_THAT(all(precision_plan({.precision = "fp16"}, 1).errors),
             test::contains(test::code(MessageCode::unknown_name)) && test::contains("precision:") &&
                 test::contains("16, bf16, 32, 64 or 32-true") && test::contains("'fp16'"));
  for (const char* text : {"32.0", "16.0", "8", "16-bit", ""}) {
    CHECK_THAT(all(precision_plan({.precision = text}, 1).errors),
               test::contains(test::code(MessageCode::unknown_name)) && test::contains("precision:") &&
                   test::contains("'" + std::string(text) + "'"));
  }
  CHECK_THAT(all(precision_plan({.level = "O4"}, 1).errors),
             test::contains(test::code(MessageCode::unknown_name)) && test::contains("amp_level:") &&
                 test::contains("O0, O1, O2, O3") && test::contains("'O4'") && test::contains("16-mixed"));
  CHECK_THAT(all(precision_plan({.backend = "apx"}, 1).errors),
             test::contains(test::code(MessageCode::unknown_name)) && test::contains("amp_backend:") &&
                 test::contains("native, apex") && test::contains("'apx'"));
  CHECK_THAT(all(precision_plan({.precision = "32", .use_amp = true}, 1).errors),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("use_amp:") &&
                 test::contains("--precision 16-mixed") && test::contains("use_amp=true") &&
                 test::contains("precision=32"));
  CHECK_THAT(all(precision_plan({.precision = "16", .use_amp = false}, 1).errors),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("use_amp:") &&
                 test::contains("use_amp=false") && test::contains("precision=16"));
  CHECK_THAT(all(precision_plan({.level = "O2"}, 1, "dp").errors),
             test::contains(test::code(MessageCode::conflicting_options)) && test::contains("amp_level:") &&
                 test::contains("--strategy") && test::contains("--amp_level"));
  CHECK(precision_plan({.level = "O1"}, 1, "dp").ok());
}
