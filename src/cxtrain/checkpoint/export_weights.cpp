#include "cxtrain/checkpoint/export_weights.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <c10/util/strides.h>
#include <caffe2/serialize/inline_container.h>

#include <array>
#include <bit>
#include <exception>

#include "cxtrain/checkpoint/safetensors.h"
#include "cxtrain/checkpoint/torch_dtypes.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

/// A pickle of protocol 2 that makes a dict of tensors, in the few opcodes and functions that
/// `torch.load(weights_only=True)` takes.
class StateDictPickler {
 public:
  StateDictPickler() { pickle_ = "\x80\x02}("; }

  /// `key`: the name of the record with the elements.
  void add(const StoredTensor& tensor, const std::string& key) {
    const TorchDtype* dtype = find_torch_dtype(tensor.dtype);
    if (dtype == nullptr) {
      throw CheckpointError("'" + tensor.name + "' has the dtype " + c10::toString(tensor.dtype) +
                                ", which cannot be exported; convert it",
                            MessageCode::invalid_value);
    }
    const std::int64_t elements = c10::multiply_integers(tensor.shape);
    const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
    const bool typed = !dtype->storage.empty();
    text(tensor.name);
    global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    pickle_ += "((";
    text("storage");
    if (typed) {
      global("torch", dtype->storage);
    } else {
      global("torch.storage", "UntypedStorage");
    }
    text(key);
    text("cpu");
    integer(typed ? elements : bytes);
    pickle_ += "tQ";
    integer(0);  // the offset in the storage
    integers(tensor.shape);
    integers(c10::contiguous_strides(tensor.shape));
    pickle_ += "\x89";  // requires no gradient
    global("collections", "OrderedDict");
    pickle_ += ")R";  // no hooks
    if (!typed) {
      global("torch", dtype->name);
      pickle_ += 'N';  // no metadata
    }
    pickle_ += "tR";
  }

  std::string finish() && { return std::move(pickle_) + "u."; }

 private:
  template <class Number>
  void append(Number number) {
    const auto bytes = std::bit_cast<std::array<char, sizeof number>>(number);
    pickle_.append(bytes.data(), bytes.size());
  }
  void text(std::string_view value) {
    pickle_ += 'X';
    append(static_cast<std::uint32_t>(value.size()));
    pickle_ += value;
  }
  void integer(std::int64_t value) {
    pickle_ += "\x8a\x08";
    append(value);
  }
  void integers(at::IntArrayRef values) {
    pickle_ += '(';
    for (const std::int64_t value : values) integer(value);
    pickle_ += 't';
  }
  void global(std::string_view module, std::string_view name) {
    pickle_ += 'c';
    (pickle_ += module) += '\n';
    (pickle_ += name) += '\n';
  }

  std::string pickle_;
};

}  // namespace

void write_safetensors(Filesystem& files, const std::string& path, const StoredWeights& weights) {
  std::vector<NamedTensor> shapes;
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : weights.tensors) {
    shapes.push_back(
        {tensor.name, at::empty(tensor.shape, at::TensorOptions(tensor.dtype).device(at::kMeta))});
    by_name.emplace(tensor.name, &tensor);
  }
  sort_for_alignment(shapes);
  std::map<std::string, std::string> metadata = weights.metadata;
  metadata.emplace("format", "pt");  // some readers of Python's want to know whose tensors they are
  const std::string header = safetensors_header(lay_out(shapes), metadata);
  replace_file(files, path, [&](WritableFile& file) {
    file.write(header);
    for (const NamedTensor& shape : shapes)
      file.write(host_bytes(by_name.at(shape.name)->read().contiguous()));
  });
}

void write_torch_file(Filesystem& files, const std::string& path, const StoredWeights& weights) {
  StateDictPickler pickler;
  for (std::size_t i = 0; i < weights.tensors.size(); ++i) pickler.add(weights.tensors[i], std::to_string(i));
  const std::string pickle = std::move(pickler).finish();
  replace_file(files, path, [&](WritableFile& file) {
    // The archive's destructor writes, too, and must not throw: what fails is kept, and the rest dropped.
    std::exception_ptr failed;
    const auto write = [&](const void* bytes, std::size_t size) {
      try {
        if (!failed) file.write({static_cast<const char*>(bytes), size});
      } catch (const FileError&) {
        failed = std::current_exception();
      }
      return size;
    };
    caffe2::serialize::PyTorchStreamWriter archive(write);
    const auto add = [&](const std::string& name, std::string_view bytes) {
      archive.writeRecord(name, bytes.data(), bytes.size());
      if (failed) std::rethrow_exception(failed);
    };
    add("data.pkl", pickle);
    add("byteorder", "little");
    for (std::size_t i = 0; i < weights.tensors.size(); ++i)
      add("data/" + std::to_string(i), host_bytes(weights.tensors[i].read().contiguous()));
    archive.writeEndOfFile();
    if (failed) std::rethrow_exception(failed);
  });
}

}  // namespace cxtrain
