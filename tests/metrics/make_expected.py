#!/usr/bin/env python3
"""Writes expected.json: the numbers of torchmetrics that tests/metrics compares with.

    pip install torch==2.11.0 torchmetrics==1.9.0 && tests/metrics/make_expected.py > tests/metrics/expected.json

The inputs follow from the formula of `numbers`, which tests/metrics/cases.h computes, too.
"""
import json
import warnings

import torch
import torchmetrics
from torchmetrics import aggregation as agg
from torchmetrics import classification as c
from torchmetrics import image, regression, retrieval, segmentation, text

warnings.filterwarnings("ignore")
SAMPLES = 60


def hashed(index, seed):
    h = ((index + 1) * 2654435761 + seed * 40503) & 0xFFFFFFFF
    h ^= h >> 15
    h = (h * 2246822519) & 0xFFFFFFFF
    h ^= h >> 13
    return h


def numbers(seed, *shape):
    """In [0, 1), float64, of 24 bits: float32 has the same values."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([(hashed(i, seed) >> 8) / 2**24 for i in range(count)], dtype=torch.float64).reshape(shape)


def below(limit, seed, *shape):
    return (numbers(seed, *shape) * limit).floor().to(torch.int64)


def ignoring(target):
    flat = target.clone().reshape(-1)
    flat[::7] = -100
    return flat.reshape(target.shape)


def words(seed):
    """Texts of 3 to 8 words."""
    vocabulary = ["a", "small", "cat", "sat", "on", "the", "mat", "quietly"]
    lengths = below(6, seed, SAMPLES) + 3
    chosen = below(8, seed + 1, SAMPLES, 8)
    return [" ".join(vocabulary[w] for w in chosen[i][: lengths[i]]) for i in range(SAMPLES)]


values = {}


def add(name, metric, *inputs):
    metric.update(*inputs)
    values[name] = metric.compute().double().tolist()


N, C, L = SAMPLES, 5, 3
scores, logits = numbers(1, N, C), numbers(2, N, C) * 6 - 3
target = below(4, 3, N)  # class 4 is predicted, and never the target
every = below(5, 4, N)
binary, binary_logits, truth = numbers(5, N), numbers(6, N) * 8 - 4, below(2, 7, N)
labels, label_truth = numbers(8, N, L), below(2, 9, N, L)
pixels, pixel_truth = numbers(10, N, C, 3, 4), below(C, 11, N, 3, 4)

for name, kind in [("Accuracy", "Accuracy"), ("PrecisionScore", "Precision"), ("RecallScore", "Recall"), ("F1Score", "F1Score")]:
    multiclass, of_labels, of_two = (getattr(c, prefix + kind) for prefix in ("Multiclass", "Multilabel", "Binary"))
    for average in ("micro", "macro", "weighted", "none"):
        add(f"{name}_{average}", multiclass(C, average=average), scores, target)
        add(f"{name}_labels_{average}", of_labels(L, average=average), labels, label_truth)
    add(f"{name}_top2", multiclass(C, average="macro", top_k=2), scores, target)
    add(f"{name}_ignore", multiclass(C, average="macro", ignore_index=-100), logits, ignoring(every))
    add(f"{name}_pixels", multiclass(C, average="macro"), pixels, pixel_truth)
    add(f"{name}_binary", of_two(threshold=0.4), binary, truth)
    add(f"{name}_binary_logits", of_two(), binary_logits, truth)

add("ConfusionMatrix", c.MulticlassConfusionMatrix(C), scores, target)
add("ConfusionMatrix_target", c.MulticlassConfusionMatrix(C, normalize="true"), scores, target)
add("ConfusionMatrix_predicted", c.MulticlassConfusionMatrix(C, normalize="pred"), scores, target)
add("ConfusionMatrix_all", c.MulticlassConfusionMatrix(C, normalize="all", ignore_index=-100), scores, ignoring(target))
add("ConfusionMatrix_binary", c.BinaryConfusionMatrix(), binary, truth)
add("ConfusionMatrix_labels", c.MultilabelConfusionMatrix(L), labels, label_truth)

for average in ("micro", "macro", "weighted", "none"):
    add(f"JaccardIndex_{average}", c.MulticlassJaccardIndex(C, average=average), pixels, pixel_truth)
    add(f"JaccardIndex_labels_{average}", c.MultilabelJaccardIndex(L, average=average), labels, label_truth)
    add(f"JaccardIndex_ignore_{average}", c.MulticlassJaccardIndex(C, average=average, ignore_index=0), scores, target)
add("JaccardIndex_binary", c.BinaryJaccardIndex(), binary, truth)

index = pixels.argmax(1)
for average in ("micro", "macro", "weighted", "none"):
    for level in ("samplewise", "global"):
        add(f"DiceScore_{level}_{average}",
            segmentation.DiceScore(C, average=average, aggregation_level=level, input_format="index"), index, pixel_truth)
add("DiceScore_foreground", segmentation.DiceScore(C, include_background=False, average="macro", input_format="index"), index, pixel_truth)

for name, kind in [("AUROC", "AUROC"), ("AveragePrecision", "AveragePrecision")]:
    multiclass, of_labels, of_two = (getattr(c, prefix + kind) for prefix in ("Multiclass", "Multilabel", "Binary"))
    for way, thresholds in (("binned", 200), ("coarse", 5), ("exact", None)):
        for average in ("macro", "weighted", "none"):
            add(f"{name}_{way}_{average}", multiclass(C, average=average, thresholds=thresholds), scores, every)
        add(f"{name}_{way}_absent", multiclass(C, average="macro", thresholds=thresholds), logits, target)
        add(f"{name}_{way}_ignore", multiclass(C, average="macro", thresholds=thresholds, ignore_index=-100), scores, ignoring(every))
        add(f"{name}_{way}_binary", of_two(thresholds=thresholds), binary, truth)
        add(f"{name}_{way}_binary_logits", of_two(thresholds=thresholds, ignore_index=-100), binary_logits, ignoring(truth))
        add(f"{name}_{way}_labels", of_labels(L, average="macro", thresholds=thresholds), labels, label_truth)

for norm in ("l1", "l2", "max"):
    add(f"CalibrationError_{norm}", c.MulticlassCalibrationError(C, norm=norm), logits * 2, every)
    add(f"CalibrationError_binary_{norm}", c.BinaryCalibrationError(n_bins=10, norm=norm), binary, truth)

a, b = numbers(12, N) * 4 - 2, numbers(13, N) * 4 - 2
b = a * 0.5 + b
two_a, two_b = numbers(14, N, 2), numbers(15, N, 2)
add("MeanSquaredError", regression.MeanSquaredError(), a, b)
add("RootMeanSquaredError", regression.MeanSquaredError(squared=False), a, b)
add("MeanAbsoluteError", regression.MeanAbsoluteError(), a, b)
add("R2Score", regression.R2Score(), a, b)
add("R2Score_outputs", regression.R2Score(), two_a, two_b)
add("ExplainedVariance", regression.ExplainedVariance(), a, b)
add("ExplainedVariance_outputs", regression.ExplainedVariance(), two_a, two_b)
add("PearsonCorrCoef", regression.PearsonCorrCoef(), a, b)
add("PearsonCorrCoef_outputs", regression.PearsonCorrCoef(num_outputs=2), two_a, two_b)
rows_a, rows_b = numbers(16, N, 8) - 0.5, numbers(17, N, 8) - 0.5
add("CosineSimilarity", regression.CosineSimilarity(reduction="mean"), rows_a, rows_b)
add("CosineSimilarity_sum", regression.CosineSimilarity(reduction="sum"), rows_a, rows_b)

tokens, token_truth = numbers(18, N, 4, 6) * 6 - 3, below(6, 19, N, 4)
add("Perplexity", text.Perplexity(), tokens, token_truth)
add("Perplexity_ignore", text.Perplexity(ignore_index=-100), tokens, ignoring(token_truth))
said, meant = words(20), words(22)
add("EditDistance", text.EditDistance(), said, meant)
add("EditDistance_sum", text.EditDistance(substitution_cost=2, reduction="sum"), said, meant)
add("WordErrorRate", text.WordErrorRate(), said, meant)

pictures, originals = numbers(24, N, 2, 12, 13), numbers(25, N, 2, 12, 13)
pictures = originals * 0.75 + pictures * 0.25
add("PeakSignalNoiseRatio", image.PeakSignalNoiseRatio(data_range=1.0), pictures, originals)
add("PeakSignalNoiseRatio_base2", image.PeakSignalNoiseRatio(data_range=255.0, base=2.0), pictures * 255, originals * 255)
add("StructuralSimilarity", image.StructuralSimilarityIndexMeasure(data_range=1.0), pictures, originals)
add("StructuralSimilarity_sigma1", image.StructuralSimilarityIndexMeasure(data_range=1.0, sigma=1.0), pictures, originals)

found, relevant = numbers(26, N, 9) + 0.001, below(3, 27, N, 9) // 2
queries = torch.arange(N).unsqueeze(1).expand(N, 9)
add("RetrievalRecall", retrieval.RetrievalRecall(top_k=3), found.flatten(), relevant.flatten(), queries.flatten())

weights = numbers(28, N)
add("MeanMetric", agg.MeanMetric(), a, torch.ones(N))
add("MeanMetric_weighted", agg.MeanMetric(), a, weights)
add("SumMetric", agg.SumMetric(), a)
add("MinMetric", agg.MinMetric(), a)
add("MaxMetric", agg.MaxMetric(), a)


def rounded(value):
    return [rounded(each) for each in value] if isinstance(value, list) else float(f"{value:.9g}")


print('{"torchmetrics": "%s", "torch": "%s",' % (torchmetrics.__version__, torch.__version__.split("+")[0]))
print(' "values": {\n  ' + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(rounded(v))}" for k, v in values.items()) + "\n }}")
