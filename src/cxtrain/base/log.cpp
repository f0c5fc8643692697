#include "cxtrain/base/log.h"

#include <unistd.h>
#include <boost/log/attributes/clock.hpp>
#include <boost/log/attributes/constant.hpp>
#include <boost/log/core.hpp>
#include <boost/log/expressions.hpp>
#include <boost/log/sinks/basic_sink_backend.hpp>
#include <boost/log/sinks/sync_frontend.hpp>
#include <boost/log/sinks/text_ostream_backend.hpp>
#include <boost/log/sources/logger.hpp>
#include <boost/log/sources/record_ostream.hpp>
#include <boost/log/sources/severity_logger.hpp>
#include <boost/log/support/date_time.hpp>
#include <boost/smart_ptr/make_shared.hpp>

#include <iostream>

#include "cxtrain/base/append_file.h"
#include "cxtrain/base/clock.h"
#include "cxtrain/base/crash_report.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/run_event.h"

namespace logging = boost::log;
namespace expr = boost::log::expressions;

namespace cxtrain {
namespace {

enum class Severity { detail, info, warning, error };

std::ostream& operator<<(std::ostream& out, Severity severity) {
  static constexpr const char* kNames[] = {"detail", "info", "warning", "error"};
  return out << kNames[static_cast<int>(severity)];
}

using ConsoleSink = logging::sinks::synchronous_sink<logging::sinks::text_ostream_backend>;

boost::shared_ptr<ConsoleSink> make_console_sink() {
  auto backend = boost::make_shared<logging::sinks::text_ostream_backend>();
  backend->add_stream(boost::shared_ptr<std::ostream>(&std::cerr, [](std::ostream*) {}));
  backend->auto_flush(true);
  return boost::make_shared<ConsoleSink>(backend);
}

/// The last line of a file may lack its end, if the machine crashed. A line that follows would be glued to
/// it.
void end_last_line(Filesystem& files, AppendFile& file) {
  const std::uint64_t size = file.size();
  if (size == 0) return;
  char last = 0;
  files.open(file.path())->read(size - 1, {&last, 1});
  if (last != '\n') file.append("\n");
}

class FileBackend : public logging::sinks::basic_formatted_sink_backend<char> {
 public:
  FileBackend(Filesystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  /// Opens the file, which the first line does otherwise. Throws FileError.
  void open() {
    if (file_) return;
    file_ = std::make_unique<AppendFile>(files_, path_);
    end_last_line(files_, *file_);
  }

  void consume(const logging::record_view&, const std::string& line) {
    try {
      open();
      file_->append(line + '\n');
      file_->flush();
    } catch (const FileError&) {
      // There is no better place to say it.
    }
  }

 private:
  Filesystem& files_;
  std::string path_;
  std::unique_ptr<AppendFile> file_;
};

using FileSink = logging::sinks::synchronous_sink<FileBackend>;

void write(Severity severity, const std::string& message) {
  logging::sources::severity_logger<Severity> logger(logging::keywords::severity = severity);
  if (logging::record record = logger.open_record()) {
    logging::record_ostream stream(record);
    stream << message;
    stream.flush();
    logger.push_record(std::move(record));
  }
}

}  // namespace

struct Log::Sinks {
  boost::shared_ptr<logging::sinks::sink> console, file, events;
};

Log::Log(int rank, bool quiet) : rank_(rank), sinks_(std::make_unique<Sinks>()) {
  logging::core::get()->add_global_attribute("TimeStamp", logging::attributes::local_clock());
  const boost::shared_ptr<ConsoleSink> console = make_console_sink();
  console->set_filter([rank, quiet](const logging::attribute_value_set& values) {
    const auto severity = values["Severity"].extract<Severity>();
    if (severity && *severity == Severity::error) return true;
    return rank == 0 && severity && *severity >= (quiet ? Severity::warning : Severity::info);
  });
  console->set_formatter([](const logging::record_view& record, logging::formatting_ostream& out) {
    const auto severity = record["Severity"].extract<Severity>();
    // A line of its own whatever a progress bar left on the terminal: carriage return, erase the line.
    static const bool terminal = isatty(STDERR_FILENO) != 0;
    if (terminal) out << "\r\033[K";
    if (severity && *severity != Severity::info) out << *severity << ": ";
    if (const auto message = record[expr::smessage]) out << printable(*message);
  });
  logging::core::get()->add_sink(console);
  sinks_->console = console;
}

Log::~Log() {
  if (sinks_->file) report_crashes_to({});
  for (const auto& sink : {sinks_->console, sinks_->file, sinks_->events}) {
    if (!sink) continue;
    logging::core::get()->remove_sink(sink);
    sink->flush();
  }
}

void Log::open_file(Filesystem& files, const std::string& directory) {
  const std::string path = directory + "/rank_" + std::to_string(rank_) + ".log";
  const auto backend = boost::make_shared<FileBackend>(files, path);
  backend->open();
  const auto file = boost::make_shared<FileSink>(backend);
  file->set_filter(expr::has_attr<Severity>("Severity"));
  file->set_formatter(
      expr::stream << expr::format_date_time<boost::posix_time::ptime>("TimeStamp", "%Y-%m-%d %H:%M:%S.%f")
                   << " rank " << rank_ << " " << expr::attr<Severity>("Severity") << ": " << expr::smessage);
  const auto events = boost::make_shared<FileSink>(
      boost::make_shared<FileBackend>(files, directory + "/" + events_file(rank_)));
  events->set_filter(expr::has_attr<RunEvent>("Event"));
  events->set_formatter([rank = rank_](const logging::record_view& record, logging::formatting_ostream& out) {
    RunEvent event = *record["Event"].extract<RunEvent>();
    event.rank = rank;
    out << text_of_json(json_of(event));
  });
  for (const auto& sink : {sinks_->file, sinks_->events}) {
    if (sink) logging::core::get()->remove_sink(sink);
  }
  logging::core::get()->add_sink(file);
  logging::core::get()->add_sink(events);
  sinks_->file = file;
  sinks_->events = events;
  report_crashes_to(path);
}

void log_event(const RunEvent& event) {
  RunEvent timed = event;
  timed.time = seconds_since_1970();
  logging::sources::logger_mt logger;
  logger.add_attribute("Event", logging::attributes::constant<RunEvent>(timed));
  if (logging::record record = logger.open_record()) logger.push_record(std::move(record));
}

void log_detail(const std::string& message) { write(Severity::detail, message); }
void log_info(const std::string& message) { write(Severity::info, message); }
void log_warning(const std::string& message) { log_warning(message, {.event = RunEvent::Kind::warning}); }
void log_warning(const std::string& message, RunEvent event) {
  write(Severity::warning, message);
  event.text = message;
  log_event(event);
}
void log_error(const std::string& message) {
  write(Severity::error, shortened(message));
  log_event({.event = RunEvent::Kind::error, .text = shortened(message)});
}

}  // namespace cxtrain
