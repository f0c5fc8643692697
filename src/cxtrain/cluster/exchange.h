#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cluster/world.h"

/// Collectives of `World` for values: numbers, texts, lists, and structs with `fields`. Values arrive to the
/// bit.
namespace cxtrain {

/// Returns the root's value on every rank. Collective.
template <class Value>
Value broadcast_value(World& world, const Value& value, int root = 0) {
  return from_message<Value>(world.broadcast(to_message(value), root));
}

/// Returns the values of messages (`to_message`), in their order.
template <class Value>
std::vector<Value> values_of_messages(const std::vector<std::string>& messages) {
  return transformed(messages, from_message<Value>);
}

/// Returns every rank's value, in rank order. Collective.
template <class Value>
std::vector<Value> gather_values(World& world, const Value& own) {
  return values_of_messages<Value>(world.all_gather(to_message(own)));
}

/// Returns every rank's value, in rank order, on the root; returns nothing on all other ranks. Collective.
template <class Value>
std::vector<Value> gather_values_on_root(World& world, const Value& own) {
  return values_of_messages<Value>(world.gather_root(to_message(own)));
}

/// Returns the values of this node's ranks, in their order. Collective.
template <class Value>
std::vector<Value> gather_values_on_node(World& world, const Value& own) {
  return values_of_messages<Value>(world.gather_node(to_message(own)));
}

}  // namespace cxtrain
