#include "cxtrain/checkpoint/pickle.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "cxtrain/checkpoint/checkpoint_error.h"

namespace cxtrain {

/// The machine that a pickle is a program for: a stack, marks in it, and a memo of values.
class PickleReader {
 public:
  using Id = Pickle::Id;
  using Kind = Pickle::Kind;

  PickleReader(std::string_view bytes, Pickle& pickle);

 private:
  static constexpr std::size_t kMaxNodes = 10'000'000, kFewNodes = 1000, kBytesOfFewGlobals = 65'536;

  /// An opcode, and what carries it out.
  struct Opcode {
    unsigned char code;
    void (*run)(PickleReader&);
  };
  static const Opcode kOpcodes[];

  /// Carries out one opcode; false at the end.
  bool step() {
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') return false;
    if (by_code_[code] == nullptr) {
      throw CheckpointError("its pickle has the opcode " + std::to_string(code) + " at byte " +
                            std::to_string(at_ - 1) + ", which is not known here");
    }
    by_code_[code](*this);
    return true;
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
  /// Skips a value of this many bytes, and pushes an empty node for the value.
  void push_unread(std::uint64_t bytes) {
    take(bytes);
    push_node({});
  }
  void push_integer(std::int64_t value) { push_node({.kind = Kind::integer, .integer = value}); }
  void push_text(std::string_view text) { push_node({.kind = Kind::text, .text = std::string(text)}); }
  void push_global(const std::string& module, const std::string& name) {
    // Names may be recalled from the memo, in a few bytes.
    bytes_of_globals_ += module.size() + name.size();
    if (bytes_of_globals_ > kBytesOfFewGlobals + 4 * bytes_.size())
      throw CheckpointError("its pickle has too many long class names for its size");
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

  std::array<void (*)(PickleReader&), 256> by_code_{};
  const std::string_view bytes_;
  const std::size_t most_nodes_;
  std::size_t at_ = 0;
  std::size_t bytes_of_globals_ = 0;
  std::deque<Pickle::Node>& nodes_;
  std::optional<Id> none_, true_, false_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack
  std::unordered_map<std::uint64_t, Id> memo_;
};

// clang-format off
// NOLINTNEXTLINE(cert-err58-cpp): conversions of lambdas do not throw
const PickleReader::Opcode PickleReader::kOpcodes[] = {
    {0x80, [](PickleReader& r) { r.take(1); }},  // PROTO
    {0x95, [](PickleReader& r) { r.take(8); }},  // FRAME: its length is of no use here
    {'(', [](PickleReader& r) { r.marks_.push_back(r.stack_.size()); }},
    {'0', [](PickleReader& r) { r.pop(); }},
    {'1', [](PickleReader& r) { r.pop_mark(); }},
    {'2', [](PickleReader& r) { r.push(r.top()); }},
    {'N', [](PickleReader& r) { r.push_shared(r.none_, {}); }},
    {0x88, [](PickleReader& r) { r.push_shared(r.true_, {.kind = Kind::integer, .integer = 1}); }},
    {0x89, [](PickleReader& r) { r.push_shared(r.false_, {.kind = Kind::integer}); }},
    {'J', [](PickleReader& r) { r.push_integer(static_cast<std::int32_t>(r.number(4))); }},
    {'K', [](PickleReader& r) { r.push_integer(static_cast<std::int64_t>(r.number(1))); }},
    {'M', [](PickleReader& r) { r.push_integer(static_cast<std::int64_t>(r.number(2))); }},
    {0x8a, [](PickleReader& r) { r.push_long(r.take(r.number(1))); }},
    {0x8b, [](PickleReader& r) { r.push_long(r.take(r.number(4))); }},
    {'G', [](PickleReader& r) { r.push_unread(8); }},  // a float
    {'C', [](PickleReader& r) { r.push_unread(r.number(1)); }},  // bytes
    {'B', [](PickleReader& r) { r.push_unread(r.number(4)); }},
    {0x8e, [](PickleReader& r) { r.push_unread(r.number(8)); }},
    {0x96, [](PickleReader& r) { r.push_unread(r.number(8)); }},
    {'U', [](PickleReader& r) { r.push_text(r.take(r.number(1))); }},
    {0x8c, [](PickleReader& r) { r.push_text(r.take(r.number(1))); }},
    {'T', [](PickleReader& r) { r.push_text(r.take(r.number(4))); }},
    {'X', [](PickleReader& r) { r.push_text(r.take(r.number(4))); }},
    {0x8d, [](PickleReader& r) { r.push_text(r.take(r.number(8))); }},
    {')', [](PickleReader& r) { r.push_items(Kind::sequence, {}); }},
    {']', [](PickleReader& r) { r.push_items(Kind::sequence, {}); }},
    {0x8f, [](PickleReader& r) { r.push_items(Kind::sequence, {}); }},
    {'t', [](PickleReader& r) { r.push_items(Kind::sequence, r.pop_mark()); }},
    {'l', [](PickleReader& r) { r.push_items(Kind::sequence, r.pop_mark()); }},
    {0x91, [](PickleReader& r) { r.push_items(Kind::sequence, r.pop_mark()); }},
    {0x85, [](PickleReader& r) { r.push_items(Kind::sequence, r.pop_many(1)); }},
    {0x86, [](PickleReader& r) { r.push_items(Kind::sequence, r.pop_many(2)); }},
    {0x87, [](PickleReader& r) { r.push_items(Kind::sequence, r.pop_many(3)); }},
    {'a', [](PickleReader& r) { r.extend(Kind::sequence, r.pop_many(1)); }},
    {'e', [](PickleReader& r) { r.extend(Kind::sequence, r.pop_mark()); }},
    {0x90, [](PickleReader& r) { r.extend(Kind::sequence, r.pop_mark()); }},
    {'}', [](PickleReader& r) { r.push_items(Kind::map, {}); }},
    {'d', [](PickleReader& r) { r.push_items(Kind::map, even(r.pop_mark())); }},
    {'s', [](PickleReader& r) { r.extend(Kind::map, r.pop_many(2)); }},
    {'u', [](PickleReader& r) { r.extend(Kind::map, even(r.pop_mark())); }},
    {'c', [](PickleReader& r) { const std::string module = r.line(); r.push_global(module, r.line()); }},
    {0x93, [](PickleReader& r) {
       const std::vector<Id> names = r.pop_many(2);
       r.push_global(r.nodes_[names[0]].text, r.nodes_[names[1]].text);
     }},
    {'R', [](PickleReader& r) { r.call(r.pop_many(2)); }},
    {0x81, [](PickleReader& r) { r.call(r.pop_many(2)); }},
    {0x92, [](PickleReader& r) { r.pop(); r.call(r.pop_many(2)); }},  // nothing here needs keyword arguments
    {'b', [](PickleReader& r) {
       const Id state = r.pop();
       if (r.nodes_[r.top()].kind == Kind::call) r.nodes_[r.top()].state = state;
     }},
    {'Q', [](PickleReader& r) { r.push_items(Kind::persistent, r.pop_many(1)); }},
    {'h', [](PickleReader& r) { r.recall(r.number(1)); }},
    {'j', [](PickleReader& r) { r.recall(r.number(4)); }},
    {'q', [](PickleReader& r) { const std::uint64_t key = r.number(1); r.memo_[key] = r.top(); }},
    {'r', [](PickleReader& r) { const std::uint64_t key = r.number(4); r.memo_[key] = r.top(); }},
    {0x94, [](PickleReader& r) { r.memo_.emplace(r.memo_.size(), r.top()); }},
};
// clang-format on

PickleReader::PickleReader(std::string_view bytes, Pickle& pickle)
    : bytes_(bytes), most_nodes_(std::min(kMaxNodes, kFewNodes + bytes.size() / 2)), nodes_(pickle.nodes_) {
  for (const Opcode& opcode : kOpcodes) by_code_[opcode.code] = opcode.run;
  while (step()) {
  }
  pickle.root_ = pop();
}

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
