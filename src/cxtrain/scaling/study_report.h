#pragma once

#include <string>

#include "cxtrain/scaling/analysis.h"
#include "cxtrain/scaling/prediction.h"

/// The result of a study for people. Pure functions of scaling.json.
namespace cxtrain {

/// For a terminal: the table of the sizes and the answers.
std::string to_text(const StudyResult& result);
/// report.md: question, method, table, phases, answers, what an application for computing time asks for.
std::string to_markdown(const StudyResult& result);
/// scaling.csv: a line for each training.
std::string to_csv(const StudyResult& result);
/// report.html: a page that loads nothing, with curves of throughput and efficiency.
std::string to_html(const StudyResult& result);

/// For a terminal.
std::string to_text(const Forecast& predictions);

}  // namespace cxtrain
