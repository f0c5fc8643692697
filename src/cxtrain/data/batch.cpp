#include "cxtrain/data/batch.h"

#include <algorithm>
#include <stdexcept>

#include "cxtrain/base/class_name.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

bool is_below(std::string_view name, std::string_view part) {
  return name.size() > part.size() && name.starts_with(part) && name[part.size()] == '.';
}

[[noreturn]] void refuse_name(const Batch& batch, std::string_view name) {
  std::string names;
  const auto add = [&names](const std::string& each) { names += (names.empty() ? " " : ", ") + each; };
  for (std::size_t i = 0; batch.names && i < batch.names->size(); ++i) add((*batch.names)[i]);
  for (const Batch::Object& object : batch.objects) {
    if (!object.name.empty()) add(object.name);
  }
  throw std::out_of_range("batch[\"" + std::string(name) + "\"] was asked for, and the batch has " +
                          (names.empty() ? "tensors without names" : "the names" + names));
}

}  // namespace

Batch Batch::named(std::initializer_list<std::pair<std::string_view, at::Tensor>> tensors) {
  Batch batch;
  auto names = std::make_shared<Names>();
  for (const auto& [name, tensor] : tensors) {
    names->emplace_back(name);
    batch.tensors.push_back(tensor);
  }
  batch.names = std::move(names);
  return batch;
}

Batch Batch::joined(const std::vector<Named>& parts) {
  Batch batch;
  auto names = std::make_shared<Names>();
  for (const auto& [name, part] : parts) {
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      const bool has_name = part.names && i < part.names->size();  // else a hook has added the tensor
      names->push_back(name + '.' + (has_name ? (*part.names)[i] : std::to_string(i)));
      batch.tensors.push_back(part.tensors[i]);
    }
    for (std::size_t i = 0; i < part.objects.size(); ++i) {
      const Object& object = part.objects[i];
      batch.objects.push_back(
          {object.value, name + '.' + (object.name.empty() ? std::to_string(i) : object.name)});
    }
    batch.parts.push_back({name, part.size});
    batch.size += part.size;
    batch.indices.insert(batch.indices.end(), part.indices.begin(), part.indices.end());
  }
  batch.names = std::move(names);
  return batch;
}

const at::Tensor& Batch::operator[](std::size_t i) const {
  if (i < tensors.size()) return tensors[i];
  throw std::out_of_range("batch[" + std::to_string(i) + "] was asked for, but the batch has " +
                          counted(tensors.size(), "tensor"));
}

const at::Tensor& Batch::operator[](std::string_view name) const {
  if (names) {
    const auto found = std::find(names->begin(), names->end(), name);
    if (found != names->end()) return (*this)[static_cast<std::size_t>(found - names->begin())];
  }
  refuse_name(*this, name);
}

Batch Batch::part(std::string_view name) const {
  Batch part;
  part.size = size;
  part.indices = indices;
  std::int64_t before = 0;  // samples of other loaders
  for (const Part& of_loader : parts) {
    if (of_loader.name == name || is_below(name, of_loader.name)) {
      part.size = of_loader.size;
      part.indices = {indices.begin() + before, indices.begin() + before + part.size};
    }
    before += of_loader.size;
  }
  auto below = std::make_shared<Names>();
  for (std::size_t i = 0; names && i < names->size(); ++i) {
    if (!is_below((*names)[i], name)) continue;
    below->push_back((*names)[i].substr(name.size() + 1));
    part.tensors.push_back((*this)[i]);
  }
  for (const Object& object : objects) {
    if (is_below(object.name, name))
      part.objects.push_back({object.value, object.name.substr(name.size() + 1)});
  }
  if (below->empty() && part.objects.empty()) refuse_name(*this, name);
  part.names = std::move(below);
  return part;
}

bool Batch::has(std::string_view name) const {
  const auto fits = [name](const std::string& each) { return each == name || is_below(each, name); };
  return (names && std::any_of(names->begin(), names->end(), fits)) ||
         std::ranges::any_of(objects, [&fits](const Object& object) { return fits(object.name); });
}

const BatchObject& Batch::object_at(std::size_t i) const {
  if (i < objects.size()) return *objects[i].value;
  throw std::out_of_range("object " + std::to_string(i) + " was asked for, but the batch has " +
                          counted(objects.size(), "object"));
}

const BatchObject& Batch::object_at(std::string_view name) const {
  const auto found = std::ranges::find(objects, name, &Object::name);
  if (found == objects.end()) refuse_name(*this, name);
  return *found->value;
}

void Batch::refuse_class(const BatchObject& object, const std::type_info& wanted) {
  throw std::out_of_range("an object of class " + class_name(wanted) +
                          " was asked for, and the batch has one of class " + class_of(object));
}

void Batch::change_object_tensors(const BatchObject::TensorChange& change) {
  for (Object& object : objects) {
    std::shared_ptr<BatchObject> copy = object.value->clone();
    if (!copy) throw DataError("clone of " + class_of(*object.value) + " has returned no object");
    copy->for_each_tensor(change);
    object.value = std::move(copy);
  }
}

std::string class_of(const BatchObject& object) { return class_name(typeid(object)); }

std::shared_ptr<BatchObject> BatchObject::narrow(std::int64_t, std::int64_t) const {
  throw ConfigError("strategy",
                    "dp divides the samples of a batch among devices, and the class " + class_of(*this) +
                        " cannot be divided",
                    "override BatchObject::narrow, or use --strategy ddp", MessageCode::conflicting_options);
}

}  // namespace cxtrain
