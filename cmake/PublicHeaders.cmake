# Which headers are public: those that plugins and users' programs include, and whatever these include. Only they are
# installed, and what plugins see decides whether a plugin fits the program (cmake/HeadersHash.cmake).

# For models, data, callbacks and loggers, as plugins or in a program of one's own.
set(CXTRAIN_PLUGIN_HEADERS
  cxtrain/base/align.h
  cxtrain/base/class_name.h
  cxtrain/base/error.h
  cxtrain/base/log.h
  cxtrain/callbacks/callback.h
  cxtrain/callbacks/early_stopping.h
  cxtrain/callbacks/ema.h
  cxtrain/callbacks/lambda_callback.h
  cxtrain/callbacks/learning_rate_monitor.h
  cxtrain/callbacks/model_checkpoint.h
  cxtrain/callbacks/run_of_values.h
  cxtrain/callbacks/timer.h
  cxtrain/checkpoint/checkpoint_error.h
  cxtrain/checkpoint/load_weights.h
  cxtrain/data/data_file.h
  cxtrain/data/dataset_views.h
  cxtrain/data/digits_dataset.h
  cxtrain/data/idx_dataset.h
  cxtrain/data/image_file.h
  cxtrain/data/tensor_dataset.h
  cxtrain/data/text_dataset.h
  cxtrain/metrics/aggregation.h
  cxtrain/metrics/classification.h
  cxtrain/metrics/curves.h
  cxtrain/metrics/image.h
  cxtrain/metrics/metric.h
  cxtrain/metrics/regression.h
  cxtrain/metrics/retrieval.h
  cxtrain/metrics/text.h
  cxtrain/plugin/plugin_abi.h
  cxtrain/report/metric_logger.h
  cxtrain/report/png.h
  cxtrain/trainer/block_module.h
  cxtrain/trainer/chain_module.h
  cxtrain/trainer/data_module.h
  cxtrain/trainer/image_folders.h
  cxtrain/trainer/module.h
  cxtrain/trainer/within_memory.h)
# For strategies.
list(APPEND CXTRAIN_PLUGIN_HEADERS
  cxtrain/base/phase_clock.h
  cxtrain/base/transformed.h
  cxtrain/cluster/world.h
  cxtrain/accelerator/make_communicator.h
  cxtrain/comm/node/node_memory.h
  cxtrain/comm/rank_messages.h
  cxtrain/comm/reduce_kernels.h
  cxtrain/reduce/comm_hook.h
  cxtrain/reduce/gather_over_ranks.h
  cxtrain/reduce/reducer.h
  cxtrain/reduce/shard_reducer.h
  cxtrain/reduce/sync_batch_norm.h
  cxtrain/reduce/tensor_sync.h
  cxtrain/strategy/block_pass.h
  cxtrain/strategy/block_ranges.h
  cxtrain/strategy/keep_ranges.h
  cxtrain/strategy/local_step.h
  cxtrain/strategy/model_outline.h
  cxtrain/strategy/parameter_store.h
  cxtrain/strategy/placed_row.h
  cxtrain/strategy/strategy.h
  cxtrain/tensor/hollow.h
  cxtrain/tensor/layout.h
  cxtrain/tensor/norms.h)
# For programs, which are linked with the library.
set(CXTRAIN_PROGRAM_HEADERS
  cxtrain/cxtrain.h
  cxtrain/cli/main.h
  cxtrain/plugin/accelerator_library.h
  cxtrain/trainer/trainer.h)

# cxtrain_include_closure(<variable> <folder with cxtrain/> <headers ...>): these headers and all of cxtrain's that they
# include, sorted. A header that is generated, and not in the folder, is left out.
function(cxtrain_include_closure variable root)
  foreach(header IN LISTS ARGN)
    if(NOT EXISTS "${root}/${header}")
      message(FATAL_ERROR "${root} has no ${header}, which cmake/PublicHeaders.cmake names")
    endif()
  endforeach()
  set(queue ${ARGN})
  set(headers "")
  while(queue)
    list(POP_FRONT queue header)
    if(header IN_LIST headers OR NOT EXISTS "${root}/${header}")
      continue()
    endif()
    list(APPEND headers ${header})
    file(STRINGS "${root}/${header}" includes REGEX "^#include \"cxtrain/")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      list(APPEND queue ${included})
    endforeach()
  endwhile()
  list(SORT headers)
  set(${variable} ${headers} PARENT_SCOPE)
endfunction()
