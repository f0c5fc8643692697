#define CATCH_CONFIG_RUNNER
#include <cstdlib>

#include "cxtrain/cli/component_help.h"
#include "support/catch.h"
#include "support/temp_dir.h"

/// Like the other tests' main; and ranks that a case would start are none, since what is looked at is the
/// program and not mpirun.
int main(int argc, char* argv[]) {
  const cxtrain::test::TempDir path;
  std::filesystem::create_symlink("/bin/true", path.file("mpirun"));
  setenv("PATH", path.path().c_str(), 1);
  // Opened here once, the plugins cost the cases nothing.
  cxtrain::Registry registry;
  cxtrain::component_sections(registry, {});
  return Catch::Session().run(argc, argv);
}
