#pragma once

/// LibTorch and all of cxtrain that models, data, callbacks, loggers and programs need, in one header. Narrow
/// headers compile faster; precompiled headers (`cxtrain_add_plugin(... PRECOMPILED ...)`) make up for it.

#include <torch/torch.h>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/callbacks/ema.h"
#include "cxtrain/callbacks/lambda_callback.h"
#include "cxtrain/callbacks/learning_rate_monitor.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/callbacks/timer.h"
#include "cxtrain/checkpoint/load_weights.h"
#include "cxtrain/cli/main.h"
#include "cxtrain/config/field.h"
#include "cxtrain/data/data_file.h"
#include "cxtrain/data/dataset_views.h"
#include "cxtrain/data/idx_dataset.h"
#include "cxtrain/data/image_file.h"
#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/data/text_dataset.h"
#include "cxtrain/metrics/aggregation.h"
#include "cxtrain/metrics/classification.h"
#include "cxtrain/metrics/curves.h"
#include "cxtrain/metrics/image.h"
#include "cxtrain/metrics/regression.h"
#include "cxtrain/metrics/retrieval.h"
#include "cxtrain/metrics/text.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/report/metric_logger.h"
#include "cxtrain/report/png.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/image_folders.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/trainer.h"
