#include <cxtrain/cli/main.h>

#include "extras.h"
#include "judged.h"
#include "ported.h"

int main(int argc, char** argv) {
  return cxtrain::run_main(argc, argv, register_zoo,
                           [](cxtrain::Trainer& trainer) { trainer.add_callback<Mean>({.decay = 0.5}); });
}
