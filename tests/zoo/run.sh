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

# These pages show pieces of files that are compiled below.
shows() {  # <page> <files ...>
  local page=$1
  shift
  (cd "$here" && python3 - "../../docs/$page" "$@") <<'END' || fail "docs/$page shows what $* does not have"
import re, sys
page, *files = (open(path).read() for path in sys.argv[1:])
flush_left = lambda text: re.sub(r"^ +", "", text, flags=re.M)  # a page indents as it likes
blocks = map(flush_left, re.findall(r"```cpp\n(.*?)```", page, re.S))
lacking = [block for block in blocks if not any(block in flush_left(file) for file in files)]
sys.exit("\n".join(lacking) if lacking or "```cpp" not in page else 0)
END
}
shows from_lightning.md ported.h
shows metrics.md judged.h
shows load_your_data.md own_data.h own_data.cpp
shows write_a_strategy.md average.cpp
shows gradients.md top_k.cpp
shows split_a_model.md two_parts.h
shows own_code.md own_code.cpp
shows larger_models.md own_code.cpp

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
for text in unfreeze_epoch mean decay prediction_writer row_counter; do has "$work/help.txt" "$text"; done

# A frozen backbone trains from epoch 1 on, layers stay in their modes over validations, every epoch has its row.
run "$zoo" --max_epochs 3 --val_check_interval 0.5 --callbacks.mean.decay 0.9 --loggers.row_counter.file "$work/rows.txt" \
  --default_root_dir "$work/fit" > "$work/fit.log" 2>&1
has "$work/fit/cxtrain_logs/version_0/run.json" '"status": "done"'
has "$work/fit/cxtrain_logs/version_0/run.json" '"epoch_number": 2.0'
has "$work/fit/cxtrain_logs/version_0/run.json" '"val_samples": 40.0'
has "$work/fit/cxtrain_logs/version_0/run.json" '"mean_distance"'
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
cat "$folder"/classes_*.txt > "$work/classes.txt"
[ "$(wc -l < "$work/classes.txt")" = 21 ] || fail "a sample was predicted twice, or not at all"
[ "$(sort -un "$work/classes.txt" | wc -l)" = 21 ] || fail "not every sample was predicted"
for rank in 0 1; do
  [ -s "$folder/predictions_rank_$rank.pt" ] || fail "rank $rank wrote no predictions"
done

# A Trainer in a main of one's own starts its ranks, tests where the fit ended, and predicts. The command line changes its defaults.
own=$work/build/own_loop
for strategy in ddp ddp_spawn; do
  run "$own" --default_root_dir "$work/own_$strategy" --strategy $strategy > "$work/own_$strategy.log" 2>&1
  folder=$work/own_$strategy/cxtrain_logs/version_0
  has "$folder/run.json" '"world_size": 2'
  has "$folder/run.json" '"test_acc"'
  has "$folder/run.json" '"train_loss"'
  [ -s "$folder/predictions_rank_1.pt" ] || fail "own_loop predicted nothing"
  grep -qE '^\[?[0-9]{4}-' "$work/own_$strategy.log" && fail "the console of own_loop is not the program's"
done
has "$work/own_ddp/cxtrain_logs/version_0/config.yaml" "max_epochs: 2"
"$own" --print_config > "$work/own.yaml"
has "$work/own.yaml" "devices: 2"
"$own" --help > "$work/own.help"
has "$work/own.help" "[cpu]"
"$own" help devices > "$work/own.help"
has "$work/own.help" "[2]"
run "$own" --config "$work/own.yaml" --max_epochs 1 --devices 1 --default_root_dir "$work/own_once" > "$work/own_once.log" 2>&1
has "$work/own_once/cxtrain_logs/version_0/run.json" '"world_size": 1'
has "$work/own_once/cxtrain_logs/version_0/run.json" '"epochs": 1'
"$own" plan --json > "$work/own.json"
has "$work/own.json" '"world_size":2'
for refused in "--model mnist" "--model.hidden 3" "--data digits" test; do
  status=0
  read -ra words <<< "$refused"
  "$own" "${words[@]}" --default_root_dir "$work/refused" > "$work/refused.log" 2>&1 || status=$?
  [ "$status" = 2 ] || fail "own_loop $refused ended with status $status"
done

# The page's own program, and what it trains.
run "$work/build/own_code" --accelerator cpu --devices 2 --max_epochs 2 --default_root_dir "$work/own_code" > "$work/own_code.log" 2>&1
has "$work/own_code/cxtrain_logs/version_0/run.json" '"world_size": 2'
has "$work/own_code/cxtrain_logs/version_0/run.json" '"global_step": 8,'
has "$work/own_code/cxtrain_logs/version_0/run.json" '"test_loss"'

# Whole programs: the best checkpoint is tested; a GAN trains alike on any number of ranks, and resumes to the same bits.
# Pictures of two classes, cold and warm, of several sizes.
python3 - "$work/pictures" << 'END'
import os, random, struct, sys, zlib
random.seed(1)
def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
for split, files in ("train", 64), ("val", 20), ("test", 12):
    for name in "cold", "warm":
        folder = f"{sys.argv[1]}/{split}/{name}"
        os.makedirs(folder)
        for i in range(files):
            height, width = 36 + i % 7, 48 - i % 5
            bright = 0 if name == "warm" else 2
            row = lambda: b"\0" + bytes(random.randrange(120) + 100 * (c == bright) for _ in range(width) for c in range(3))
            header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
            with open(f"{folder}/{i}.png", "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                           chunk(b"IDAT", zlib.compress(b"".join(row() for _ in range(height)), 1)) + chunk(b"IEND", b""))
END
if run "$work/build/classifier" --default_root_dir "$work/classifier" > "$work/classifier.log" 2>&1; then
  has "$work/classifier/cxtrain_logs/version_0/run.json" '"world_size": 2'
  has "$work/classifier/cxtrain_logs/version_0/config.yaml" "model.lr: 0.05"
  has "$work/classifier/cxtrain_logs/version_0/hparams.yaml" "model.width: 16"
  has "$work/last_row.txt" "test_acc"
  [ -s "$(ls "$work"/classifier/cxtrain_logs/version_0/events.out.tfevents.*)" ] || fail "no TensorBoard file"
  "$work/build/classifier" info > "$work/classifier.info" 2>&1
  has "$work/classifier.info" "a network for pictures"
  awk -v acc="$(metric "$work/classifier" test_acc)" 'BEGIN { exit !(acc > 0.8) }' || fail "test_acc is $(metric "$work/classifier" test_acc)"
else
  has "$work/classifier.log" "built without libpng"
  echo "skipped: pictures: the package was built without libpng"
fi
gan() {  # <folder> <options ...>
  local folder=$1
  shift
  run "$work/build/gan" --trainer.precision 64-true --default_root_dir "$folder" "$@" >> "$folder.log" 2>&1
}
gan "$work/gan_1" --devices 1 --data.batch_size 60
gan "$work/gan_3" --devices 3 --data.batch_size 20 --data.uneven exact
for name in g_loss d_loss; do
  awk -v a="$(metric "$work/gan_1" $name)" -v b="$(metric "$work/gan_3" $name)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-12) }' ||
    fail "$name of a GAN is $(metric "$work/gan_1" $name) on one rank, $(metric "$work/gan_3" $name) on three"
done
gan "$work/gan_part" --devices 2 --max_steps 13 --checkpoint.every_n_train_steps 13
gan "$work/gan_part" --devices 2 --ckpt_path "$(ls -d "$work"/gan_part/cxtrain_logs/version_0/checkpoints/*step=13.ckpt)"
gan "$work/gan_whole" --devices 2
[ "$(grep parameters_sha256 "$work/gan_part/cxtrain_logs/version_1/run.json")" = "$(grep parameters_sha256 "$work/gan_whole/cxtrain_logs/version_0/run.json")" ] ||
  fail "a GAN does not resume to the same bits"

# A strategy of one's own, in which no rank holds the whole model.
run mpirun -np 2 --bind-to none "$zoo" --strategy owner --plugin "$work/build/libcxtrain_strategy_owner.so" --max_epochs 2 \
  --default_root_dir "$work/owner" > "$work/owner.log" 2>&1
has "$work/owner.log" "each parameter on one rank"
for text in '"status": "done"' '"strategy": "owner"' '"world_size": 2'; do
  has "$work/owner/cxtrain_logs/version_0/run.json" "$text"
done

# Data of one's own for a model that comes with the program: 240 images of ten classes, as one file and as one for each rank.
mkdir -p "$work/parts"
python3 - "$work" << 'END'
import sys
samples = [bytes([255 * (pixel // 6 == i % 10) for pixel in range(64)] + [i % 10]) for i in range(240)]
for name, part in ("glyphs.bin", samples), ("parts/part_0.bin", samples[:120]), ("parts/part_1.bin", samples[120:]):
    open(f"{sys.argv[1]}/{name}", "wb").write(b"".join(part))
END
digits=("$prefix/bin/cxtrain_mpi" --model digits --plugin "$work/build/libcxtrain_data_glyphs.so" --accelerator cpu --max_epochs 2)
hash_of() { grep parameters_sha256 "$1/cxtrain_logs/version_0/run.json"; }
for workers in 0 2; do
  run "${digits[@]}" --devices 2 --data glyphs --data.path "$work/glyphs.bin" --data.num_workers $workers \
    --default_root_dir "$work/glyphs_$workers" > "$work/glyphs_$workers.log" 2>&1
  has "$work/glyphs_$workers.log" "216 samples in 4 batches"
done
[ "$(hash_of "$work/glyphs_0")" = "$(hash_of "$work/glyphs_2")" ] || fail "augmentation depends on the number of workers"
# Noise that is drawn on the device: equal in each run, and missed without it.
for run in 1 2; do
  run "${digits[@]}" --devices 2 --data noisy_glyphs --data.path "$work/glyphs.bin" --default_root_dir "$work/noisy_$run" \
    > "$work/noisy_$run.log" 2>&1
done
[ "$(hash_of "$work/noisy_1")" = "$(hash_of "$work/noisy_2")" ] || fail "the noise of a transfer hook differs between runs"
[ "$(hash_of "$work/noisy_1")" != "$(hash_of "$work/glyphs_0")" ] || fail "a transfer hook does not run"
# The predictions of two loaders, of 216 and 24 samples.
run mpirun -np 2 --bind-to none "$prefix/bin/cxtrain_mpi" predict "${digits[@]:1}" --data glyphs --data.path "$work/glyphs.bin" \
  --default_root_dir "$work/two_loaders" > "$work/two_loaders.log" 2>&1
for rank in 0 1; do
  for loader in 0 1; do
    [ -s "$work/two_loaders/cxtrain_logs/version_0/predictions_rank_${rank}_dataloader_idx_$loader.pt" ] || fail "no predictions of loader $loader"
  done
done
has "$work/two_loaders.log" "predictions of 108 samples"
has "$work/two_loaders.log" "predictions of 12 samples"

# Two training loaders: the shorter one begins again. Workers change nothing.
mixed() {  # <folder> <ranks> <text> <options ...>
  run "${digits[@]}" --devices "$2" --data mixed_glyphs --data.path "$work/glyphs.bin" --default_root_dir "$work/$1" "${@:4}" > "$work/$1.log" 2>&1
  has "$work/$1.log" "228 samples in $3"
}
mixed mixed_1 1 "9 batches"
mixed mixed_workers 1 "9 batches" --data.num_workers 2
[ "$(hash_of "$work/mixed_1")" = "$(hash_of "$work/mixed_workers")" ] || fail "combined loaders depend on the number of workers"
# A run that ends within an epoch, and is resumed, ends with the bits of the whole run.
mixed mixed_part 2 "5 batches" --max_epochs 3 --max_steps 12
mixed mixed_part 2 "5 batches" --max_epochs 3 --ckpt_path last
mixed mixed_whole 2 "5 batches" --max_epochs 3
[ "$(hash_of "$work/mixed_part")" = "$(hash_of "$work/mixed_whole")" ] || fail "combined loaders resume to other parameters"

# A weighted sampler draws as many samples, and a run of one rank with the same global batch draws the same.
for devices in 1 2; do
  run "${digits[@]}" --devices $devices --data balanced_glyphs --data.path "$work/glyphs.bin" \
    --data.batch_size $((64 / devices)) --default_root_dir "$work/balanced_$devices" > "$work/balanced_$devices.log" 2>&1
  has "$work/balanced_$devices.log" "216 samples in 4 batches"
done
# The loss of a step is rank 0's own; that of the validation is of all samples, by the trained parameters.
awk -v one="$(metric "$work/balanced_1" val_loss)" -v two="$(metric "$work/balanced_2" val_loss)" \
  'BEGIN { exit !(one > 0 && one - two < 1e-5 && two - one < 1e-5) }' || fail "a weighted sampler draws by the number of ranks"
run "${digits[@]}" --devices 2 --data glyph_parts --data.path "$work/parts" --use_distributed_sampler false \
  --default_root_dir "$work/glyph_parts" > "$work/glyph_parts.log" 2>&1
has "$work/glyph_parts.log" "120 samples in 4 batches"

# Streams of three files, of which the last is short: rank 0 reads two files, rank 1 one. The epoch ends with rank 0's stream,
# after 6 steps, and a run that ends within an epoch goes on to the bits of the whole run, on as many ranks only.
mkdir -p "$work/streams"
cp "$work"/parts/part_?.bin "$work/streams"
head -c $((65 * 70)) "$work/parts/part_0.bin" > "$work/streams/part_2.bin"
streamed() {  # <folder> <ranks> <options ...>
  run "${digits[@]}" --devices "$2" --data streamed_glyphs --data.path "$work/streams" --default_root_dir "$work/$1" "${@:3}" > "$work/$1.log" 2>&1
}
streamed stream_whole 2 --max_epochs 2
has "$work/stream_whole/cxtrain_logs/version_0/run.json" '"global_step": 12,'
streamed stream_part 2 --max_epochs 2 --max_steps 11
streamed stream_other 1 --max_epochs 2 --max_steps 20 --ckpt_path "$work/stream_part/cxtrain_logs/version_0" && fail "a stream was resumed on other ranks"
has "$work/stream_other.log" "use as many ranks"
streamed stream_part 2 --max_epochs 2 --ckpt_path last --data.num_workers 2
[ "$(hash_of "$work/stream_part")" = "$(hash_of "$work/stream_whole")" ] || fail "a stream resumes to other parameters"

# A strategy that averages gradients ends with the bits of ddp; a model in two parts with those of one device.
for strategy in average ddp; do
  run "$prefix/bin/cxtrain_mpi" --devices 2 --accelerator cpu --max_epochs 2 --strategy $strategy \
    --plugin "$work/build/libcxtrain_strategy_average.so" --default_root_dir "$work/by_$strategy" > "$work/by_$strategy.log" 2>&1
  has "$work/by_$strategy/cxtrain_logs/version_0/run.json" "\"strategy\": \"$strategy\""
done
[ "$(hash_of "$work/by_average")" = "$(hash_of "$work/by_ddp")" ] || fail "average and ddp trained to different parameters"
# A comm hook of one's own: its errors are in checkpoints, and its gradients are not those of exact steps.
hooked() {  # <folder> <options ...>
  run "$prefix/bin/cxtrain_mpi" --devices 2 --accelerator cpu --max_epochs 2 --plugin "$work/build/libcxtrain_comm_hook_top_k.so" \
    --strategy.comm_hook top_k --strategy.top_k_fraction 0.1 --default_root_dir "$work/$1" "${@:2}" > "$work/$1.log" 2>&1
}
hooked hook_whole
has "$work/hook_whole.log" "then top_k averages them"
hooked hook_part --max_steps 30
hooked hook_part --ckpt_path last
[ "$(hash_of "$work/hook_part")" = "$(hash_of "$work/hook_whole")" ] || fail "a comm hook resumes to other parameters"
[ "$(hash_of "$work/hook_whole")" != "$(hash_of "$work/by_ddp")" ] || fail "the comm hook does not run"
hooked hook_refused --strategy.comm_hook top-k && fail "a comm hook that nobody registered was accepted"
has "$work/hook_refused.log" "did you mean top_k?"
for parts in 1 2; do
  run "$prefix/bin/cxtrain_mpi" --accelerator cpu --max_epochs 2 --model two_parts --data squares --devices_per_rank $parts \
    --plugin "$work/build/libcxtrain_model_two_parts.so" --default_root_dir "$work/parts_$parts" > "$work/parts_$parts.log" 2>&1
done
[ "$(hash_of "$work/parts_1")" = "$(hash_of "$work/parts_2")" ] || fail "a model in two parts trained to other parameters"
echo "zoo: all well"
