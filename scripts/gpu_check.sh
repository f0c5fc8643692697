#!/usr/bin/env bash
# Checks cxtrain on a machine with a GPU, where nothing has to be installed: run it from the unpacked bundle that
# scripts/bundle.sh makes.
#
#   scripts/gpu_check.sh [--libtorch DIR] [--data DIR] [--report FILE]
#
#   --libtorch DIR   LibTorch's folder (default: the torch of python3)
#   --data DIR       a folder that holds MNIST's IDX files, or has them in mnist/ (default: MNIST is left out)
#   --report FILE    where the JSON report goes (default: gpu_check.json)
#
# Runs every GPU test; trains digits, gpt and MNIST on the GPU in float32 and 16-mixed, and digits on two ranks that
# share the GPU; checks that losses fall and that run.json tells the truth. Takes about three minutes. Exit status: 0 when
# everything passed, 1 when something failed or there is no GPU, 2 for a wrong command line.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
data=
report=gpu_check.json

die() {
  echo "gpu_check: $1" >&2
  exit "${2:-2}"
}

while (($# > 0)); do
  case $1 in
    --libtorch | --data | --report)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --libtorch) export CXTRAIN_LIBTORCH=$2 ;;
        --data) data=$2 ;;
        --report) report=$2 ;;
      esac
      shift 2
      ;;
    -h | --help)
      sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown option $1 (--libtorch DIR, --data DIR, --report FILE)" ;;
  esac
done

[[ -f $here/env.sh ]] || die "$here is no unpacked bundle; make one with scripts/bundle.sh, unpack it, and run its scripts/gpu_check.sh"
command -v python3 >/dev/null || die "needs python3, which writes the report"
[[ -z $data || -d $data ]] || die "--data $data: no such folder"
# shellcheck source=scripts/bundle/env.sh
source "$here/env.sh" || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=$work/checks.jsonl
skips=$work/skips
touch "$checks" "$skips"
if ((EUID == 0)); then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
# Containers often forbid ranks to read each other's memory; Open MPI then reports errors instead of going without.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export CXTRAIN_MPIRUN=$here/openmpi/bin/mpirun

# record NAME PASSED(true|false) SECONDS DETAIL
record() {
  python3 -c '
import json, sys
name, passed, seconds, detail = sys.argv[2:]
with open(sys.argv[1], "a") as out:
    out.write(json.dumps({"name": name, "passed": passed == "true", "seconds": float(seconds), "detail": detail}) + "\n")
' "$checks" "$@"
  local word=FAILED
  [[ $2 == true ]] && word=passed
  echo "$word  $1  ($3 s)${4:+  $4}"
}

# skip WHAT: something that this machine cannot check; the report says so.
skip() {
  echo "$1" >>"$skips"
  echo "SKIPPED $1"
}

now() { date +%s.%N; }
since() { awk -v begin="$1" -v end="$(now)" 'BEGIN { printf "%.2f", end - begin }'; }

# write_report: prints the verdict and gives it as its status.
write_report() {
  python3 - "$checks" "$skips" "$report" "$(nvidia-smi --query-gpu=name,uuid,driver_version --format=csv,noheader 2>/dev/null || true)" \
    "$(cxtrain_mpi --version)" <<'PYTHON'
import json
import sys

checks_path, skips_path, report_path, gpu, version = sys.argv[1:]
with open(checks_path) as lines:
    checks = [json.loads(line) for line in lines]
with open(skips_path) as lines:
    skipped = lines.read().splitlines()
passed = bool(checks) and all(check["passed"] for check in checks)
report = {"gpu": gpu or None, "program": version, "checks": checks, "skipped": skipped, "passed": passed}
with open(report_path, "w") as out:
    json.dump(report, out, indent=1)
    out.write("\n")
good = sum(check["passed"] for check in checks)
print(f"gpu_check: {'PASSED' if passed else 'FAILED'}: {good} of {len(checks)} checks passed, {len(skipped)} skipped; report in {report_path}")
sys.exit(0 if passed else 1)
PYTHON
}

# One check for each case of gpu_tests, from its JUnit report; what a case said it could not check counts as skipped.
run_gpu_tests() {
  local status=0 begin
  begin=$(now)
  gpu_tests --reporter junit --out "$work/gpu_tests.xml" >"$work/gpu_tests.log" 2>&1 || status=$?
  if ((status == 77)); then
    record "GPU present" false "$(since "$begin")" "$(tail -n 1 "$work/gpu_tests.log")"
    write_report || true
    die "there is no GPU that CUDA can use here, so nothing was checked ($(tail -n 1 "$work/gpu_tests.log"))" 1
  fi
  record "GPU present" true 0 ""
  python3 - "$work/gpu_tests.xml" "$status" >"$work/gpu_tests.tsv" <<'PYTHON' || true
import sys
import xml.etree.ElementTree as tree

cases = tree.parse(sys.argv[1]).getroot().iter("testcase")
results = {}
for case in cases:
    name = case.get("classname", "").split(".")[-1] if case.get("name") == "root" else case.get("name").split("/")[0]
    name = name or case.get("name")
    problems = [p for kind in ("failure", "error") for p in case.findall(kind)]
    text = " ".join((p.get("message") or "") + " " + (p.text or "").strip() for p in problems)
    seconds, detail = results.get(name, (0.0, ""))
    results[name] = (seconds + float(case.get("time") or 0), (detail + " " + text).strip())
for name, (seconds, detail) in results.items():
    print(name, "false" if detail else "true", f"{seconds:.2f}", " ".join(detail.split())[:500], sep="\t")
PYTHON
  local name passed seconds detail seen=0 line
  while IFS= read -r line; do skip "${line#skipped: }"; done < <(grep '^skipped: ' "$work/gpu_tests.log" || true)
  while IFS=$'\t' read -r name passed seconds detail; do
    seen=$((seen + 1))
    # A case that failed counts, whatever it skipped before.
    if [[ $passed == true ]] && grep -qF "skipped: $name: " "$work/gpu_tests.log"; then continue; fi
    record "test: $name" "$passed" "$seconds" "$detail"
  done <"$work/gpu_tests.tsv"
  ((status == 0 && seen > 0)) ||
    record "gpu_tests ends well" false "$(since "$begin")" "exit status $status after $seen cases: $(tail -n 3 "$work/gpu_tests.log" | tr '\n' ' ')"
}

# train NAME RANKS PRECISION [fit option...]: a training on the GPU; passed when it ends well, the loss falls, and
# run.json agrees with the metrics and with what was asked.
train() {
  local name=$1 ranks=$2 precision=$3 status=0 begin
  shift 3
  local folder=$work/$((++runs)) launcher=() strategy=single
  mkdir "$folder"
  if ((ranks > 1)); then
    launcher=("$CXTRAIN_MPIRUN" -np "$ranks" --oversubscribe --bind-to none)
    strategy=ddp
  fi
  begin=$(now)
  # The first GPU of those that are visible, also where there are more.
  local visible=${CUDA_VISIBLE_DEVICES:-0}
  CUDA_VISIBLE_DEVICES=${visible%%,*} timeout 240 "${launcher[@]}" "$here/bin/cxtrain_mpi" fit --accelerator gpu \
    --strategy "$strategy" --precision "$precision" --seed 1 --log_every_n_steps 1 --default_root_dir "$folder" "$@" \
    >"$folder/log" 2>&1 || status=$?
  local seconds detail passed=true
  seconds=$(since "$begin")
  detail=$(python3 - "$folder" "$ranks" "$precision" "$strategy" "$status" <<'PYTHON'
import json
import math
import pathlib
import sys

folder, ranks, precision, strategy, status = sys.argv[1:]
log = (pathlib.Path(folder) / "log").read_text(errors="replace")
if status != "0":
    sys.exit(print(f"exit status {status}: " + " ".join(log.split())[-500:]) or 1)
problems = []

def expect(what, found, wanted):
    if found != wanted:
        problems.append(f"{what} is {found}, expected {wanted}")

run_folder = pathlib.Path(folder) / "cxtrain_logs" / "version_0"
run = json.loads((run_folder / "run.json").read_text())
rows = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
train = [row["train_loss"] for row in rows if row.get("train_loss") is not None]
expect("status", run["status"], "done")
expect("exit_code", run["exit_code"], 0)
expect("world_size", run["world_size"], int(ranks))
expect("strategy", run["strategy"], strategy)
expect("precision", run["precision"], {"32": "32-true", "16": "16-mixed"}.get(precision, precision))
expect("steps", run["global_step"], max(row["step"] for row in rows) + 1)
expect("length of parameters_sha256", len(run["parameters_sha256"]), 64)
for name, value in run["metrics"].items():
    last = next((row[name] for row in reversed(rows) if row.get(name) is not None), None)
    if last != value:
        problems.append(f"run.json says {name} {value}, the last logged is {last}")
if "cuda:0" not in log:
    problems.append("the run does not say that it used cuda:0")
if int(ranks) > 1 and "staged through host memory" not in log:
    problems.append("the ranks share a GPU, but their gradients were not staged through host memory")
quarter = max(1, len(train) // 4)
first, last = sum(train[:quarter]) / quarter, sum(train[-quarter:]) / quarter
if not (math.isfinite(last) and last < 0.9 * first):
    problems.append(f"train_loss went from {first:.4f} to {last:.4f}")
print("; ".join(problems) or f"train_loss {first:.4f} -> {last:.4f}, {run['samples_per_second']:.0f} samples/s")
sys.exit(1 if problems else 0)
PYTHON
  ) || passed=false
  record "train: $name, $precision, ranks: $ranks" "$passed" "$seconds" "$detail"
}

runs=0
run_gpu_tests
mnist=
for folder in "$data" "$data/mnist"; do
  for kind in train t10k; do
    compgen -G "$folder/$kind-images-idx3-ubyte*" >/dev/null && mnist=$folder
  done
done
for precision in 32-true 16-mixed; do
  train digits 1 "$precision" --model digits --max_epochs 4
  train digits 2 "$precision" --model digits --max_epochs 4
  train gpt 1 "$precision" --model gpt --model.layers 2 --model.width 64 --model.context 64 --model.warmup 10 \
    --model.sample_bytes 0 --max_steps 150 --limit_val_batches 5
  if [[ -n $mnist ]]; then train mnist 1 "$precision" --model mnist --data.path "$mnist" --max_epochs 1; fi
done
[[ -n $mnist ]] || skip "mnist: --data names no folder that holds MNIST's IDX files"
write_report
