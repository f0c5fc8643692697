#include "split_backward.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>

namespace cxtrain {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using Function = torch::autograd::Node;
using torch::autograd::variable_list;

/// Returns for each function of the graph behind `roots` whether one of `ends` lies behind the function.
std::unordered_map<Function*, bool> find_ways(const edge_list& roots, const edge_list& ends) {
  std::unordered_map<Function*, bool> leads;
  for (const Edge& end : ends) leads[end.function.get()] = true;
  struct Visit {
    Function* node;
    bool behind_is_done;
  };
  std::vector<Visit> visits;
  for (const Edge& root : roots) visits.push_back({root.function.get(), false});
  while (!visits.empty()) {
    const auto [node, behind_is_done] = visits.back();
    if (behind_is_done) {
      visits.pop_back();
      bool& leads_to_end = leads[node];
      for (const Edge& next : node->next_edges())
        leads_to_end = leads_to_end || (next.is_valid() && leads[next.function.get()]);
      continue;
    }
    if (leads.contains(node)) {
      visits.pop_back();
      continue;
    }
    leads[node] = false;
    visits.back().behind_is_done = true;
    for (const Edge& next : node->next_edges()) {
      if (next.is_valid()) visits.push_back({next.function.get(), false});
    }
  }
  return leads;
}

}  // namespace

SplitBackward::SplitBackward(std::span<const at::Tensor> outputs, std::span<const at::Tensor> gradients,
                             std::span<const at::Tensor> inputs) {
  edge_list roots, ends;
  for (const at::Tensor& output : outputs) roots.push_back(torch::autograd::impl::gradient_edge(output));
  for (const at::Tensor& input : inputs) ends.push_back(torch::autograd::impl::gradient_edge(input));
  const std::unordered_map<Function*, bool> leads = find_ways(roots, ends);
  const auto leads_to_input = [&](const Edge& edge) {
    return edge.is_valid() && leads.at(edge.function.get());
  };

  std::vector<std::shared_ptr<Function>> forks;  // lead to inputs, and to other leaves
  for (const auto& [function, leads_to_one] : leads) {
    const edge_list& next = function->next_edges();
    const auto leads_elsewhere = [&](const Edge& edge) { return edge.is_valid() && !leads_to_input(edge); };
    if (leads_to_one && std::ranges::any_of(next, leads_elsewhere)) forks.push_back(function->getptr());
  }
  edge_list wanted = ends;
  for (const std::shared_ptr<Function>& fork : forks) {
    for (std::uint32_t i = 0; i < fork->num_inputs(); ++i) wanted.emplace_back(fork, i);
  }

  edge_list from;
  variable_list with;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (leads_to_input(roots[i])) {
      from.push_back(roots[i]);
      with.push_back(gradients[i]);
    } else {
      edges_.push_back(roots[i]);
      gradients_.push_back(gradients[i]);
    }
  }
  if (from.empty()) return;
  const variable_list found =
      Engine::get_default_engine().execute(from, with, /*keep_graph=*/true, /*create_graph=*/false,
                                           /*accumulate_grad=*/false, wanted);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].mutable_grad() = found[i];
  for (std::size_t i = inputs.size(); i < found.size(); ++i) {
    if (!found[i].defined()) continue;
    edges_.push_back(wanted[i]);
    gradients_.push_back(found[i]);
  }
  for (const std::shared_ptr<Function>& fork : forks) {
    for (Edge& next : fork->next_edges()) {
      if (leads_to_input(next)) next = Edge();
    }
    // They have run, and `gradients_` has their results.
    fork->tensor_pre_hooks().clear();
    fork->retains_grad_hooks().clear();
  }
}

void SplitBackward::run_rest() {
  if (edges_.empty()) return;
  Engine::get_default_engine().execute(edges_, gradients_, /*keep_graph=*/false, /*create_graph=*/false,
                                       /*accumulate_grad=*/true);
  edges_.clear();
  gradients_.clear();
}

}  // namespace cxtrain
