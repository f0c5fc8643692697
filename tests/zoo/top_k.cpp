#include <ATen/core/grad_mode.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <cxtrain/plugin/plugin_abi.h>
#include <cxtrain/reduce/comm_hook.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// Each rank sends the largest values of each gradient. It adds the others to its gradient of the next step
/// (Aji and Heafield 2017).
class TopK final : public cxtrain::AveragingHook {
 public:
  struct Args {
    double fraction = 0.01;

    void fields(auto&& field) {
      field("fraction", fraction, "part of each gradient that a rank sends", cxtrain::Range::between(0, 1));
    }
  };
  explicit TopK(const Args& args) : args_(args) {}

  void prepare(const std::vector<cxtrain::NamedTensor>& parameters,
               cxtrain::Communicator& communicator) override {
    parameters_ = parameters;
    communicator_ = &communicator;
    for (const auto& [name, tensor] : parameters_)
      kept_[name] = at::zeros({tensor.numel()}, tensor.options().requires_grad(false));
  }

  void average() override {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : parameters_) {
      if (tensor.requires_grad()) average(tensor, kept_.at(name));
    }
  }

  void save(cxtrain::StateDict& state) const override {
    cxtrain::StateDict& kept = state.make_section(cxtrain::kMeanOfRanks);
    for (const auto& [name, tensor] : kept_) kept.set(name, tensor);
  }
  void load(const cxtrain::StateDict& state) override {
    const cxtrain::StateDict& kept = state.section(cxtrain::kMeanOfRanks);
    for (auto& [name, tensor] : kept_) tensor.copy_(kept.tensor(name));
  }

 private:
  void average(at::Tensor& parameter, at::Tensor& kept) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (gradient.defined()) kept.add_(gradient.reshape({-1}));
    const auto part = static_cast<std::int64_t>(args_.fraction * static_cast<double>(kept.numel()));
    const std::int64_t count = std::max<std::int64_t>(1, part), ranks = communicator_->size();
    const at::Tensor places = std::get<1>(at::topk(kept.abs(), count));
    at::Tensor values = kept.index_select(0, places);
    if (gradient.defined()) {
      kept.index_fill_(0, places, 0);
    } else {
      values.zero_();  // a skipped step sends nothing of what is kept
    }
    const at::Tensor all_places = at::zeros({ranks * count}, places.options());
    const at::Tensor all_values = at::zeros({ranks * count}, values.options());
    communicator_->all_gather(all_places, places);
    communicator_->all_gather(all_values, values);
    communicator_->join();
    at::Tensor mean = at::zeros_like(kept);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {  // one order, and so the same bits on all ranks
      mean.index_add_(0, all_places.narrow(0, rank * count, count), all_values.narrow(0, rank * count, count),
                      1.0 / static_cast<double>(ranks));
    }
    gradient = at::zeros_like(parameter).copy_(mean.view(parameter.sizes()));
  }

  const Args args_;
  std::vector<cxtrain::NamedTensor> parameters_;
  cxtrain::Communicator* communicator_ = nullptr;
  std::map<std::string, at::Tensor> kept_;  ///< [numel] of each parameter, on this rank
};

CXTRAIN_PLUGIN("comm_hook top_k", [](cxtrain::Registry& registry) {
  registry.add<TopK>("top_k", "sends the largest values of each gradient", {.remembered_gradients = 1});
})
