#include <cxtrain/callbacks/ema.h>
#include <cxtrain/cli/main.h>

#include "extras.h"

/// Trains, tests and predicts in a main of its own; the command line changes its defaults.
int main(int argc, char** argv) {
  const cxtrain::TrainerOptions defaults{.accelerator = "cpu", .devices = 2, .max_epochs = 2};
  return cxtrain::run(argc, argv, {.trainer = defaults}, [](cxtrain::Trainer& trainer) {
    ResNet model({});
    BlobData data;
    trainer.add_callback<cxtrain::Ema>({.decay = 0.9});
    trainer.fit(model, data);
    trainer.test(model, data);
    trainer.predict(model, data);
  });
}
