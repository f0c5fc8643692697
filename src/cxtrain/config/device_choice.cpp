#include "cxtrain/base/text.h"
#include "cxtrain/config/resolve_steps.h"

#include <algorithm>

#include "cxtrain/config/devices.h"
#include "cxtrain/config/did_you_mean.h"

namespace cxtrain {
namespace {

bool asks_for_none(const DeviceList& list) {
  const auto* indices = std::get_if<std::vector<int>>(&list.wanted);
  return indices != nullptr && indices->empty();
}

/// cpu, gpu or auto; `auto` after an error, so that the remaining checks still run.
std::string read_accelerator(const std::string& typed, Plan& plan) {
  if (typed == "cuda") return "gpu";
  if (typed == "auto" || typed == "cpu" || typed == "gpu") return typed;
  const std::vector<std::string> known{"auto", "cpu", "gpu", "cuda"};
  plan.errors.push_back({"accelerator", "'" + typed + "' is none of auto, cpu, gpu, cuda",
                         did_you_mean(typed, known), MessageCode::unknown_name});
  return "auto";
}

class Chooser {
 public:
  Chooser(const TrainerOptions& trainer, const StrategyTraits& strategy, const Hardware& hardware,
          const WorldFacts& launched, Plan& plan)
      : trainer_(trainer), strategy_(strategy), hardware_(hardware), launched_(launched), plan_(plan) {
    choice_.option = trainer.gpus ? "gpus" : trainer.num_processes ? "num_processes" : "devices";
  }

  DeviceChoice choose() {
    const std::string accelerator = read_accelerator(trainer_.accelerator, plan_);
    choice_.gpu = accelerator == "gpu" || (accelerator == "auto" && !gpus_.empty());
    if (choice_.gpu && gpus_.empty() && !trainer_.gpus) {
      refuse("accelerator",
             "no GPU is usable (accelerator=" + trainer_.accelerator + "): " + describe_gpus(hardware_, 0),
             hardware_.gpu_support
                 ? "use --accelerator cpu or auto"
                 : "use --accelerator cpu, or build cxtrain with the headers of CUDA and NCCL");
    } else if (trainer_.gpus || trainer_.devices) {
      read_list(accelerator);
    } else {
      choice_.only_free = trainer_.auto_select_gpus && choice_.gpu;
    }
    const bool unusable = !hardware_.gpu_support || !hardware_.node(0).cuda_failure.empty();
    if (accelerator == "auto" && !trainer_.gpus && unusable && !hardware_.node(0).gpus.empty()) {
      plan_.warnings.push_back(
          {"accelerator", describe_gpus(hardware_, 0) + ": the run uses the CPU",
           hardware_.gpu_support
               ? "repair the driver's installation, or use --accelerator cpu"
               : "install the CUDA toolkit and NCCL and build cxtrain again, or use --accelerator cpu"});
    }
    if (trainer_.auto_select_gpus && !choice_.gpu) {
      plan_.warnings.push_back({"auto_select_gpus", "auto_select_gpus has no effect on the CPU", "drop it"});
    }
    choice_.one_each = choice_.gpu && gpus_.size() == 1 && launched_.max_local_size > 1 &&
                       (launched_.launched_by == LaunchedBy::srun || hardware_.env.contains(kVisible));
    plan_.accelerator = choice_.gpu ? "gpu" : "cpu";
    return choice_;
  }

 private:
  static constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

  void refuse(const char* option, const std::string& message, const std::string& hint,
              MessageCode code = MessageCode::no_device) {
    plan_.errors.push_back({option, message, hint, code});
  }

  void read_list(const std::string& accelerator) {
    const std::string& typed = trainer_.gpus ? *trainer_.gpus : trainer_.devices->text();
    const auto list = parse_device_list(typed);
    if (!list)
      return refuse(choice_.option, list.error, describe_gpus(hardware_, 0), MessageCode::invalid_value);
    if (asks_for_none(*list)) {
      const bool cpu = trainer_.gpus && accelerator != "gpu";  // Lightning: gpus=0 trains on the CPU
      if (!cpu) {
        refuse(choice_.option, "no device at all was asked for",
               "use --accelerator cpu to train without GPUs");
      }
      choice_.gpu = choice_.gpu && !cpu;
      return;
    }
    if (trainer_.gpus && !accept_gpus(accelerator)) return;
    if (std::holds_alternative<DeviceList::Auto>((*list).wanted)) {
      choice_.automatic = true;
      choice_.only_free = trainer_.auto_select_gpus && choice_.gpu;
      if (choice_.only_free && is_open()) select_free(0);
    } else if (choice_.gpu) {
      choose_gpus(*list);
    } else {
      choose_cpus(*list);
    }
  }

  /// Whether `gpus`, which asks for some, can be followed at all.
  bool accept_gpus(const std::string& accelerator) {
    if (accelerator == "cpu") {
      refuse("gpus", "gpus=" + *trainer_.gpus + " contradicts accelerator=cpu", "drop one of them",
             MessageCode::conflicting_options);
      return false;
    }
    if (gpus_.empty()) {
      refuse(
          "gpus",
          "gpus=" + *trainer_.gpus + " was asked for, but no GPU is visible: " + describe_gpus(hardware_, 0),
          "drop --gpus to train on the CPU");
      return false;
    }
    return choice_.gpu = true;
  }

  /// Whether `auto` is free to take all devices: no ranks exist yet, and there may be several.
  bool is_open() const { return launched_.launched_by == LaunchedBy::alone && !strategy_.is_one_group(); }

  void choose_gpus(const DeviceList& list) {
    const int* count = std::get_if<int>(&list.wanted);
    if (count != nullptr && *count > 1 && sees_own_gpu_only()) {
      choice_.count = *count;  // each rank's only GPU is its device 0
      return;
    }
    if (trainer_.auto_select_gpus) {
      if (count != nullptr || std::holds_alternative<DeviceList::All>(list.wanted)) {
        return select_free(count != nullptr ? *count : 0);
      }
      plan_.warnings.push_back({"auto_select_gpus",
                                "auto_select_gpus has no effect on a list: the devices are named",
                                "ask for a count, as --gpus 2"});
    }
    const auto indices = pick_devices(list, static_cast<int>(gpus_.size()));
    if (!indices) {
      // Before Lightning 1.5 a number in quotes was an index.
      const std::string index =
          count != nullptr && choice_.option == std::string("gpus")
              ? "; for the GPU of index " + std::to_string(*count) + " write " + std::to_string(*count) + ","
              : "";
      return refuse(choice_.option, indices.error, describe_gpus(hardware_, 0) + index);
    }
    choice_.indices = *indices;
    choice_.count = static_cast<int>(indices.value->size());
  }

  /// Slurm's --gpus-per-task=1: every task is shown one GPU, and it is another's first for each.
  bool sees_own_gpu_only() const {
    return gpus_.size() == 1 && launched_.launched_by == LaunchedBy::srun && launched_.max_local_size > 1;
  }

  /// 0: all that are free.
  void select_free(int wanted) {
    const auto indices = pick_free_gpus(gpus_, wanted, hardware_.node(0).hostname);
    if (!indices) return refuse(choice_.option, indices.error, "ask for fewer, or drop --auto_select_gpus");
    choice_.only_free = true;
    choice_.indices = *indices;
    choice_.count = static_cast<int>(indices.value->size());
  }

  void choose_cpus(const DeviceList& list) {
    if (const int* count = std::get_if<int>(&list.wanted)) {
      choice_.count = *count;
      return;
    }
    refuse(choice_.option, "processes on the CPU are counted, not listed",
           "write how many, as --devices 2, or --accelerator gpu if GPUs were meant",
           MessageCode::invalid_value);
  }

  const TrainerOptions& trainer_;
  const StrategyTraits& strategy_;
  const Hardware& hardware_;
  const WorldFacts& launched_;
  Plan& plan_;
  std::vector<Gpu> gpus_ = visible_gpus(hardware_, 0).gpus;
  DeviceChoice choice_;
};

}  // namespace

std::string describe_gpus(const Hardware& hardware, int node) {
  const Node& machine = hardware.node(node);
  const auto count = [&](auto which) { return std::ranges::count_if(machine.gpus, which); };
  const auto all = count([](const Gpu& gpu) { return gpu.mig != Mig::instance; });
  const auto instances = count([](const Gpu& gpu) { return gpu.mig == Mig::instance; });
  const std::size_t visible = visible_gpus(hardware, node).gpus.size();
  std::string text = "node " + machine.hostname + " has " + counted(all, "GPU");
  if (instances > 0)
    text += " and " + std::to_string(instances) + (instances == 1 ? " MIG instance" : " MIG instances");
  if (!hardware.gpu_support) return text + ", and this cxtrain was built without CUDA";
  if (!machine.cuda_failure.empty()) return text + ", and CUDA cannot use them: " + machine.cuda_failure;
  if (const auto variable = hardware.env.find("CUDA_VISIBLE_DEVICES");
      variable != hardware.env.end() && !machine.gpus.empty()) {
    text += ", of which CUDA_VISIBLE_DEVICES=" + variable->second + " shows " + std::to_string(visible);
  }
  return text;
}

DeviceChoice choose_devices(const TrainerOptions& trainer, const StrategyTraits& strategy,
                            const Hardware& hardware, const WorldFacts& launched, Plan& plan) {
  return Chooser(trainer, strategy, hardware, launched, plan).choose();
}

}  // namespace cxtrain
