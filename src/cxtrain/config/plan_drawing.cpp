#include "cxtrain/config/plan_drawing.h"

#include <algorithm>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

constexpr std::size_t kMaxBoxes = 4;        // boxes of nodes in a drawing
constexpr std::size_t kMaxRanksDrawn = 64;  // ranks in the box of a node
constexpr std::size_t kLongestCell = 24;    // characters in the box of a rank
constexpr int kMinColumns = 24, kMaxColumns = 100;

/// Columns of a text on a terminal: bytes that do not continue a character of UTF-8.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string repeated(const char* text, std::size_t times) {
  std::string made;
  for (std::size_t i = 0; i < times; ++i) made += text;
  return made;
}

std::string padded(const std::string& text, std::size_t columns) {
  const std::size_t has = columns_of(text);
  return has < columns ? text + std::string(columns - has, ' ') : text;
}

/// What a rank's box says.
struct RankCell {
  std::string head;    ///< "rank 0"
  std::string device;  ///< "cuda:0"
  std::string below;   ///< "GPU 4"; may be empty

  std::size_t columns() const { return std::max({columns_of(head), columns_of(device), columns_of(below)}); }
};

/// "cuda:0-3".
std::string devices_text(const RankPlan& rank) {
  std::vector<int> indices;
  for (const std::string& device : rank.devices)
    indices.push_back(std::stoi(device.substr(device.find(':') + 1)));
  return "cuda:" + format_ranges(indices);
}

RankCell cell_of(const RankPlan& rank, std::size_t cores) {
  RankCell cell{.head = "rank " + std::to_string(rank.rank), .device = rank.device, .below = {}};
  if (rank.gpus.empty()) {
    if (cores > 0) cell.below = counted(cores, "core");
    return cell;
  }
  cell.device = shortened(devices_text(rank), kLongestCell);
  cell.below = shortened("GPU " + format_ranges(rank.gpus), kLongestCell);
  return cell;
}

/// The ranks of a node, and of those that follow it with the same devices.
struct NodeBox {
  int first = 0, last = 0;
  std::vector<const RankPlan*> ranks;  ///< of the first
  int last_rank = 0;                   ///< of all

  bool is_like(const NodeBox& other) const {
    return std::equal(
        ranks.begin(), ranks.end(), other.ranks.begin(), other.ranks.end(),
        [](const RankPlan* a, const RankPlan* b) { return a->devices == b->devices && a->gpus == b->gpus; });
  }
};

std::vector<NodeBox> boxes_of(const Plan& plan, const Hardware& hardware) {
  std::vector<NodeBox> nodes(static_cast<std::size_t>(std::max(0, plan.num_nodes)));
  for (const RankPlan& rank : plan.ranks) {
    NodeBox& node = nodes.at(static_cast<std::size_t>(rank.node));
    node.first = node.last = rank.node;
    node.last_rank = std::max(node.last_rank, rank.rank);
    node.ranks.push_back(&rank);
  }
  std::vector<NodeBox> boxes;
  for (NodeBox& node : nodes) {
    const bool same = !boxes.empty() && boxes.back().is_like(node) &&
                      hardware.node(boxes.back().first).cores == hardware.node(node.first).cores;
    if (same) {
      boxes.back().last = node.last;
      boxes.back().last_rank = std::max(boxes.back().last_rank, node.last_rank);
    } else if (!node.ranks.empty()) {
      boxes.push_back(std::move(node));
    }
  }
  return boxes;
}

class NodeDrawing {
 public:
  NodeDrawing(const Hardware& hardware, std::size_t columns) : hardware_(hardware), columns_(columns) {}

  void draw(const NodeBox& box, std::ostream& out) {
    const Node& node = hardware_.node(box.first);
    std::vector<RankCell> cells;
    const std::size_t drawn = std::min(box.ranks.size(), kMaxRanksDrawn);
    for (std::size_t i = 0; i < drawn; ++i) {
      // Rank by rank, as they share what the node has.
      const auto cores = static_cast<std::size_t>(std::max(0, node.cores));
      cells.push_back(cell_of(*box.ranks[i], cores / box.ranks.size()));
    }
    std::size_t width = 0;
    for (const RankCell& cell : cells) width = std::max(width, cell.columns());
    const std::size_t in_row = std::clamp<std::size_t>((columns_ - 3) / (width + 5), 1, cells.size());
    const std::string title = title_of(box, node);
    const std::string more = more_of(box, drawn);
    const std::size_t inside = std::min(
        columns_ - 2, std::max({in_row * (width + 5) + 1, columns_of(title) + 3, columns_of(more) + 2}));
    out << "  ┌ " << title << ' ' << repeated("─", inside - std::min(inside, columns_of(title) + 2)) << "┐\n";
    for (std::size_t i = 0; i < cells.size(); i += in_row)
      draw_row({cells.data() + i, std::min(in_row, cells.size() - i)}, width, inside, out);
    if (!more.empty()) line(" " + more, inside, out);
    out << "  └" << repeated("─", inside) << "┘\n";
  }

 private:
  std::string title_of(const NodeBox& box, const Node& node) const {
    const bool several = box.last > box.first;
    std::string title = several ? "nodes " + std::to_string(box.first) + "-" + std::to_string(box.last)
                                : "node " + std::to_string(box.first);
    if (!several && !node.hostname.empty()) title += " · " + shortened(node.hostname, kLongestCell);
    title += " · " + counted(node.cores, "core");
    const bool on_gpus = !box.ranks.front()->gpus.empty();
    if (on_gpus && !node.gpus.empty() && !node.gpus.front().name.empty())
      title += " · " + shortened(node.gpus.front().name, kLongestCell);
    return columns_of(title) + 6 > columns_ ? title.substr(0, title.find(" ·")) : title;
  }

  static std::string more_of(const NodeBox& box, std::size_t drawn) {
    std::string more;
    if (drawn < box.ranks.size()) more = "and " + std::to_string(box.ranks.size() - drawn) + " more ranks";
    if (box.last == box.first) return more;
    return more + (more.empty() ? "" : "; ") + "each of these nodes alike, up to rank " +
           std::to_string(box.last_rank);
  }

  static void line(const std::string& text, std::size_t inside, std::ostream& out) {
    out << "  │" << padded(text, inside) << "│\n";
  }

  static void draw_row(std::span<const RankCell> cells, std::size_t width, std::size_t inside,
                       std::ostream& out) {
    std::string top, device, below, bottom;
    bool has_below = false;
    for (const RankCell& cell : cells) {
      top += " ┌ " + cell.head + ' ' + repeated("─", width - columns_of(cell.head)) + "┐";
      device += " │ " + padded(cell.device, width) + " │";
      below += " │ " + padded(cell.below, width) + " │";
      bottom += " └" + repeated("─", width + 2) + "┘";
      has_below = has_below || !cell.below.empty();
    }
    line(top, inside, out);
    line(device, inside, out);
    if (has_below) line(below, inside, out);
    line(bottom, inside, out);
  }

  const Hardware& hardware_;
  std::size_t columns_;
};

}  // namespace

std::string draw_nodes(const Plan& plan, const Hardware& hardware, int columns) {
  if (plan.ranks.empty() || hardware.nodes.empty() || columns < kMinColumns) return {};
  std::ostringstream out;
  const std::vector<NodeBox> boxes = boxes_of(plan, hardware);
  NodeDrawing drawing(hardware, static_cast<std::size_t>(std::min(columns, kMaxColumns)) - 2);
  for (std::size_t i = 0; i < boxes.size() && i < kMaxBoxes; ++i) drawing.draw(boxes[i], out);
  if (boxes.size() > kMaxBoxes) {
    out << "  and nodes " << boxes[kMaxBoxes].first << "-" << boxes.back().last << ", ranks up to "
        << boxes.back().last_rank << '\n';
  }
  return out.str();
}

}  // namespace cxtrain
