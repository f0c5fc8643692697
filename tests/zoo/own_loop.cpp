#include <cxtrain/cli/main.h>

#include "extras.h"

/// Trains and tests without a command line: `./own_loop FOLDER DEVICES STRATEGY`.
int main(int argc, char** argv) {
  cxtrain::Options options;
  options.trainer.default_root_dir = argc > 1 ? argv[1] : ".";
  options.trainer.accelerator = "cpu";
  options.trainer.devices = argc > 2 ? argv[2] : "1";
  if (argc > 3) options.trainer.strategy = argv[3];
  options.trainer.max_epochs = 2;
  return cxtrain::run_trainer(argc, argv, options, [](cxtrain::Trainer& trainer) {
    ResNet model({});
    BlobData data;
    trainer.fit(model, data);
    trainer.test(model, data);
    trainer.predict(model, data);
  });
}
