#include <cxtrain/cxtrain.h>

#include "sine.h"

int main(int argc, char** argv) {
  return cxtrain::run_main(argc, argv, [](cxtrain::Registry& registry) {
    registry.add<Sine>("sine", "a small MLP that learns a sine");
  });
}
