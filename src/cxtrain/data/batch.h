#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cxtrain/data/batch_object.h"

namespace cxtrain {

/// One micro-batch as a dataset collates it: tensors with the samples in dimension 0. By convention
/// `batch[0]` is the input and `batch[1]`, if there is one, the target.
///
/// The tensors may have names. Names with dots make a tree: "image.left" and "image.right" are in the part
/// "image". All tensors of the tree lie in one list, in the order of the names, so code that moves batches
/// needs no name.
struct Batch {
  std::vector<at::Tensor> tensors = {};
  /// Number of samples, set by the loader; 0 on a rank without a sample in an uneven last step.
  std::int64_t size = 0;

  /// The samples' indices in the dataset, in the batch's order.
  std::vector<std::int64_t> indices = {};

  /// The name of each tensor; null: they have none. Shared by the batches of a loader.
  using Names = std::vector<std::string>;
  std::shared_ptr<const Names> names = {};

  /// In a training batch of several loaders: name and samples of each loader's part. Else empty.
  struct Part {
    std::string name;
    std::int64_t size = 0;
  };
  std::vector<Part> parts = {};

  /// Objects of classes of your own, with names or without.
  struct Object {
    std::shared_ptr<BatchObject> value;
    std::string name = {};
  };
  std::vector<Object> objects = {};

  /// A batch, or a sample, of tensors with names: `Batch::named({{"image", image}, {"label", label}})`.
  static Batch named(std::initializer_list<std::pair<std::string_view, at::Tensor>> tensors);

  using Named = std::pair<std::string, Batch>;
  /// Joins batches of several loaders: each is the part of this name. A tensor or an object without a name is
  /// named by its number. The size is that of all parts together.
  static Batch joined(const std::vector<Named>& parts);

  /// Throws std::out_of_range if the batch has fewer tensors.
  const at::Tensor& operator[](std::size_t i) const;
  /// Returns the tensor of this name. Throws std::out_of_range, with the names that the batch has, if there
  /// is none.
  const at::Tensor& operator[](std::string_view name) const;
  /// Returns the object at this position, or of this name: `batch.object<Sequences>()`. Throws
  /// std::out_of_range, with what the batch has, if there is none or it is of another class.
  template <class T>
  const T& object(std::size_t i = 0) const {
    return object_as<T>(object_at(i));
  }
  template <class T>
  const T& object(std::string_view name) const {
    return object_as<T>(object_at(name));
  }
  /// Replaces each object by a copy with changed tensors. The tensors' memory may be shared with a dataset.
  void change_object_tensors(const BatchObject::TensorChange& change);

  /// Returns the tensors and objects below a name, under the rest of their names: `part("image")["left"]`.
  /// The part of a loader has the size and the indices of that loader's samples. Throws as `operator[]`. The
  /// tensors share their memory.
  Batch part(std::string_view name) const;
  /// Returns whether a tensor, an object or a part has this name.
  bool has(std::string_view name) const;

  /// Returns the first N tensors: `const auto [image, label] = batch.unpack<2>();`. Throws std::out_of_range
  /// if the batch has fewer.
  template <std::size_t N>
  std::array<at::Tensor, N> unpack() const {
    return unpack(std::make_index_sequence<N>());
  }

 private:
  const BatchObject& object_at(std::size_t i) const;
  const BatchObject& object_at(std::string_view name) const;
  [[noreturn]] static void refuse_class(const BatchObject& object, const std::type_info& wanted);
  template <class T>
  static const T& object_as(const BatchObject& object) {
    if (const T* found = dynamic_cast<const T*>(&object)) return *found;
    refuse_class(object, typeid(T));
  }
  template <std::size_t... I>
  std::array<at::Tensor, sizeof...(I)> unpack(std::index_sequence<I...>) const {
    return {(*this)[I]...};
  }
};

/// The shard of every global batch that one reader takes: number `index` of `count`.
struct DataShard {
  int index = 0;
  int count = 1;
};

}  // namespace cxtrain
