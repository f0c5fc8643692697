#include "cxtrain/checkpoint/torch_archive.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/from_blob.h>
#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "cxtrain/base/transformed.h"
#include "cxtrain/checkpoint/pickle.h"
#include "cxtrain/checkpoint/torch_dtypes.h"
#include "cxtrain/checkpoint/zip_directory.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

using Node = Pickle::Node;
using Kind = Pickle::Kind;

constexpr std::uint64_t kLongestPickle = std::uint64_t{256} << 20;
constexpr std::size_t kMaxDimensionsStored = 64;
/// How deeply modules may lie in each other, and how many attributes are looked at: a pickle may contain
/// itself.
constexpr int kDeepestModule = 100;
constexpr std::size_t kMaxVisits = 10'000'000;

/// Of a storage's class, or of torch's object for a dtype: "torch.FloatStorage", "torch.float32".
std::optional<at::ScalarType> dtype_named(std::string_view name) {
  constexpr std::string_view kModule = "torch.";
  if (!name.starts_with(kModule)) return std::nullopt;
  name.remove_prefix(kModule.size());
  for (const TorchDtype& known : torch_dtypes()) {
    if (!name.empty() && (known.storage == name || known.name == name)) return known.dtype;
  }
  return std::nullopt;
}

/// The port as LibTorch's reader wants it. Errors are no bytes to it: exceptions would go through C.
class FileAdapter final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit FileAdapter(std::unique_ptr<ReadableFile> file) : file_(std::move(file)), size_(file_->size()) {}

  std::size_t size() const override { return size_; }
  std::size_t read(std::uint64_t offset, void* bytes, std::size_t count, const char*) const override {
    try {
      return file_->read(offset, {static_cast<char*>(bytes), count});
    } catch (const FileError&) {
      return 0;
    }
  }

 private:
  std::unique_ptr<ReadableFile> file_;
  std::size_t size_;
};

/// The records of an archive. Several threads may read from one.
class Archive {
 public:
  Archive(Filesystem& files, std::string path) : path_(std::move(path)) {
    std::unique_ptr<ReadableFile> file = files.open(path_);
    size_ = file->size();
    // LibTorch's reader unpacks some records as soon as it opens an archive.
    for (const ZipRecord& record : directory_of(*file)) {
      if (record.is_packed && record.bytes > std::max(size_, kMaxPacked)) refuse_as_too_large(record.name);
    }
    read("version", [&] { reader_.emplace(std::make_shared<FileAdapter>(std::move(file))); });
  }

  bool has(const std::string& record) {
    return read(record, [&] { return reader_->hasRecord(record); });
  }
  /// Refuses a packed record that would unpack to more than the file has: nobody packs tensors so.
  std::uint64_t size(const std::string& record) {
    const std::uint64_t bytes = read(record, [&] { return reader_->getRecordSize(record); });
    if (bytes > size_) refuse_as_too_large(record);
    return bytes;
  }
  /// The bytes of a record.
  at::Tensor content(const std::string& record) {
    size(record);
    auto [bytes, size] = read(record, [&] { return reader_->getRecord(record); });
    const auto owner = std::make_shared<at::DataPtr>(std::move(bytes));
    return at::from_blob(
        owner->get(), {static_cast<std::int64_t>(size)}, [owner](void*) {}, at::kByte);
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw CheckpointError("'" + path_ + "' is damaged or no file that torch.save wrote: " + reason +
                          "; fetch or save it again");
  }

  /// Elements of a storage, flat. The last one is kept: tensors often share theirs.
  at::Tensor storage(const std::string& key, at::ScalarType dtype) {
    const std::lock_guard lock(mutex_);
    if (!kept_ || kept_->first != key) {
      kept_.reset();
      kept_.emplace(key, content("data/" + key));
    }
    const at::Tensor& all = kept_->second;
    const auto element = static_cast<std::int64_t>(c10::elementSize(dtype));
    if (dtype == at::kBool) return all.ne(0);
    return all.narrow(0, 0, all.numel() / element * element).view(dtype);
  }

 private:
  /// What LibTorch says of an error is about its reader, not about the file.
  template <class Read>
  auto read(const std::string& record, Read&& read) -> decltype(read()) {
    try {
      return read();
    } catch (const CheckpointError&) {
      throw;
    } catch (const std::exception&) {  // c10::Error, and what a number that is none makes
      refuse("its record '" + shortened(record, 100) + "' is missing or cannot be read");
    }
  }

  std::vector<ZipRecord> directory_of(const ReadableFile& file) const {
    try {
      return read_zip_directory(file);
    } catch (const CheckpointError& reason) {
      refuse(reason.what());
    }
  }
  [[noreturn]] void refuse_as_too_large(const std::string& record) const {
    refuse("'" + shortened(record, 100) + "' would have more bytes than the file");
  }

  /// Programs of TorchScript are packed, and may be larger than the weights.
  static constexpr std::uint64_t kMaxPacked = std::uint64_t{16} << 20;

  const std::string path_;
  std::uint64_t size_ = 0;
  std::optional<caffe2::serialize::PyTorchStreamReader> reader_;
  std::mutex mutex_;
  std::optional<std::pair<std::string, at::Tensor>> kept_;
};

/// Where a pickled tensor's elements are.
struct TensorPlace {
  std::string key;  ///< of its storage
  at::ScalarType dtype;
  std::int64_t storage_elements, offset;
  std::vector<std::int64_t> shape, strides;
};

/// Finds the tensors in a pickle.
class TensorFinder {
 public:
  /// `pickled`: bytes of the pickle.
  TensorFinder(const std::shared_ptr<Archive>& archive, const Pickle& pickle, std::size_t pickled,
               StoredWeights& weights)
      : archive_(archive),
        pickle_(pickle),
        weights_(weights),
        most_bytes_((std::size_t{1} << 20) + 64 * pickled) {}

  void find() {
    const Node* state_dict = &pickle_.root();
    for (const char* key : {"state_dict", "model_state_dict", "model"}) {
      const Node* inner = pickle_.find(pickle_.root(), key);
      if (inner == nullptr || (inner->kind != Kind::map && !inner->state)) continue;
      state_dict = inner;
      break;
    }
    if (state_dict->kind == Kind::map) {
      add_tensors(*state_dict, "");
    } else {
      add_module(*state_dict, "", 0);
    }
    if (weights_.tensors.empty() && !state_dict->items.empty()) refuse_without_tensors();
  }

 private:
  template <class Visit>
  void each(const Node& map, Visit&& visit) {
    if (map.kind != Kind::map) return;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
      if (++visits_ > kMaxVisits) archive_->refuse("its modules contain each other");
      const Node& name = pickle_[map.items[i]];
      if (name.kind == Kind::text) visit(name.text, pickle_[map.items[i + 1]]);
    }
  }

  void add_tensors(const Node& map, const std::string& prefix) {
    each(map, [&](const std::string& name, const Node& value) { add_tensor(prefix + name, value); });
  }

  /// A module's attributes; Python's has its tensors and its modules in dicts of these names.
  void add_module(const Node& module, const std::string& prefix, int depth) {
    if (!module.state) return;
    if (depth > kDeepestModule) archive_->refuse("its modules lie too deep in each other");
    each(pickle_[*module.state], [&](const std::string& name, const Node& value) {
      if (name == "_parameters" || name == "_buffers") {
        add_tensors(value, prefix);
      } else if (name == "_modules") {
        each(value, [&](const std::string& inner, const Node& child) {
          add_module(child, prefix + inner + ".", depth + 1);
        });
      } else if (!add_tensor(prefix + name, value)) {
        add_module(value, prefix + name + ".", depth + 1);
      }
    });
  }

  /// Whether the value is a tensor. Other kinds than plain ones are noted.
  bool add_tensor(const std::string& name, const Node& value) {
    const std::optional<TensorPlace> place = place_of(value);
    if (!place) {
      if (!is_rebuilt(value)) return false;
      count(name);
      weights_.skipped.push_back(name);
      return false;
    }
    check_place(name, *place);
    count(name);
    if (!names_.insert(name).second)
      archive_->refuse("it has two tensors of the name '" + shortened(name, 200) + "'");
    weights_.tensors.push_back(
        {name, place->dtype, place->shape, [archive = archive_, place = *place] {
           const at::Tensor all = archive->storage(place.key, place.dtype);
           return all.as_strided(place.shape, place.strides, place.offset).contiguous();
         }});
    return true;
  }

  /// A module may hold another one more than once, under several names.
  void count(const std::string& name) {
    constexpr std::size_t kBytesOfTensor = 256;
    bytes_ += name.size() + kBytesOfTensor;
    if (bytes_ > most_bytes_) archive_->refuse("its modules have too many tensors for its size");
  }

  bool is_rebuilt(const Node& value) const {
    return value.kind == Kind::call && pickle_[value.items[0]].text.starts_with("torch._utils._rebuild_");
  }

  std::optional<TensorPlace> place_of(const Node& value) const {
    if (value.kind != Kind::call) return std::nullopt;
    const Node* function = &pickle_[value.items[0]];
    const Node* arguments = &pickle_[value.items[1]];
    // Wrapped: parameters, and tensors that have attributes of their own. Neither stands twice in a sane
    // file.
    for (int wrapped = 0; wrapped < 4; ++wrapped) {
      const std::vector<Pickle::Id>& items = arguments->items;
      if (function->text == "torch._tensor._rebuild_from_type_v2" && items.size() >= 3) {
        function = &pickle_[items[0]];
        arguments = &pickle_[items[2]];
      } else if (function->text.starts_with("torch._utils._rebuild_parameter") && !items.empty() &&
                 pickle_[items[0]].kind == Kind::call) {
        const Node& data = pickle_[items[0]];
        function = &pickle_[data.items[0]];
        arguments = &pickle_[data.items[1]];
      }
    }
    const bool has_dtype = function->text == "torch._utils._rebuild_tensor_v3";
    if (!has_dtype && function->text != "torch._utils._rebuild_tensor_v2" &&
        function->text != "torch._utils._rebuild_tensor") {
      return std::nullopt;
    }
    const std::vector<Pickle::Id>& items = arguments->items;
    if (items.size() < (has_dtype ? 7 : 4)) return std::nullopt;
    // A conjugate or negative view says so in metadata: its elements are not those of its storage.
    const std::size_t metadata = has_dtype ? 7 : 6;
    if (items.size() > metadata && !pickle_[items[metadata]].items.empty()) return std::nullopt;
    const Node& storage = pickle_[items[0]];
    if (storage.kind != Kind::persistent) return std::nullopt;
    const std::vector<Pickle::Id>& where = pickle_[storage.items[0]].items;
    if (where.size() < 5 || pickle_[where[0]].text != "storage") return std::nullopt;
    const auto dtype = dtype_named(pickle_[has_dtype ? items[6] : where[1]].text);
    if (!dtype) return std::nullopt;
    std::int64_t elements = pickle_[where[4]].integer;
    if (has_dtype) elements /= static_cast<std::int64_t>(c10::elementSize(*dtype));  // they are bytes
    return TensorPlace{
        pickle_[where[2]].text, *dtype, elements, pickle_[items[1]].integer, integers(items[2]),
        integers(items[3])};
  }

  std::vector<std::int64_t> integers(Pickle::Id sequence) const {
    return transformed(pickle_[sequence].items, [this](Pickle::Id id) { return pickle_[id].integer; });
  }

  /// That all of its elements lie in its storage, each in a place of its own, and the storage in the archive.
  void check_place(const std::string& name, const TensorPlace& place) const {
    const auto refuse = [&](const std::string& why) {
      archive_->refuse("'" + shortened(name, 200) + "' " + why);
    };
    const auto element = static_cast<std::int64_t>(c10::elementSize(place.dtype));
    const auto bytes = static_cast<std::int64_t>(archive_->size("data/" + place.key));
    if (place.storage_elements < 0 || place.storage_elements > bytes / element)
      refuse("has a storage that is cut short");
    if (place.shape.size() != place.strides.size() || place.shape.size() > kMaxDimensionsStored)
      refuse("has a shape that is none");
    const bool is_empty = std::ranges::find(place.shape, 0) != place.shape.end();
    // Of an empty tensor LibTorch multiplies the other sizes for its strides.
    const std::int64_t most = is_empty ? std::numeric_limits<std::int64_t>::max() : place.storage_elements;
    std::int64_t count = 1, last = place.offset;
    bool fits = place.offset >= 0 && place.offset <= place.storage_elements;
    for (std::size_t d = 0; fits && d < place.shape.size(); ++d) {
      const std::int64_t size = place.shape[d], stride = place.strides[d];
      fits = size >= 0 && stride >= 0 && std::max<std::int64_t>(size, 1) <= most / count;
      if (!fits || size <= 1) continue;
      count *= size;
      if (is_empty) continue;
      fits = stride <= (most - last) / (size - 1);
      if (fits) last += (size - 1) * stride;
    }
    if (!fits || (!is_empty && last >= place.storage_elements))
      refuse("has a shape that its storage has no room for");
  }

  [[noreturn]] void refuse_without_tensors() {
    std::string keys;
    each(pickle_.root(), [&](const std::string& name, const Node&) {
      if (keys.size() < 300) keys += (keys.empty() ? "" : ", ") + shortened(name, 60);
    });
    archive_->refuse("it has no tensors at its top, nor under state_dict, model_state_dict or model" +
                     (keys.empty() ? "" : " (it has " + keys + ")"));
  }

  std::shared_ptr<Archive> archive_;
  const Pickle& pickle_;
  StoredWeights& weights_;
  std::set<std::string> names_;
  std::size_t visits_ = 0;
  std::size_t bytes_ = 0;  ///< of tensors and their names, about
  const std::size_t most_bytes_;
};

}  // namespace

StoredWeights open_torch_archive(Filesystem& files, const std::string& path) {
  const auto archive = std::make_shared<Archive>(files, path);
  StoredWeights weights{path, archive->has("constants.pkl") ? "TorchScript" : "PyTorch", {}, {}};
  if (!archive->has("data.pkl")) archive->refuse("it is a zip archive without data.pkl");
  if (archive->has("byteorder")) {
    const at::Tensor bytes = archive->content("byteorder");
    const std::string_view order = host_bytes(bytes);
    if (order != "little") archive->refuse("its byte order is " + shortened(std::string(order), 20));
  }
  if (archive->size("data.pkl") > kLongestPickle) archive->refuse("its pickle is too large");
  const at::Tensor bytes = archive->content("data.pkl");
  const std::string_view text = host_bytes(bytes);
  std::optional<Pickle> pickle;
  try {
    pickle.emplace(text);
  } catch (const CheckpointError& reason) {
    archive->refuse(reason.what());
  }
  TensorFinder(archive, *pickle, text.size(), weights).find();
  return weights;
}

}  // namespace cxtrain
