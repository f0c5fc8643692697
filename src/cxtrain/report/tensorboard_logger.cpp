#include "cxtrain/report/file_loggers.h"

#include <chrono>
#include <vector>

#include "cxtrain/report/tensorboard/event_writer.h"

namespace cxtrain {

TensorBoardLogger::TensorBoardLogger(Filesystem& files, const std::string& directory)
    : writer_(std::make_unique<EventWriter>(files, directory)) {}

TensorBoardLogger::~TensorBoardLogger() = default;

void TensorBoardLogger::log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) {
  std::vector<Metric> scalars(metrics.begin(), metrics.end());
  scalars.emplace_back("epoch", static_cast<double>(epoch));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  writer_->add_scalars(step, std::chrono::duration<double>(now).count(), scalars);
}

void TensorBoardLogger::flush() { writer_->flush(); }

}  // namespace cxtrain
