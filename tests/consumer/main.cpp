#include <cxtrain/cxtrain.h>

#include "sine.h"

CXTRAIN_REGISTER(Sine, "sine", "a small MLP that learns a sine");

int main(int argc, char** argv) { return cxtrain::run_main(argc, argv); }
