#include "own_data.h"

#include <cxtrain/plugin/plugin_abi.h>

CXTRAIN_PLUGIN("glyphs", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::DataModule>("glyphs", "one file of glyphs, in --data.path", {},
                                    [](const auto&) { return std::make_unique<GlyphData>(); });
  registry.add<cxtrain::DataModule>("glyph_parts", "part_K.bin of rank K, below --data.path", {},
                                    [](const auto&) { return std::make_unique<GlyphParts>(); });
})
