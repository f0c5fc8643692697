#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/parameter_store.h"
#include "support/catch.h"
#include "support/fake_communicator.h"

namespace cxtrain {
namespace {

/// The lists that operations of this name are given while it lives.
class ListsOf {
 public:
  explicit ListsOf(const char* name) {
    wanted = name;
    lists.clear();
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&note).needsInputs(true));
  }
  ~ListsOf() { at::removeCallback(handle_); }
  ListsOf(const ListsOf&) = delete;
  ListsOf& operator=(const ListsOf&) = delete;

  static inline std::vector<std::vector<at::Tensor>> lists;

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& call) {
    if (wanted == call.name()) {
      for (const c10::IValue& input : call.inputs()) {
        if (input.isTensorList()) lists.push_back(input.toTensorVector());
      }
    }
    return nullptr;
  }
  static inline std::string wanted;
  at::CallbackHandle handle_;
};

TEST_CASE(
    "masters of several 16-bit dtypes are rounded each into its own, and copied list by list of one dtype") {
  std::vector<NamedTensor> parameters;
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kHalf, at::kBFloat16}) {
    parameters.push_back(
        {"p" + std::to_string(parameters.size()), at::rand({5}).to(dtype).set_requires_grad(true)});
  }
  LocalGradients local(parameters);
  ParameterStore trained(parameters, precision_policy("16-mixed", "O2"), local);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].tensor.mutable_grad() = at::rand({5}).to(parameters[i].tensor.scalar_type());
  trained.synchronize();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CAPTURE(i);
    const Piece& master = trained.pieces()[i];
    CHECK(master.name == parameters[i].name);
    REQUIRE(master.values.scalar_type() == at::kFloat);
    CHECK(at::equal(trained.gradients()[i], parameters[i].tensor.grad().to(at::kFloat)));
    at::Tensor(master.values).copy_(at::rand({5}));
  }
  {
    const ListsOf copied("aten::_foreach_copy_");
    trained.publish();
  }
  CHECK(ListsOf::lists.size() == 4);  // to and from, for each of two dtypes
  for (const auto& list : ListsOf::lists) {
    for (const at::Tensor& tensor : list) CHECK(tensor.scalar_type() == list[0].scalar_type());
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& rounded = parameters[i].tensor;
    CHECK(at::equal(rounded, trained.pieces()[i].values.to(rounded.scalar_type())));
  }
}

bool is_gather(const std::string& call) { return call.starts_with("all_gather"); }

TEST_CASE("a step brings no frozen rows to the other ranks, and other changes bring all rows") {
  test::FakeCommunicator comm(/*size=*/2);
  std::vector<NamedTensor> parameters;
  for (const char* name : {"trained", "frozen"})
    parameters.push_back({name, at::rand({4096}).set_requires_grad(parameters.empty())});
  LocalGradients local(parameters);
  ParameterStore store(parameters, {}, local, &comm, place_rows(parameters, comm, /*row_bytes=*/1));
  const auto gathers = [&] { return std::ranges::count_if(comm.calls, is_gather); };
  REQUIRE(gathers() == 0);
  store.publish_step();
  CHECK(gathers() == 1);
  store.publish();
  CHECK(gathers() == 3);
  parameters[1].tensor.set_requires_grad(true);  // a hook unfreezes it
  store.publish_step();
  CHECK(gathers() == 5);
}

TEST_CASE("a step brings frozen rows with masters to the other ranks: the masters undo what hooks wrote") {
  test::FakeCommunicator comm(/*size=*/2);
  std::vector<NamedTensor> parameters{{"frozen", at::rand({4096}).to(at::kHalf).set_requires_grad(false)}};
  LocalGradients local(parameters);
  ParameterStore store(parameters, precision_policy("16-mixed", "O2"), local, &comm,
                       place_rows(parameters, comm, /*row_bytes=*/1));
  const float before = parameters[0].tensor[0].item<float>();
  parameters[0].tensor.fill_(7);
  comm.calls.clear();
  store.publish_step();
  CHECK(std::ranges::count_if(comm.calls, is_gather) == 1);
  CHECK(parameters[0].tensor[0].item<float>() == before);
}

}  // namespace
}  // namespace cxtrain
