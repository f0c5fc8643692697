#include "cxtrain/comm/between_nodes/polled_courier.h"

#include <utility>

#include "cxtrain/comm/between_nodes/travel_log.h"

namespace cxtrain {

PolledCourier::PolledCourier(std::unique_ptr<Links> links, std::size_t chunk_bytes, Watchdog& watchdog)
    : links_(std::move(links)),
      watchdog_(watchdog),
      exchanges_(
          new CourierExchanges{SliceExchange(*links_, chunk_bytes), PartExchange(*links_, chunk_bytes)}) {}

PolledCourier::~PolledCourier() {
  if (exchange_ == nullptr) return;
  static_cast<void>(exchanges_.release());
  static_cast<void>(links_.release());
}

void PolledCourier::post(std::unique_ptr<Errand> errand) {
  errands_.push_back(std::move(errand));
  proceed();
}

void PolledCourier::wait_until_finished(NodeBoard& board, std::uint64_t exchange, int couriers) {
  const Watchdog::Wait wait(watchdog_, kOverNodes);
  while (!board.have_finished(exchange, couriers)) {
    if (!proceed()) links_->wait();
  }
}

bool PolledCourier::proceed() {
  static const std::atomic<bool> at_once{true};
  bool any = false;
  while (!errands_.empty()) {
    Errand& first = *errands_.front();
    if (exchange_ == nullptr) {
      if (!first.wait_for_values(at_once)) break;
      exchange_ = &first.begin(*exchanges_);
      began_ = TravelLog::begin();
    }
    any = exchange_->proceed() || any;
    if (!exchange_->done()) break;
    exchange_ = nullptr;
    TravelLog::end(began_, first.bytes());
    first.finished();
    errands_.pop_front();
    any = true;
  }
  return any;
}

}  // namespace cxtrain
