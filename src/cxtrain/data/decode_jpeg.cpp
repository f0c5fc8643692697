#include "cxtrain/base/error.h"
#include "cxtrain/data/decode_image.h"

#ifdef CXTRAIN_JPEG

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

// These need <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

namespace cxtrain {
namespace {

/// A small file may ask for thousands of passes over a large picture. Encoders write about ten.
constexpr int kMaxScans = 500;

/// The error state of a decompression. libjpeg passes its address, as `jpeg_decompress_struct::err`, to the
/// functions below.
struct Failure {
  jpeg_error_mgr manager;  // first: libjpeg knows the address of this member
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message);
  std::longjmp(failure->escape, 1);
}

/// A level below 0 is a warning. libjpeg fills what is missing at the end of a file with grey.
void note_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(info);
}

void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* failure = reinterpret_cast<Failure*>(info->err);
  std::snprintf(failure->message, sizeof failure->message, "more than %d scans", kMaxScans);
  std::longjmp(failure->escape, 1);
}

/// A decompression. libjpeg leaves its functions by longjmp if it fails. The two methods that call libjpeg
/// have no object with a destructor, and neither has libjpeg: memory belongs to this class.
class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = leave;
    failure_.manager.emit_message = note_message;
    progress_.progress_monitor = count_scans;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Returns false if libjpeg fails; `message` then says why.
  bool read_header(const unsigned char* content, std::size_t size) {
    if (setjmp(failure_.escape) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, content, static_cast<unsigned long>(size));
    jpeg_read_header(&info_, TRUE);
    const bool four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four ? JCS_CMYK : JCS_RGB;
    return true;
  }

  /// Decodes into `pixels`. Returns false as `read_header` does.
  bool read_rows(std::uint8_t* pixels) {
    if (has_black()) row_.resize(std::size_t{4} * info_.image_width);
    return read_rows(pixels, row_.data());
  }

  std::int64_t height() const { return info_.image_height; }
  std::int64_t width() const { return info_.image_width; }
  const char* message() const { return failure_.message; }

 private:
  bool has_black() const { return info_.out_color_space == JCS_CMYK; }

  bool read_rows(std::uint8_t* pixels, std::uint8_t* row) {
    if (setjmp(failure_.escape) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      std::uint8_t* rgb = pixels + std::size_t{3} * info_.output_width * info_.output_scanline;
      JSAMPROW target = has_black() ? row : rgb;
      jpeg_read_scanlines(&info_, &target, 1);
      if (has_black()) to_rgb(rgb, row, info_.output_width);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  /// Files with CMYK are Adobe's, which store 255 minus the ink.
  static void to_rgb(std::uint8_t* rgb, const std::uint8_t* cmyk, std::size_t pixels) {
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t c = 0; c < 3; ++c)
        rgb[3 * i + c] = static_cast<std::uint8_t>(cmyk[4 * i + c] * cmyk[4 * i + 3] / 255);
    }
  }

  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  Failure failure_{};
  std::vector<std::uint8_t> row_;
};

}  // namespace

bool has_jpeg_decoder() { return true; }

void decode_jpeg(std::string_view content, const MakePixels& make) {
  JpegDecoder decoder;
  const auto* bytes = reinterpret_cast<const unsigned char*>(content.data());
  const auto refuse = [&] {
    throw DataError("is damaged: " + std::string(decoder.message()) + "; fetch it again, or remove it");
  };
  if (!decoder.read_header(bytes, content.size())) refuse();
  std::uint8_t* pixels = make(decoder.height(), decoder.width());
  if (!decoder.read_rows(pixels)) refuse();
}

}  // namespace cxtrain

#else

namespace cxtrain {

bool has_jpeg_decoder() { return false; }

void decode_jpeg(std::string_view, const MakePixels&) {
  throw DataError(
      "is a JPEG file, and this cxtrain was built without libjpeg; install libjpeg-dev (Debian) or "
      "libjpeg-turbo (conda), and build cxtrain again");
}

}  // namespace cxtrain

#endif
