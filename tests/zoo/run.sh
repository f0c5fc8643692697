#!/usr/bin/env bash
# Builds user code of many kinds against the installed package, and sees what it does.
#   run.sh <prefix> <work folder> [arguments for the project's configuration ...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$1
work=$2
shift 2
export OMP_NUM_THREADS=1
unset CXTRAIN_PLUGIN_PATH LD_LIBRARY_PATH

fail() {
  echo "zoo: $*" >&2
  exit 1
}
# has <file> <text>: the text is in it.
has() { grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "$1 lacks: $2"; }; }
metric() { sed -nE "s/.*\"$2\": ([-0-9.e+]+).*/\1/p" "$1/cxtrain_logs/version_0/run.json"; }

# docs/from_lightning.md shows pieces of ported.h, which is compiled below.
python3 - "$here/../../docs/from_lightning.md" "$here/ported.h" <<'END' || fail "docs/from_lightning.md shows what ported.h does not have"
import re, sys
page, code = (open(path).read() for path in sys.argv[1:])
blocks = re.findall(r"```cpp\n(.*?)```", page, re.S)
sys.exit(len(blocks) < 4 or any(block not in code for block in blocks))
END

rm -rf "$work"
mkdir -p "$work"
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" "$@" > "$work/configure.log" 2>&1
has "$work/configure.log" "no build type is set"
cmake -S "$here" -B "$work/build" -DCMAKE_BUILD_TYPE=Release > /dev/null
cmake --build "$work/build" -j 2
zoo=$work/build/zoo
run() { (cd "$work" && "$@"); }

# The program's only model is its default; its options, callbacks and loggers are listed by info.
run "$zoo" info > "$work/help.txt" 2>&1
for text in unfreeze_epoch ema decay prediction_writer row_counter; do has "$work/help.txt" "$text"; done

# A frozen backbone trains from epoch 1 on, layers stay in their modes over validations, every epoch has its row.
run "$zoo" --max_epochs 3 --val_check_interval 0.5 --callbacks.ema.decay 0.9 --loggers.row_counter.file "$work/rows.txt" \
  --default_root_dir "$work/fit" > "$work/fit.log" 2>&1
has "$work/fit/cxtrain_logs/version_0/run.json" '"status": "done"'
has "$work/fit/cxtrain_logs/version_0/run.json" '"epoch_number": 2.0'
has "$work/fit/cxtrain_logs/version_0/run.json" '"val_samples": 40.0'
has "$work/fit/cxtrain_logs/version_0/run.json" '"ema_distance"'
has "$work/fit/cxtrain_logs/version_0/config.yaml" 'unfreeze_epoch'
has "$work/rows.txt" rows
[ "$(grep -c '"blocks_train":0' "$work/fit/cxtrain_logs/version_0/metrics.jsonl")" = 1 ] || fail "the backbone was not frozen in epoch 0 only"
[ "$(grep -c '"blocks_train":1' "$work/fit/cxtrain_logs/version_0/metrics.jsonl")" = 2 ] || fail "the backbone was not trained in epochs 1 and 2"
awk -v acc="$(metric "$work/fit" val_acc)" 'BEGIN { exit !(acc > 0.8) }' || fail "val_acc is $(metric "$work/fit" val_acc)"

# Batches without a loss are skipped, on several ranks as on one; a run's own config repeats it.
run "$zoo" --devices 2 --accelerator cpu --max_epochs 2 --model.skip_every 3 --default_root_dir "$work/skip" > "$work/skip.log" 2>&1
has "$work/skip/cxtrain_logs/version_0/run.json" '"world_size": 2'
has "$work/skip/cxtrain_logs/version_0/run.json" '"global_step": 4,'
has "$work/skip.log" "skipped"

# As a plugin: the same model, and predictions with the samples that they belong to.
run mpirun -np 2 --bind-to none "$prefix/bin/cxtrain_mpi" predict --plugin "$work/build/libcxtrain_model_resnet.so" --model resnet \
  --callbacks.prediction_writer --default_root_dir "$work/predict" > "$work/predict.log" 2>&1
folder=$work/predict/cxtrain_logs/version_0
[ "$(cat "$folder"/classes_*.txt | sort -un | wc -l)" = 21 ] || fail "not every sample was predicted once"
for rank in 0 1; do
  [ -s "$folder/predictions_rank_$rank.pt" ] || fail "rank $rank wrote no predictions"
done

# A Trainer in a main of one's own starts its ranks, tests where the fit ended, and predicts.
for strategy in ddp ddp_spawn; do
  run "$work/build/own_loop" "$work/own_$strategy" 2 $strategy > "$work/own_$strategy.log" 2>&1
  folder=$work/own_$strategy/cxtrain_logs/version_0
  has "$folder/run.json" '"world_size": 2'
  has "$folder/run.json" '"test_acc"'
  has "$folder/run.json" '"train_loss"'
  [ -s "$folder/predictions_rank_1.pt" ] || fail "own_loop predicted nothing"
  grep -qE '^\[?[0-9]{4}-' "$work/own_$strategy.log" && fail "the console of own_loop is not the program's"
done

# A strategy of one's own, in which no rank holds the whole model.
run mpirun -np 2 --bind-to none "$zoo" --strategy owner --plugin "$work/build/libcxtrain_strategy_owner.so" --max_epochs 2 \
  --default_root_dir "$work/owner" > "$work/owner.log" 2>&1
has "$work/owner.log" "each parameter on one rank"
for text in '"status": "done"' '"strategy": "owner"' '"world_size": 2'; do
  has "$work/owner/cxtrain_logs/version_0/run.json" "$text"
done
echo "zoo: all well"
