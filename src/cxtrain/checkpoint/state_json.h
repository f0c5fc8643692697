#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cxtrain/state/state_dict.h"

/// A StateDict as JSON, to the last bit; its tensors as names of where they are stored.
namespace cxtrain {

/// Where a piece is stored: under a key of a safetensors file in the checkpoint's folder.
struct TensorPlace {
  std::string file;  ///< empty: it is a range of the model's tensor of that name
  std::string key;
};
/// `path`: the piece's section, as "optimization/exp_avg".
using PlaceOf = std::function<TensorPlace(const std::string& path, const Piece& piece)>;
/// Gives a piece, which has its name, shape and range, its values.
using FillPiece = std::function<void(Piece& described, const TensorPlace& place)>;

/// {"values": {...}, "tensors": [...], "sections": {...}}: whole numbers as they are, real ones so that they
/// read back as the same (what is not finite as {"real": "7ff0000000000000"}, its bits), texts as they are
/// or, where they are no UTF-8, as {"bytes": "c3..."}. Parts that would be empty are left out. Without
/// `place_of`, tensors are.
nlohmann::json to_json(const StateDict& state, const PlaceOf& place_of = {});

/// Returns the state of which `to_json` has made the JSON; `fill` is called for each piece. Throws StateError
/// for any other JSON.
StateDict state_from_json(const nlohmann::json& json, const FillPiece& fill);

/// Parses JSON that may be damaged: nesting that only damage brings about, and that would overflow the stack,
/// is an exception like any other mistake.
nlohmann::json parse_shallow(std::string_view text);

/// What an exception out of the reading of JSON means, without the library's own words.
std::string reason_of_json(const std::exception& error);

}  // namespace cxtrain
