#include "cxtrain/checkpoint/load_weights.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>
#include <set>

#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/weights.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/tensor/hollow.h"

namespace cxtrain {
namespace {

/// Of each list so many are told.
constexpr std::size_t kMaxNames = 10;

using Targets = std::map<std::string, at::Tensor>;

Targets targets_of(const torch::nn::Module& module) {
  Targets targets;
  for (const auto& item : module.named_parameters()) targets.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) targets.emplace(item.key(), item.value());
  return targets;
}

/// What is stored and what the model has, side by side.
struct Comparison {
  std::vector<std::pair<const StoredTensor*, at::Tensor>> pairs;
  std::vector<std::string> missing;     ///< names of the model's
  std::vector<std::string> unexpected;  ///< stored names, mapped
  std::vector<std::string> misshapen;   ///< "fc.weight: [3, 4] in the file, [3, 5] in the model"
  std::vector<std::string> others;      ///< names of the model's that are not to be loaded

  bool fits() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
};

/// Of the stored tensors and of the module's only those that the selection's prefix selects.
Comparison compare(const StoredWeights& weights, const WeightsSelection& selection, const Targets& targets) {
  const NameMap& names = selection.names;
  Comparison found;
  std::set<const at::TensorImpl*> filled;
  std::map<std::string, std::string> mapped;  // to the stored name
  for (const StoredTensor& tensor : weights.tensors) {
    if (!tensor.name.starts_with(selection.prefix)) continue;
    const std::string name = names(tensor.name);
    if (const auto [other, is_new] = mapped.emplace(name, tensor.name); !is_new) {
      throw CheckpointError("the name map makes '" + name + "' of both '" + other->second + "' and '" +
                            tensor.name + "' in '" + weights.path + "'; make its rules longer");
    }
    const auto target = targets.find(name);
    if (target == targets.end()) {
      found.unexpected.push_back(name);
      continue;
    }
    filled.insert(target->second.unsafeGetTensorImpl());
    const bool loses_part = c10::isComplexType(tensor.dtype) && !target->second.is_complex();
    if (target->second.sizes() == at::IntArrayRef(tensor.shape) && !loses_part) {
      found.pairs.emplace_back(&tensor, target->second);
      continue;
    }
    found.misshapen.push_back(c10::str(
        name, ": ", c10::toString(tensor.dtype), " ", at::IntArrayRef(tensor.shape), " in the file, ",
        c10::toString(target->second.scalar_type()), " ", target->second.sizes(), " in the model"));
  }
  const std::string prefix = selection.prefix.empty() ? "" : names(selection.prefix);
  for (const auto& [name, tensor] : targets) {
    if (filled.contains(tensor.unsafeGetTensorImpl())) continue;
    (name.starts_with(prefix) ? found.missing : found.others).push_back(name);
  }
  return found;
}

/// The rule that makes the most missing names of unexpected ones by taking a prefix away or putting one
/// before it; empty where none does.
std::string rule_for_prefix(const Comparison& found) {
  std::map<std::string, std::size_t> gains;  // of each rule
  const auto count = [&](const std::vector<std::string>& longer, const std::vector<std::string>& shorter,
                         bool takes_away) {
    const std::set<std::string_view> wanted(shorter.begin(), shorter.end());
    for (const std::string& name : longer) {
      for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
        if (!wanted.contains(std::string_view(name).substr(dot + 1))) continue;
        const std::string prefix = name.substr(0, dot + 1);
        ++gains[takes_away ? prefix + "=" : "=" + prefix];
      }
    }
  };
  count(found.unexpected, found.missing, true);
  count(found.missing, found.unexpected, false);
  const auto best =
      std::ranges::max_element(gains, [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == gains.end() ? "" : best->first;
}

/// "\n  missing (12): a, b, c and 9 more"; empty for none.
std::string listed(const std::string& title, const std::vector<std::string>& names, const char* separator) {
  if (names.empty()) return "";
  std::string text = "\n  " + title + " (" + std::to_string(names.size()) + "): ";
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i)
    text += (i == 0 ? "" : separator) + shortened(names[i], 100);
  if (names.size() > kMaxNames) text += " and " + std::to_string(names.size() - kMaxNames) + " more";
  return text;
}

/// Missing names with what may have been meant for them.
std::vector<std::string> with_nearest(const Comparison& found) {
  std::vector<std::string> names;
  for (const std::string& name : found.missing) {
    const bool told = names.size() < kMaxNames;
    const std::string near = told ? nearest_name(name, found.unexpected) : "";
    names.push_back(near.empty() ? name : name + " (is it " + near + "?)");
  }
  return names;
}

std::string describe_misfit(const StoredWeights& weights, const Comparison& found) {
  std::string text = "the weights in '" + weights.path + "' do not fit the model:";
  text += listed("missing in the file", with_nearest(found), ", ");
  text += listed("not in the model", found.unexpected, ", ");
  text += listed("of another shape", found.misshapen, "; ");
  text += listed("in the file, and not readable here", weights.skipped, ", ");
  const std::string rule = rule_for_prefix(found);
  if (!rule.empty()) return text + "\n  try --model.weights_map " + rule;
  return text +
         "\n  choose the model's arguments as they were, rename with --model.weights_map FROM=TO, or load a "
         "part: --model.weights_prefix PREFIX, --model.weights_strict false";
}

}  // namespace

MatchedWeights::MatchedWeights(const torch::nn::Module& module, const std::string& path,
                               const WeightsSelection& selection, Filesystem& files)
    : path_(path) {
  const StoredWeights weights = open_verified_weights(files, path);
  const Targets targets = targets_of(module);
  Comparison found = compare(weights, selection, targets);
  const bool fits = !selection.strict || found.fits();
  if (!fits || found.pairs.empty())
    throw CheckpointError(describe_misfit(weights, found), MessageCode::model_mismatch);
  std::multimap<const at::TensorImpl*, std::string> names;
  for (const auto& [name, tensor] : targets) names.emplace(tensor.unsafeGetTensorImpl(), name);
  for (const auto& [stored, target] : found.pairs) {
    for (auto [it, end] = names.equal_range(target.unsafeGetTensorImpl()); it != end; ++it)
      stored_[it->second] = stored->read;
  }
  loaded_ = {.loaded = found.pairs.size(),
             .kept = std::move(found.missing),
             .left_out = std::move(found.unexpected),
             .misshapen = std::move(found.misshapen)};
  loaded_.kept.insert(loaded_.kept.end(), found.others.begin(), found.others.end());
}

void MatchedWeights::load(torch::nn::Module& part, const std::string& prefix) {
  const at::NoGradGuard no_grad;
  std::set<const at::TensorImpl*> filled;
  for (auto& [name, target] : targets_of(part)) {
    const auto stored = stored_.find(prefix + name);
    if (stored == stored_.end() || is_hollow(target)) continue;
    if (filled.insert(target.unsafeGetTensorImpl()).second) at::Tensor(target).copy_(stored->second());
    stored_.erase(stored);
  }
}

void MatchedWeights::report() const {
  if (!loaded_.kept.empty() || !loaded_.left_out.empty() || !loaded_.misshapen.empty())
    log_warning(describe(loaded_, path_));
}

LoadedWeights load_weights(torch::nn::Module& module, const std::string& path,
                           const WeightsSelection& selection, Filesystem& files) {
  MatchedWeights matched(module, path, selection, files);
  matched.load(module, "");
  return matched.loaded();
}

LoadedWeights load_weights(torch::nn::Module& module, const std::string& path, const NameMap& names,
                           Filesystem& files) {
  return load_weights(module, path, WeightsSelection{.names = names}, files);
}

std::string describe(const LoadedWeights& loaded, const std::string& path) {
  std::string text = counted(loaded.loaded, "tensor") + " of '" + path + "' loaded into the model";
  text += listed("the model keeps its own", loaded.kept, ", ");
  text += listed("not in the model", loaded.left_out, ", ");
  text += listed("of another shape", loaded.misshapen, "; ");
  return text;
}

}  // namespace cxtrain
