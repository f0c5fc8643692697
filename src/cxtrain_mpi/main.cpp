#include "cxtrain/cli/main.h"

int main(int argc, char** argv) { return cxtrain::run_main(argc, argv); }
