#include <map>

#include "cxtrain/cli/option_table.h"
#include "cxtrain/optim/setup_arguments.h"
#include "fuzz/fuzz.h"

namespace cxtrain::test {
namespace {

const std::vector<std::string>& values() {
  static const std::vector<std::string> all{"0",
                                            "1",
                                            "2",
                                            "-1",
                                            "3",
                                            "-0",
                                            "+1",
                                            "0.5",
                                            "1.0",
                                            "1e-3",
                                            "-0.5",
                                            "nan",
                                            "-nan",
                                            "inf",
                                            "-inf",
                                            "1e308",
                                            "1e400",
                                            "2147483647",
                                            "2147483648",
                                            "-2147483648",
                                            "4294967296",
                                            "9223372036854775807",
                                            "-9223372036854775808",
                                            "9223372036854775808",
                                            "1000000000000",
                                            "100000",
                                            "65536",
                                            "true",
                                            "false",
                                            "null",
                                            "none",
                                            "auto",
                                            "all",
                                            "",
                                            " ",
                                            ",",
                                            "0,",
                                            "0,1",
                                            "[0,1]",
                                            "[",
                                            "]",
                                            "[]",
                                            "0,0",
                                            "-1,0",
                                            "1,2,",
                                            "cpu",
                                            "gpu",
                                            "ddp",
                                            "dp",
                                            "DDP",
                                            "single",
                                            "ddp_spawn",
                                            "fsdp",
                                            "16",
                                            "16-mixed",
                                            "bf16",
                                            "64",
                                            "digits",
                                            "gpt",
                                            "simple",
                                            "mnist",
                                            "seq2seq",
                                            "adam",
                                            "sgd",
                                            "adamw",
                                            "cosine",
                                            "one_cycle",
                                            "plateau",
                                            "multi_step",
                                            "min",
                                            "max",
                                            "val_loss",
                                            "00:00:00:01",
                                            "1:2:3:4",
                                            "x=y",
                                            "--",
                                            "-",
                                            "-h",
                                            "\x01\x02",
                                            "\xff\xfe",
                                            "ü",
                                            "a b",
                                            "a\nb",
                                            "'",
                                            "\"",
                                            "\\",
                                            "%s%n",
                                            "$HOME",
                                            "/",
                                            "..",
                                            ".",
                                            "/dev/null",
                                            "/dev/zero",
                                            "/proc/self/mem",
                                            "/nope/nope",
                                            "warn",
                                            "power",
                                            "pad",
                                            "exact",
                                            "drop",
                                            "norm",
                                            std::string(300, 'a'),
                                            std::string(5000, 'b'),
                                            std::string(20000, '1')};
  return all;
}

/// Every key that may follow two hyphens, some that may not, and the arguments of components.
std::vector<std::string> keys() {
  std::vector<std::string> all = option_names();
  for (const OptionEntry& entry : option_table()) all.push_back(entry.key);
  for (const auto& [option, components] : std::map<std::string, std::vector<NamedComponent>>{
           {"optimizer", known_optimizers()}, {"lr_scheduler", known_schedules()}}) {
    for (const NamedComponent& component : components) {
      for (const ArgumentSpec& spec : component.arguments) all.push_back(option + "." + spec.name);
    }
  }
  for (const char* name : {"hidden", "lr", "in", "out", "samples", "layers", "heads", "width", "context",
                           "dropout", "warmup", "sample_bytes", "temperature", "net", "length"})
    all.push_back(std::string("model.") + name);
  for (const char* name : {"find_unused_parameters", "overlap", "shard_optimizer", "first_bucket_bytes",
                           "bucket_bytes", "bucket_byte", "name", "init_args"}) {
    for (const char* owner : {"strategy.", "trainer.strategy.", "ddp."})
      all.push_back(owner + std::string(name));
  }
  for (const char* odd :
       {"max_epoch", "trainer", "model.", ".", "data.pth", "trainer.trainer.max_epochs", "lr", "a.b.c"})
    all.emplace_back(odd);
  return all;
}

std::vector<std::string> random_options(Random& random, const std::vector<std::string>& all_keys) {
  std::vector<std::string> arguments;
  for (std::size_t n = 1 + random.below(3); n > 0; --n) {
    const std::string& key = random.of(all_keys);
    if (key == "help" || key == "version" || key == "default_root_dir" || key == "trainer.default_root_dir")
      continue;
    switch (random.below(12)) {
      case 0:
        arguments.push_back("--" + key);
        break;
      case 1:
        arguments.push_back(random.of(values()));
        break;
      case 2:
        arguments.push_back(key + "=" + random.of(values()));
        break;
      case 3:
        arguments.push_back("--" + random.damage(key, values()));
        break;
      case 4:
        arguments.push_back("--" + key + "=" + random.of(values()));
        break;
      default:
        arguments.push_back("--" + key);
        arguments.push_back(random.of(values()));
    }
  }
  // A word of a whole command line with a zero byte in it ends there.
  for (std::string& argument : arguments) argument = argument.c_str();
  return arguments;
}

TEST_CASE("odd command lines of plan") {
  Random random(1);
  const std::vector<std::string> all_keys = keys();
  check_cases("plan", 700, [&](const TempDir&) -> Case {
    std::vector<std::string> arguments = random_options(random, all_keys);
    arguments.insert(arguments.begin(), "plan");
    if (random.one_in(3)) arguments.push_back("--json");
    return {arguments};
  });
}

TEST_CASE("odd command lines of fit") {
  Random random(2);
  const std::vector<std::string> all_keys = keys();
  check_cases("fit", 300, [&](const TempDir& folder) -> Case {
    std::vector<std::string> arguments = random_options(random, all_keys);
    // The last of equal options counts: what is accepted is a short run of its own.
    for (const char* last :
         {"--max_epochs=1", "--max_steps=1", "--limit_train_batches=1", "--limit_val_batches=1",
          "--limit_test_batches=1", "--limit_predict_batches=1", "--overfit_batches=0.0",
          "--auto_lr_find=false", "--auto_scale_batch_size=null", "--stochastic_weight_avg=false",
          "--accumulate_grad_batches=1", "--num_sanity_val_steps=0", "--val_check_interval=1.0",
          "--callbacks.early_stopping_monitor=null"})
      arguments.emplace_back(last);
    arguments.push_back("--default_root_dir=" + folder.path());
    return {arguments};
  });
}

}  // namespace
}  // namespace cxtrain::test
