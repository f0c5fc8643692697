#include "cxtrain/data/batch.h"

#include <algorithm>
#include <stdexcept>

namespace cxtrain {
namespace {

bool is_below(std::string_view name, std::string_view part) {
  return name.size() > part.size() && name.starts_with(part) && name[part.size()] == '.';
}

[[noreturn]] void refuse_name(const Batch& batch, std::string_view name) {
  std::string text = "batch[\"" + std::string(name) + "\"] was asked for, and the batch has ";
  if (!batch.names) throw std::out_of_range(text + "tensors without names");
  text += "the names";
  for (const std::string& each : *batch.names) text += (&each == batch.names->data() ? " " : ", ") + each;
  throw std::out_of_range(text);
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
      names->push_back(name + '.' + (part.names ? (*part.names)[i] : std::to_string(i)));
      batch.tensors.push_back(part.tensors[i]);
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
                          std::to_string(tensors.size()) + (tensors.size() == 1 ? " tensor" : " tensors"));
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
  if (below->empty()) refuse_name(*this, name);
  part.names = std::move(below);
  return part;
}

bool Batch::has(std::string_view name) const {
  return names && std::any_of(names->begin(), names->end(), [name](const std::string& each) {
           return each == name || is_below(each, name);
         });
}

}  // namespace cxtrain
