#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cxtrain {

/// What a Python pickle describes, as data: classes are names and calls are notes of who would be called with
/// what. Nothing is imported, called or built, whatever a file says.
///
/// Reads the opcodes that protocols 2 to 5 write (docs.python.org/3/library/pickletools.html).
class Pickle {
 public:
  /// A value is a place in the pickle's list of nodes: values may share parts, and contain themselves.
  using Id = std::uint32_t;

  enum class Kind {
    other,    ///< None, a float, bytes, an integer of more than 64 bits
    integer,  ///< or a bool
    text,
    global,      ///< a class or function: "torch._utils._rebuild_tensor_v2"
    sequence,    ///< a list, tuple or set
    map,         ///< a dict or OrderedDict
    call,        ///< of items[0], a global as a rule, with the arguments items[1], a sequence as a rule
    persistent,  ///< items[0] says what lies outside of the pickle
  };

  struct Node {
    Kind kind = Kind::other;
    std::int64_t integer = 0;
    std::string text = {};         ///< of texts and globals
    std::vector<Id> items = {};    ///< of a map: key, value, key, value ...
    std::optional<Id> state = {};  ///< of a call: what the object is to take its attributes from
  };

  /// Throws CheckpointError with the reason alone: not a pickle, cut short, an opcode that is not known, or
  /// more values than a pickle of this length has (one for every two bytes), or than ten million.
  explicit Pickle(std::string_view bytes);

  const Node& root() const { return nodes_[root_]; }
  const Node& operator[](Id id) const { return nodes_[id]; }
  /// The value of a text key in a map; null where there is none, or the node is no map.
  const Node* find(const Node& map, std::string_view key) const;

 private:
  friend class PickleReader;

  std::deque<Node> nodes_;  ///< no second copy of all while it grows
  Id root_ = 0;
};

}  // namespace cxtrain
