#include "cxtrain/doctor/checks.h"

namespace cxtrain::doctor {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::unknown:
      return "unknown";
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "unknown";
}

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (auto* subject :
       {launch_checks, core_checks, thread_checks, gpu_checks, gpu_health_checks, nccl_checks, mpi_checks,
        host_checks, memory_checks, limit_checks, folder_checks, sameness_checks}) {
    for (const Check& check : subject()) all.push_back(check);
  }
  return all;
}

}  // namespace cxtrain::doctor
