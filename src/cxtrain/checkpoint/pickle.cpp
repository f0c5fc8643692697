#include "cxtrain/checkpoint/pickle.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "cxtrain/checkpoint/checkpoint_error.h"

namespace cxtrain {

/// The machine that a pickle is a program for: a stack, marks in it, and a memo of values.
class PickleReader {
 public:
  using Id = Pickle::Id;
  using Kind = Pickle::Kind;

  PickleReader(std::string_view bytes, Pickle& pickle)
      : bytes_(bytes),
        most_nodes_(std::min(kMostNodes, kFewNodes + bytes.size() / 2)),
        nodes_(pickle.nodes_) {
    while (step()) {
    }
    pickle.root_ = pop();
  }

 private:
  static constexpr std::size_t kMostNodes = 10'000'000, kFewNodes = 1000;

  /// Carries out one opcode; false at the end.
  bool step() {
    const auto opcode = static_cast<unsigned char>(take(1)[0]);
    switch (opcode) {
      case 0x80:  // PROTO
        take(1);
        return true;
      case 0x95:  // FRAME: its length is of no use here
        take(8);
        return true;
      case '.':
        return false;
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_mark();
        return true;
      case '2':
        push(top());
        return true;
      case 'N':
        push_shared(none_, {});
        return true;
      case 0x88:
        push_shared(true_, {.kind = Kind::integer, .integer = 1});
        return true;
      case 0x89:
        push_shared(false_, {.kind = Kind::integer});
        return true;
      case 'J':
        push_integer(static_cast<std::int32_t>(number(4)));
        return true;
      case 'K':
        push_integer(static_cast<std::int64_t>(number(1)));
        return true;
      case 'M':
        push_integer(static_cast<std::int64_t>(number(2)));
        return true;
      case 0x8a:
        push_long(take(number(1)));
        return true;
      case 0x8b:
        push_long(take(number(4)));
        return true;
      case 'G':
        take(8);
        push_node({});
        return true;
      case 'B':
      case 'C':
      case 0x8e:
      case 0x96:  // bytes
        take(number(opcode == 'B' ? 4 : opcode == 'C' ? 1 : 8));
        push_node({});
        return true;
      case 'T':
      case 'X':
        push_text(take(number(4)));
        return true;
      case 'U':
      case 0x8c:
        push_text(take(number(1)));
        return true;
      case 0x8d:
        push_text(take(number(8)));
        return true;
      case ')':
      case ']':
      case 0x8f:
        push_node({.kind = Kind::sequence});
        return true;
      case 't':
      case 'l':
      case 0x91:
        push_items(Kind::sequence, pop_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_items(Kind::sequence, pop_many(opcode - 0x84U));
        return true;
      case 'a':
        extend(Kind::sequence, pop_many(1));
        return true;
      case 'e':
      case 0x90:
        extend(Kind::sequence, pop_mark());
        return true;
      case '}':
        push_node({.kind = Kind::map});
        return true;
      case 'd':
        push_items(Kind::map, even(pop_mark()));
        return true;
      case 's':
        extend(Kind::map, pop_many(2));
        return true;
      case 'u':
        extend(Kind::map, even(pop_mark()));
        return true;
      case 'c': {
        const std::string module = line();
        push_global(module, line());
        return true;
      }
      case 0x93: {
        const std::vector<Id> names = pop_many(2);
        push_global(nodes_[names[0]].text, nodes_[names[1]].text);
        return true;
      }
      case 'R':
      case 0x81:
        call(pop_many(2));
        return true;
      case 0x92: {  // with keyword arguments, which nothing here needs
        pop();
        call(pop_many(2));
        return true;
      }
      case 'b': {
        const Id state = pop();
        if (nodes_[top()].kind == Kind::call) nodes_[top()].state = state;
        return true;
      }
      case 'Q':
        push_items(Kind::persistent, pop_many(1));
        return true;
      case 'h':
        recall(number(1));
        return true;
      case 'j':
        recall(number(4));
        return true;
      case 'q':
        memo_[number(1)] = top();
        return true;
      case 'r':
        memo_[number(4)] = top();
        return true;
      case 0x94:
        memo_.emplace(memo_.size(), top());
        return true;
      default:
        throw CheckpointError("its pickle has the opcode " + std::to_string(opcode) + " at byte " +
                              std::to_string(at_ - 1) + ", which is not known here");
    }
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) throw CheckpointError("its pickle ends within a value");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  /// Unsigned, of so many bytes, little-endian.
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (const char byte : take(bytes)) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << shift;
      shift += 8;
    }
    return value;
  }

  std::string line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) throw CheckpointError("its pickle ends within a name");
    const std::string_view text = take(end - at_);
    take(1);
    return std::string(text);
  }

  void push(Id id) { stack_.push_back(id); }
  void push_node(Pickle::Node node) {
    if (nodes_.size() >= most_nodes_)
      throw CheckpointError("its pickle has more than " + std::to_string(most_nodes_) + " values");
    nodes_.push_back(std::move(node));
    push(static_cast<Id>(nodes_.size() - 1));
  }
  /// A value of one byte, of which a file may have millions.
  void push_shared(std::optional<Id>& shared, Pickle::Node node) {
    if (shared) return push(*shared);
    push_node(std::move(node));
    shared = stack_.back();
  }
  void push_integer(std::int64_t value) { push_node({.kind = Kind::integer, .integer = value}); }
  void push_text(std::string_view text) { push_node({.kind = Kind::text, .text = std::string(text)}); }
  void push_global(const std::string& module, const std::string& name) {
    push_node({.kind = Kind::global, .text = module + "." + name});
  }
  void push_items(Kind kind, std::vector<Id> items) { push_node({.kind = kind, .items = std::move(items)}); }
  /// Of two's complement, little-endian.
  void push_long(std::string_view digits) {
    if (digits.size() > sizeof(std::int64_t)) return push_node({});
    const bool negative = !digits.empty() && (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(digits[i]);
    push_integer(static_cast<std::int64_t>(value));
  }

  /// The value that is uppermost, above the last mark.
  Id top() const {
    if (stack_.size() == (marks_.empty() ? 0 : marks_.back()))
      throw CheckpointError("its pickle takes a value from an empty stack");
    return stack_.back();
  }
  Id pop() {
    const Id id = top();
    stack_.pop_back();
    return id;
  }
  std::vector<Id> pop_many(std::size_t count) {
    std::vector<Id> items(count);
    while (count > 0) items[--count] = pop();
    return items;
  }
  std::vector<Id> pop_mark() {
    if (marks_.empty()) throw CheckpointError("its pickle goes back to a mark that it has not made");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Id> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  static std::vector<Id> even(std::vector<Id> items) {
    if (items.size() % 2 != 0) throw CheckpointError("its pickle has a key without a value");
    return items;
  }

  /// Adds to the uppermost value where it is of this kind; what it is to another one is not known.
  void extend(Kind kind, const std::vector<Id>& items) {
    Pickle::Node& node = nodes_[top()];
    if (node.kind == kind) node.items.insert(node.items.end(), items.begin(), items.end());
  }

  void call(std::vector<Id> callee_and_arguments) {
    const std::string& callee = nodes_[callee_and_arguments[0]].text;
    const std::vector<Id>& arguments = nodes_[callee_and_arguments[1]].items;
    if (callee == "collections.OrderedDict" && arguments.empty()) return push_node({.kind = Kind::map});
    // LibTorch writes down of which type a list or dict is.
    if (callee == "torch.jit._pickle.restore_type_tag" && !arguments.empty()) return push(arguments[0]);
    push_items(Kind::call, std::move(callee_and_arguments));
  }

  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) throw CheckpointError("its pickle reads a memo that it has not written");
    push(found->second);
  }

  const std::string_view bytes_;
  const std::size_t most_nodes_;
  std::size_t at_ = 0;
  std::deque<Pickle::Node>& nodes_;
  std::optional<Id> none_, true_, false_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack
  std::unordered_map<std::uint64_t, Id> memo_;
};

Pickle::Pickle(std::string_view bytes) { PickleReader(bytes, *this); }

const Pickle::Node* Pickle::find(const Node& map, std::string_view key) const {
  if (map.kind != Kind::map) return nullptr;
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
    const Node& name = nodes_[map.items[i]];
    if (name.kind == Kind::text && name.text == key) return &nodes_[map.items[i + 1]];
  }
  return nullptr;
}

}  // namespace cxtrain
