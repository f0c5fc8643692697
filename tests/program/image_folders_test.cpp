#include "support/catch.h"
#include "support/error_text.h"
#include "support/pictures.h"
#include "support/run_files.h"
#include "support/run_program.h"

#ifdef CXTRAIN_PNG

namespace cxtrain::test {
namespace {

std::string fit_pictures(const TempDir& data, const TempDir& dir) {
  return std::string("--plugin ") + CXTRAIN_TEST_PLUGIN_DIR +
         "/painter.so --model painter --data image_folders --data.path " + data.path() +
         " --data.image_size 12 --accelerator cpu --seed_everything 3" + in(dir);
}

TEST_CASE("a model trains on folders of pictures, alike with workers and after a resume") {
  const TempDir data, whole, part;
  write_classes(data, "train", 12);
  write_classes(data, "val", 4);
  write_classes(data, "test", 2);
  const ProgramResult run =
      run_ranks(2, "fit " + fit_pictures(data, whole) + "--data.batch_size 4 --max_epochs 4");
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const auto json = run_json(whole);
  CHECK(json["world_size"] == 2);
  CHECK(json["global_step"] == 12);
  CHECK(json["metrics"]["val_acc"].get<double>() > 0.9);

  const ProgramResult first = run_ranks(2, "fit " + fit_pictures(data, part) +
                                               "--data.batch_size 4 --max_epochs 4 --max_steps 7 "
                                               "--data.num_workers 2");
  CAPTURE(first.output);
  REQUIRE(first.status == 0);
  const ProgramResult rest =
      run_ranks(2, "fit " + fit_pictures(data, part) + "--data.batch_size 4 --max_epochs 4 --ckpt_path last");
  CAPTURE(rest.output);
  REQUIRE(rest.status == 0);
  CHECK(run_json(part)["parameters_sha256"] == json["parameters_sha256"]);

  const ProgramResult test = run_program("test " + fit_pictures(data, whole) + "--ckpt_path " +
                                         newest_checkpoint(whole.path()).path);
  CAPTURE(test.output);
  CHECK(test.status == 0);
  CHECK(test.output.find("test_acc") != std::string::npos);
}

TEST_CASE("a damaged picture ends a training with its name") {
  const TempDir data, dir;
  write_classes(data, "train", 2);
  data.write("train/light/1.png", "not a picture");
  const ProgramResult run =
      run_ranks(2, "fit " + fit_pictures(data, dir) + "--data.batch_size 2 --max_epochs 1");
  CAPTURE(run.output);
  CHECK(run.status == 2);
  CHECK_THAT(run.output, contains("sample 3: "));
  CHECK_THAT(run.output, contains("train/light/1.png' is neither a JPEG nor a PNG file"));
  CHECK_THAT(run.output, contains(code(MessageCode::bad_data)));
}

}  // namespace
}  // namespace cxtrain::test

#endif
