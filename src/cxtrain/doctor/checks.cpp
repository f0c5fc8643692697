#include "cxtrain/doctor/checks.h"

namespace cxtrain::doctor {

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
