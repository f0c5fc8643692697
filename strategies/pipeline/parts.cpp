#include "parts.h"

#include <string>

#include "cxtrain/base/error.h"

namespace cxtrain {

Blocks& blocks_of_chain(Trainable& module) {
  if (module.chain() == nullptr)
    throw ConfigError("trainer.strategy",
                      "pipeline needs a model that is a chain of blocks, and this one is none",
                      "derive the model from cxtrain::ChainModule, or use --strategy zero",
                      MessageCode::conflicting_options);
  return *module.blocks();
}

std::vector<BlockRange> parts_of_chain(const Blocks& chain, const PipelineArgs& args, int stages) {
  const std::size_t blocks = chain.size();
  const std::size_t parts = static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks_of(args));
  if (!args.layout.empty()) {
    std::size_t sum = 0;
    for (const std::int64_t size : args.layout) sum += static_cast<std::size_t>(size);
    if (args.layout.size() != parts || sum != blocks)
      throw ConfigError(
          "strategy.layout",
          "has " + std::to_string(args.layout.size()) + " parts of " + std::to_string(sum) + " blocks, and " +
              std::to_string(parts) + " parts of " + std::to_string(blocks) + " blocks are needed",
          "leave the option out, and blocks are divided by their cost", MessageCode::conflicting_options);
    return cut_by_sizes(args.layout);
  }
  if (parts > blocks)
    throw ConfigError(
        "strategy.stages",
        std::to_string(parts) + " parts cannot be made of a model of " + std::to_string(blocks) + " blocks",
        "use fewer stages: --strategy.stages " +
            std::to_string(blocks / static_cast<std::size_t>(chunks_of(args))),
        MessageCode::wrong_ranks);
  return cut_by_cost(chain, parts);
}

}  // namespace cxtrain
