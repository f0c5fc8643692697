#include "cxtrain/config/device_choice.h"

#include "cxtrain/config/nearest_name.h"
#include "cxtrain/config/visible_gpus.h"

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
  plan.errors.push_back(
      {"accelerator", "'" + typed + "' is none of auto, cpu, gpu, cuda", did_you_mean(typed, known)});
  return "auto";
}

void choose_gpus(const DeviceList& list, int visible, const Hardware& hardware, Plan& plan,
                 DeviceChoice& choice) {
  if (std::holds_alternative<DeviceList::Auto>(list.wanted)) {
    choice.automatic = true;
    return;
  }
  const auto indices = pick_devices(list, visible);
  if (!indices) {
    plan.errors.push_back({choice.option, indices.error, describe_gpus(hardware, 0)});
    return;
  }
  choice.indices = *indices;
  choice.count = static_cast<int>(indices.value->size());
}

void choose_cpus(const DeviceList& list, Plan& plan, DeviceChoice& choice) {
  if (std::holds_alternative<DeviceList::Auto>(list.wanted)) {
    choice.automatic = true;
  } else if (const int* count = std::get_if<int>(&list.wanted)) {
    choice.count = *count;
  } else {
    plan.errors.push_back({choice.option, "processes on the CPU are counted, not listed",
                           "write how many, as --devices 2, or --accelerator gpu if GPUs were meant"});
  }
}

}  // namespace

std::string describe_gpus(const Hardware& hardware, int node) {
  const Node& machine = hardware.node(node);
  const std::size_t all = machine.gpus.size(), visible = visible_gpus(hardware, node).gpus.size();
  std::string text =
      "node " + machine.hostname + " has " + std::to_string(all) + (all == 1 ? " GPU" : " GPUs");
  if (const auto variable = hardware.env.find("CUDA_VISIBLE_DEVICES");
      variable != hardware.env.end() && all > 0) {
    text += ", of which CUDA_VISIBLE_DEVICES=" + variable->second + " shows " + std::to_string(visible);
  }
  return text;
}

DeviceChoice choose_devices(const TrainerOptions& trainer, const Hardware& hardware, Plan& plan) {
  DeviceChoice choice;
  const int visible = static_cast<int>(visible_gpus(hardware, 0).gpus.size());
  const std::string accelerator = read_accelerator(trainer.accelerator, plan);
  choice.gpu = accelerator == "gpu" || (accelerator == "auto" && visible > 0);
  const auto answer = [&] {
    plan.accelerator = choice.gpu ? "gpu" : "cpu";
    return choice;
  };
  if (trainer.gpus && trainer.devices) {
    plan.errors.push_back({"gpus",
                           "gpus=" + *trainer.gpus + " and devices=" + *trainer.devices + " were both given",
                           "they mean the same; keep one"});
    return answer();
  }
  if (trainer.gpus) choice.option = "gpus";
  if (choice.gpu && visible == 0 && !trainer.gpus) {
    plan.errors.push_back({"accelerator",
                           "a GPU was asked for (accelerator=" + trainer.accelerator +
                               "), but none is visible: " + describe_gpus(hardware, 0),
                           "use --accelerator cpu or auto"});
    return answer();
  }
  if (!trainer.gpus && !trainer.devices) return answer();

  const auto list = parse_device_list(trainer.gpus ? *trainer.gpus : *trainer.devices);
  if (!list) {
    plan.errors.push_back({choice.option, list.error, ""});
    return answer();
  }
  if (asks_for_none(*list)) {
    if (!trainer.gpus || accelerator == "gpu") {
      plan.errors.push_back(
          {choice.option, "no device at all was asked for", "use --accelerator cpu to train without GPUs"});
      return answer();
    }
    choice.gpu = false;  // Lightning: gpus=0 trains on the CPU
    return answer();
  }
  if (trainer.gpus) {
    if (accelerator == "cpu") {
      plan.errors.push_back(
          {"gpus", "gpus=" + *trainer.gpus + " contradicts accelerator=cpu", "drop one of them"});
      return answer();
    }
    if (visible == 0) {
      plan.errors.push_back(
          {"gpus",
           "gpus=" + *trainer.gpus + " was asked for, but no GPU is visible: " + describe_gpus(hardware, 0),
           "drop --gpus to train on the CPU"});
      return answer();
    }
    choice.gpu = true;
  }
  if (choice.gpu) {
    choose_gpus(*list, visible, hardware, plan, choice);
  } else {
    choose_cpus(*list, plan, choice);
  }
  return answer();
}

}  // namespace cxtrain
