#include "own_data.h"

#include <cxtrain/plugin/plugin_abi.h>

CXTRAIN_REGISTER(GlyphData, "glyphs", "one file of glyphs, in --data.path");
CXTRAIN_REGISTER(BalancedGlyphs, "balanced_glyphs", "the same, with each class as often");
CXTRAIN_REGISTER(NoisyGlyphs, "noisy_glyphs", "the same, with noise in the training images");
CXTRAIN_REGISTER(MixedGlyphs, "mixed_glyphs", "glyphs, and glyphs with noise beside them");
CXTRAIN_REGISTER(StreamedGlyphs, "streamed_glyphs",
                 "part_0.bin, part_1.bin ... below --data.path, one after the other");
CXTRAIN_REGISTER(Pictures, "pictures", "folders of pictures, some of them inverted");
CXTRAIN_REGISTER(GlyphParts, "glyph_parts", "part_K.bin of rank K, below --data.path");
CXTRAIN_PLUGIN("glyphs")
