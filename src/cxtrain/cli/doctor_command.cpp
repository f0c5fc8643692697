#include "cxtrain/cli/doctor_command.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include <torch/headeronly/version.h>

#include "cxtrain/base/log.h"
#include "cxtrain/data/image_file.h"
#include "cxtrain/doctor/gather.h"
#include "cxtrain/doctor/probe.h"
#include "cxtrain/doctor/report.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/trainer/chosen_checkpoint_folder.h"
#include "cxtrain/trainer/resume.h"

namespace cxtrain {
namespace {

/// NCCL's version, where the plan uses GPUs.
std::optional<std::vector<doctor::NcclFacts>> nccl_of(const Plan& plan) {
  if (plan.accelerator != "gpu") return std::nullopt;
  const std::string version = open_accelerator().versions().nccl;
  if (version.empty()) return std::vector<doctor::NcclFacts>();
  return std::vector<doctor::NcclFacts>{{"", version}};
}

/// The checkpoint that `--ckpt_path last` would lead to, and those that are damaged.
void find_resumable(Filesystem& files, const Options& options, doctor::DoctorInputs& own) {
  std::vector<std::string> damaged;
  for (const std::string& run : version_dirs(files, options.trainer.default_root_dir)) {
    if (!belongs_to_this_user(files, run)) continue;  // as `--ckpt_path last` does
    const std::vector<FoundCheckpoint> found = checkpoints_of_run(files, run, options, damaged);
    if (found.empty() && damaged.empty()) continue;
    if (!found.empty()) own.job.resume_from = found[0].path;
    break;
  }
  own.job.damaged = std::move(damaged);
}

/// The folder of the file that the callback `prometheus` writes; empty: there is none.
std::string folder_of_prometheus(const Options& options) {
  for (const NamedOptions& callback : options.callbacks) {
    const auto path = callback.args.find("path");
    if (callback.registered_name() == "prometheus" && path != callback.args.end())
      return std::filesystem::absolute(path->second).parent_path();
  }
  return {};
}

/// Where options send files beside the run's folder, and nothing can be written: "checkpoint.dirpath:
/// /proc/x".
std::vector<std::string> unwritable_places(const Options& options) {
  std::vector<std::string> found;
  const auto look_at = [&](const std::string& option, const std::string& folder) {
    if (!folder.empty() && !doctor::takes_files(folder)) found.push_back(option + ": " + folder);
  };
  look_at("checkpoint.dirpath", chosen_checkpoint_folder(options));
  look_at("callbacks.prometheus.path", folder_of_prometheus(options));
  return found;
}

}  // namespace

int run_doctor(World& world, const DoctorSubject& examined, Filesystem& files, std::ostream& out) {
  const Options& options = examined.options;
  std::vector<Problem> problems = examined.plan.errors;
  const auto look = [&](const char* option, const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& error) {
      problems.push_back({option, message_of(error), "", message_code_of(error)});
    }
  };
  doctor::DoctorInputs own;
  own.plan = examined.plan;
  own.hardware = examined.hardware;
  own.job.data_workers = options.data.num_workers;
  own.output_folder = options.trainer.default_root_dir;
  own.data_path = options.data.path;
  own.job.libtorch_version = TORCH_VERSION;
  own.job.image_formats = image_formats();
  for (const std::string& plugin : options.plugins) {
    const std::string hash = doctor::file_fingerprint(plugin);
    if (!hash.empty()) own.rank.plugin_hashes[plugin] = hash;
  }
  look("accelerator", [&] { own.rank.nccl = nccl_of(examined.plan); });
  look("data", [&] { own.rank.data_fingerprint = examined.data_fingerprint(); });
  look("default_root_dir", [&] { find_resumable(files, options, own); });
  if (options.ckpt_path) look("ckpt_path", [&] { choose_checkpoint(world, files, options); });
  look("output", [&] { own.job.unwritable = unwritable_places(options); });
  const doctor::Recording recording = doctor::gather(world, own);
  doctor::Diagnosis diagnosis;
  if (world.is_root()) diagnosis = doctor::diagnose(recording);
  for (const Problem& problem : problems) doctor::add_refusal(problem, diagnosis);
  // A rank alone may have had a problem.
  const int status = static_cast<int>(world.max(diagnosis.exit_code));
  if (status > diagnosis.exit_code && world.is_root())
    log_error("another rank has found errors that rank 0 does not have (its log, or doctor on its node)");
  if (world.is_root())
    out << (options.json ? doctor::to_json(diagnosis, recording) + "\n"
                         : printable(doctor::to_text(diagnosis, options.all)));
  return status;
}

}  // namespace cxtrain
