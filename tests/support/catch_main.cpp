#ifndef CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_RUNNER
#endif
#include "cxtrain/base/log.h"
#include "support/catch.h"

int main(int argc, char* argv[]) {
  const cxtrain::Log errors_only(/*rank=*/1);  // what rank 0 of a run would print is no test's output
  return Catch::Session().run(argc, argv);
}
