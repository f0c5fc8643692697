#include "cxtrain/optim/optimizer_archive.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/zip_directory.h"

namespace cxtrain {
namespace {

/// An archive in memory, as both readers want it.
class ArchiveBytes final : public ReadableFile, public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit ArchiveBytes(at::Tensor bytes) : bytes_(std::move(bytes)) {}

  std::size_t size() const override { return bytes_.nbytes(); }
  std::size_t read(std::uint64_t offset, std::span<char> bytes) const override {
    if (offset >= size()) return 0;
    const std::size_t count = std::min<std::size_t>(bytes.size(), size() - offset);
    std::memcpy(bytes.data(), static_cast<const char*>(bytes_.const_data_ptr()) + offset, count);
    return count;
  }
  std::size_t read(std::uint64_t offset, void* bytes, std::size_t count, const char*) const override {
    return read(offset, {static_cast<char*>(bytes), count});
  }

 private:
  at::Tensor bytes_;
};

/// LibTorch finds records by their names in any case.
std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto is_part = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (!is_part(at - 1) && !is_part(at + word.size())) return true;
  }
  return false;
}

/// Whether a record may have a program, or name C++ classes. Other records are values.
bool is_looked_at(const std::string& record) {
  return record.starts_with("code/") || record.ends_with(".pkl") || record.ends_with(".py");
}

}  // namespace

void require_no_program(const at::Tensor& bytes, const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    throw StateError("the saved state " + name + " is refused: " + why +
                     "; resume from a checkpoint that you trust, or train with another optimizer");
  };
  const auto archive = std::make_shared<ArchiveBytes>(bytes.cpu().contiguous());
  try {
    constexpr std::uint64_t kMaxUnpacked = std::uint64_t{16} << 20;
    for (const ZipRecord& record : read_zip_directory(*archive)) {
      if (record.bytes > std::max<std::uint64_t>(archive->size(), kMaxUnpacked))
        refuse("a record of its archive would have more bytes than the archive");
    }
    caffe2::serialize::PyTorchStreamReader reader(archive);
    for (const std::string& record : reader.getAllRecords()) {
      const std::string kind = lower_case(record);
      if (kind.ends_with("model.json"))
        refuse("its archive has a format of before 2019, which may run a program");
      if (!is_looked_at(kind)) continue;
      const auto [content, size] = reader.getRecord(record);
      const std::string_view text(static_cast<const char*>(content.get()), size);
      if (has_word(text, "def") || text.find("torch.classes") != std::string_view::npos)
        refuse("its archive has a program, which would run when the state is loaded");
    }
  } catch (const StateError&) {
    throw;
  } catch (const std::exception&) {  // messages of the readers name bytes of the archive
    refuse("its archive is damaged");
  }
}

}  // namespace cxtrain
