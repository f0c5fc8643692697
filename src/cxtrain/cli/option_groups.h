#pragma once

#include <vector>

#include "cxtrain/cli/option_table.h"

/// The groups of the option table, in the order of --help; each function appends its options.
namespace cxtrain {

using OptionTable = std::vector<OptionEntry>;

void add_component_options(OptionTable& table);     // option_table_components.cpp
void add_device_options(OptionTable& table);        // option_table_devices.cpp
void add_length_options(OptionTable& table);        // option_table_training.cpp
void add_optimisation_options(OptionTable& table);  // option_table_training.cpp
void add_output_options(OptionTable& table);        // option_table_output.cpp
void add_callback_options(OptionTable& table);      // option_table_output.cpp
void add_older_names(OptionTable& table);           // option_table_older_names.cpp
void add_general_options(OptionTable& table);       // option_table_output.cpp

}  // namespace cxtrain
