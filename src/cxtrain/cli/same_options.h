#pragma once

#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"

namespace cxtrain {

/// Throws AgreedError naming the options that ranks were started with different values of, and the values:
/// the ranks would wait for each other until the timeout, or train apart. Paths of data and weights may
/// differ, since nodes may have them in different places; what lies there is compared later. Collective.
void require_same_options(World& world, const Options& options);

}  // namespace cxtrain
