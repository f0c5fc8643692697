#include "own_data.h"

#include <cxtrain/plugin/plugin_abi.h>

CXTRAIN_PLUGIN("glyphs", [](cxtrain::Registry& registry) {
  registry.add<GlyphData>("glyphs", "one file of glyphs, in --data.path");
  registry.add<BalancedGlyphs>("balanced_glyphs", "the same, with each class as often");
  registry.add<NoisyGlyphs>("noisy_glyphs", "the same, with noise in the training images");
  registry.add<MixedGlyphs>("mixed_glyphs", "glyphs, and glyphs with noise beside them");
  registry.add<StreamedGlyphs>("streamed_glyphs",
                               "part_0.bin, part_1.bin ... below --data.path, one after the other");
  registry.add<GlyphParts>("glyph_parts", "part_K.bin of rank K, below --data.path");
})
