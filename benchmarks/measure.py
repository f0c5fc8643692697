"""Runs the benchmark programs in turns (A B, B A, ...) and reports medians; ratios are taken pair by pair."""

import argparse
import datetime
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODES = str(ROOT / "tests/support/nodes.sh")
median = statistics.median


class Bench:
    def __init__(self, options, work):
        self.bin = pathlib.Path(options.build).resolve() / "bin"
        self.before = pathlib.Path(options.against).resolve() / "bin" if options.against else None
        self.pairs, self.work, self.runs = options.pairs, work, 0
        self.env = dict(
            os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
        )
        self.mnist = make_mnist(work / "mnist", options.data)
        self.text = ROOT / ".deps/data/bible-kjv.txt"

    def run(self, program, *args, ranks=0, nodes=0, before=False, **env):
        """The program's output, under mpirun where `ranks` is given, or `nodes` of one rank each, which are up; of the build `before`
        where asked. A program with a path of its own is not one of the build."""
        command = ["mpirun", "-np", str(ranks)] if ranks else []
        if nodes:
            command = [NODES, "mpirun", "-H", ",".join(f"n{i + 1}:1" for i in range(nodes)), "-np", str(nodes)]
            command += [word for name in env for word in ("-x", name)]
        command += [str((self.before if before else self.bin) / program), *map(str, args)]
        done = subprocess.run(
            command, env={**self.env, **env}, cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
        return done.stdout

    def trainer(self, args, steps, warmup, ranks=0, before=False, nodes=0):
        """With `--profiler simple` among the arguments the result has the parts of a step, too."""
        self.runs += 1
        folder = self.work / f"run{self.runs}"
        out = self.run(
            "bench_trainer_loop",
            *args,
            "--max_steps",
            steps,
            "--limit_val_batches",
            0,
            "--default_root_dir",
            folder,
            ranks=ranks,
            nodes=nodes,
            before=before,
            BENCH_WARMUP=str(warmup),
        )
        profile = self.last_run() / "profile.json"
        parts = parts_of(json.loads(profile.read_text())) if profile.exists() else {}
        return {**json.loads(out.splitlines()[-1]), **parts}

    def last_run(self):
        """The folder of the trainer's last run."""
        return self.work / f"run{self.runs}/cxtrain_logs/version_0"

    def floor(self, args, steps, warmup, tune=1, **how):
        out = self.run(
            "bench_floor_loop", *args, "--steps", steps, "--warmup", warmup, "--tune-malloc", tune, **how
        )
        return json.loads(out.splitlines()[-1])

    def gloo(self, args, steps, warmup, nodes):
        """The floor's loop in PyTorch, with its settings of malloc."""
        out = self.run(
            shutil.which(os.environ["CXTRAIN_TORCH_PYTHON"]) or sys.exit("CXTRAIN_TORCH_PYTHON is not a program"),
            ROOT / "benchmarks/gloo_loop.py",
            *args,
            "--steps",
            steps,
            "--warmup",
            warmup,
            nodes=nodes,
            MASTER_ADDR="n1",
            MASTER_PORT="29500",
            GLOO_SOCKET_IFNAME="eth0",
            MALLOC_MMAP_MAX_="0",
            MALLOC_TRIM_THRESHOLD_=str(1 << 40),
            MALLOC_TOP_PAD_=str(64 << 20),
        )
        return json.loads(out.splitlines()[-1])

    def in_turns(self, ways):
        """Calls each of `ways` (name -> function) once per round, in alternating order; name -> list of results."""
        results = {name: [] for name in ways}
        for round_ in range(self.pairs):
            for name in (list(ways) if round_ % 2 == 0 else reversed(list(ways))):
                results[name].append(ways[name]())
        return results


def parts_of(profile):
    """Parts of a step, in us: what a rank does by itself besides backward; backward; the exchange of gradients alone, and its last message."""
    phases = {each["phase"]: 1e6 * each["median"] for each in profile["phases"]}
    work = sum(time for phase, time in phases.items() if phase not in ("reduce", "agree", "publish", "backward"))
    exchange = 1e6 * profile["exchange"]["seconds"]
    return {"work_us": work, "backward_us": phases["backward"], "exchange_us": exchange, "last_us": profile["exchange"]["last_message"] * exchange}


def bound_of(run, first, of_rank=None, crowd=1):
    """A bound of a step, in us: the first bucket is complete after the part `first` of backward, all buckets follow it one after the other, and the last one
    is complete when backward ends. `crowd` ranks share a core: all of them have to work before a sum is complete. A rank works as in the run `of_rank`."""
    rank = of_rank or run
    work, backward = crowd * rank["work_us"], crowd * rank["backward_us"]
    return work + max(backward + run["last_us"], first * backward + run["exchange_us"])


def first_bucket(trace):
    """The part of backward after which rank 0 sends its first bucket: the median over the steps of a trace."""
    events = [each for each in trace["traceEvents"] if each["ph"] == "X" and each["pid"] == 0]
    sent = sorted(each["ts"] for each in events if each["name"].startswith("bucket "))
    parts = []
    for backward in (each for each in events if each["name"] == "backward" and each["cat"] == "phase"):
        within = [at for at in sent if 0 <= at - backward["ts"] <= backward["dur"]]
        if within:  # hooks part a backward pass into several ranges
            parts.append((within[0] - backward["ts"]) / backward["dur"])
    return median(parts) if parts else 1


def until_first_bucket(trace):
    """The time from the end of an exchange until the last rank sends its first bucket, in us: the median over the steps of a trace."""
    ends, sent = {}, {}  # of each rank
    for each in (each for each in trace["traceEvents"] if each["ph"] == "X"):
        if each["name"] == "reduce":
            ends.setdefault(each["pid"], []).append(each["ts"] + each["dur"])
        elif each["name"].startswith("bucket 0,"):
            sent.setdefault(each["pid"], []).append(each["ts"])
    begun = zip(*(sorted(of_rank) for of_rank in ends.values()))
    done = list(zip(*(sorted(of_rank) for of_rank in sent.values())))[1:]
    return median(max(last) - min(first) for first, last in zip(begun, done))


def make_mnist(folder, source):
    """MNIST's own images where given, else random ones; a multiple of every batch size, so that no batch differs."""
    folder.mkdir(parents=True)
    count = 9984
    if source:

        def read(kind):
            for prefix in ("train", "t10k"):
                for path in pathlib.Path(source).glob(f"{prefix}-{kind}-ubyte*"):
                    return gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            sys.exit(f"no {kind} in {source}")

        images, labels = read("images-idx3")[16:], read("labels-idx1")[8:]
    else:
        generator = random.Random(1)
        images, labels = generator.randbytes(count * 784), bytes(generator.randrange(10) for _ in range(count))
    for prefix, n in (("train", count), ("t10k", 256)):  # the second is for validation, which is not measured
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, n, 28, 28) + images[: n * 784])
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, n) + labels[:n])
    return folder


def with_before(bench, ways):
    """`ways` (name -> function of one flag, and what the caller gives), and each of them once more for the build that `--against` names."""
    both = {name: (lambda way=way, **how: way(False, **how)) for name, way in ways.items()}
    if bench.before:
        both |= {f"{name}, before": (lambda way=way, **how: way(True, **how)) for name, way in ways.items()}
    return both


def of(results, name, key):
    return [result[key] for result in results[name]]


def ratio(results, a, b, key):
    return median(x[key] / y[key] for x, y in zip(results[a], results[b]))


def overhead(bench):
    def measure(before):
        return json.loads(bench.run("bench_overhead", "--pairs", 3, "--steps", 20000, before=before))

    results = bench.in_turns(with_before(bench, {"overhead": measure}))
    found = {key: median(of(results, "overhead", key)) for key in ("floor_us", "trainer_us", "overhead_us", "profiler_us")}
    rows = [
        ("a step of a tiny model: floor, trainer", f"{found['floor_us']:.1f} us, {found['trainer_us']:.1f} us", ""),
        ("what the trainer adds", f"**{found['overhead_us']:.1f} us**", "at most 2 us"),
        ("what --profiler simple adds to that", f"{found['profiler_us']:.2f} us", "at most 0.5 % of the step"),
    ]
    if bench.before:
        found["before_overhead_us"] = median(of(results, "overhead, before", "overhead_us"))
        rows.append(("what the trainer before added", f"{found['before_overhead_us']:.1f} us", ""))
    return found, rows


def throughput(bench):
    mnist = ["--model", "mnist", "--data.path", bench.mnist]
    works = {  # name: trainer's arguments, floor's model and data, batch, steps, warm-up
        "mlp": (mnist, "mlp", bench.mnist, 64, 900, 100),
        "cnn": (mnist + ["--model.net", "cnn"], "cnn", bench.mnist, 256, 60, 6),
        "gpt": (
            ["--model", "gpt", "--model.sample_bytes", 0, "--lr_scheduler", "constant", "--data.path", bench.text],
            "gpt",
            bench.text,
            16,
            30,
            5,
        ),
        "simple": (["--model", "simple"], "simple", "none", 32, 10, 2),
    }
    found, rows = {}, []
    for name, (args, model, data, batch, steps, warmup) in works.items():
        floor = ["--model", model, "--data", data, "--batch", batch]
        # The floor saves nothing, and a save takes a copy of the state.
        trained = [*args, "--data.batch_size", batch, "--enable_checkpointing", "false"]
        train = lambda before: bench.trainer(trained, steps, warmup, before=before)
        ways = {**with_before(bench, {"trainer": train}), "floor": lambda: bench.floor(floor, steps, warmup)}
        if name == "cnn":
            ways["plain floor"] = lambda: bench.floor(floor, steps, warmup, tune=0)
        results = bench.in_turns(ways)
        a, b = of(results, "trainer", "loss")[0], of(results, "floor", "loss")[0]
        if abs(a - b) > 1e-6 * abs(b):
            sys.exit(f"{name}: trainer and floor did different work: losses {a} and {b}")
        entry = {
            way: {key: median(of(results, way, key)) for key in ("samples_per_second", "peak_memory_bytes")}
            for way in ways
        }
        entry["speed"] = ratio(results, "trainer", "floor", "samples_per_second")
        entry["memory"] = ratio(results, "trainer", "floor", "peak_memory_bytes")
        rates = ", ".join(f"{entry[way]['samples_per_second']:,.0f}" for way in ("floor", "trainer"))
        rows.append(
            (
                f"{name}, batch {batch}: floor, trainer",
                f"{rates} samples/s: **{entry['speed']:.3f}x**",
                "at least 0.98x",
            )
        )
        if bench.before:
            entry["speed_over_before"] = ratio(results, "trainer", "trainer, before", "samples_per_second")
            entry["memory_over_before"] = ratio(results, "trainer", "trainer, before", "peak_memory_bytes")
            rows.append(
                (
                    f"{name}: speed, peak memory over the trainer before",
                    f"**{entry['speed_over_before']:.3f}x**, {entry['memory_over_before']:.2f}x",
                    "at least 0.98x",
                )
            )
        if name == "cnn":
            plain = entry["plain floor"]["samples_per_second"]
            entry["speed_over_plain"] = ratio(results, "trainer", "plain floor", "samples_per_second")
            rows.append(
                (
                    "cnn, over a floor with glibc's malloc as it is",
                    f"{plain:,.0f} samples/s: **{entry['speed_over_plain']:.2f}x**",
                    "at least 1.1x",
                )
            )
        sizes = ", ".join(f"{entry[way]['peak_memory_bytes'] / 1e6:,.0f}" for way in ("floor", "trainer"))
        rows.append(
            (f"{name}: peak memory of floor, trainer", f"{sizes} MB: **{entry['memory']:.2f}x**", "at most 1.2x")
        )
        found[name] = entry
    return found, rows


def startup(bench):
    def cxtrain(ranks, before):
        bench.runs += 1
        folder = bench.work / f"run{bench.runs}"
        bench.run(
            "cxtrain_mpi",
            "--model",
            "mnist",
            "--data.path",
            bench.mnist,
            "--max_steps",
            1,
            "--limit_val_batches",
            0,
            "--default_root_dir",
            folder,
            ranks=ranks,
            before=before,
        )
        return json.loads((folder / "cxtrain_logs/version_0/run.json").read_text())

    floor = ["--model", "mlp", "--data", bench.mnist, "--batch", 64]
    found, rows = {}, []
    for ranks in (0, 2):
        ways = with_before(bench, {"cxtrain": lambda before: cxtrain(ranks, before)})
        results = bench.in_turns({**ways, "floor": lambda: bench.floor(floor, 1, 0, ranks=ranks)})
        name = "2 ranks" if ranks else "alone"
        found[name] = {way: median(of(results, way, "first_step_seconds")) for way in results}
        found[name]["ratio"] = ratio(results, "cxtrain", "floor", "first_step_seconds")
        rows.append(
            (
                f"process start to the end of the first step, {name}: floor, cxtrain_mpi",
                f"{found[name]['floor']:.2f} s, {found[name]['cxtrain']:.2f} s: **{found[name]['ratio']:.2f}x**",
                "at most 1.3x",
            )
        )
        if bench.before:
            found[name]["over_before"] = ratio(results, "cxtrain", "cxtrain, before", "first_step_seconds")
            rows.append(
                (
                    f"... {name}: cxtrain_mpi over the one before",
                    f"**{found[name]['over_before']:.2f}x**",
                    "at most 1.03x",
                )
            )
    return found, rows


def ddp(bench):
    args = ["--model", "mnist", "--data.path", bench.mnist, "--data.batch_size", 64]
    floor = ["--model", "mlp", "--data", bench.mnist, "--batch", 64]
    steps, warmup = 900, 100
    trainers = {
        f"trainer {n}": lambda before, n=n: bench.trainer(args, steps, warmup, ranks=n, before=before) for n in (1, 2)
    }
    results = bench.in_turns(
        {
            **with_before(bench, trainers),
            "floor 1": lambda: bench.floor(floor, steps, warmup, ranks=1),
            "floor 2": lambda: bench.floor(floor, steps, warmup, ranks=2),
        }
    )
    found = {way: {key: median(of(results, way, key)) for key in ("step_us", "sync_us")} for way in results}
    found["efficiency"] = ratio(results, "trainer 1", "trainer 2", "step_us")
    found["floor_efficiency"] = ratio(results, "floor 1", "floor 2", "step_us")
    rows = []
    for way, what in (("floor", "flat MPI_Allreduce"), ("trainer", "gradients summed in shared memory")):
        one, two = found[f"{way} 1"], found[f"{way} 2"]
        rows.append(
            (
                f"mlp, batch 64 a rank, {way} ({what}): a step on 1, 2 ranks",
                f"{one['step_us'] / 1e3:.2f} ms, {two['step_us'] / 1e3:.2f} ms",
                "",
            )
        )
        rows.append(
            (
                f"... of which at 2 ranks: computing; reducing and waiting (all of it exposed, {way})",
                f"{(two['step_us'] - two['sync_us']) / 1e3:.2f} ms; {two['sync_us'] / 1e3:.2f} ms",
                "",
            )
        )
    rows.append(
        (
            "scaling efficiency on 2 ranks: floor, trainer",
            f"{found['floor_efficiency']:.2f}, **{found['efficiency']:.2f}**",
            "at least 0.87",
        )
    )
    if bench.before:
        found["efficiency_before"] = ratio(results, "trainer 1, before", "trainer 2, before", "step_us")
        found["step_over_before"] = ratio(results, "trainer 2", "trainer 2, before", "step_us")
        rows.append(
            (
                "scaling efficiency of the trainer before; its step on 2 ranks, this one's over it",
                f"{found['efficiency_before']:.2f}; {found['step_over_before']:.3f}x",
                "within 0.02",
            )
        )
    return found, rows


def sharding(bench):
    """A step of the MLP on 2 ranks that divide the optimizer's work, over one in which both do all of it."""
    args = ["--model", "mnist", "--data.path", bench.mnist, "--data.batch_size", 64]
    optimizers = {
        "adam": [],
        "sgd with momentum": ["--optimizer", "sgd", "--optimizer.momentum", 0.9],
        "sgd": ["--optimizer", "sgd"],
    }

    def way(optimizer, shards):
        return lambda: bench.trainer([*args, *optimizer, "--strategy.shard_optimizer", shards], 900, 100, ranks=2)

    ways = {f"{name} {shards}": way(optimizers[name], shards) for name in optimizers for shards in ("false", "true")}
    results = bench.in_turns(ways)
    found, rows = {}, []
    for name in optimizers:
        whole, divided = (median(of(results, f"{name} {shards}", "step_us")) for shards in ("false", "true"))
        found[name] = {"whole_us": whole, "divided_us": divided}
        found[name]["ratio"] = ratio(results, f"{name} true", f"{name} false", "step_us")
        rows.append(
            (
                f"mlp on 2 ranks, {name}: a step with whole updates, with divided ones",
                f"{whole / 1e3:.2f} ms, {divided / 1e3:.2f} ms: **{found[name]['ratio']:.2f}x**",
                "",
            )
        )
    return found, rows


GPT = ["--model", "gpt", "--model.width", 512, "--model.context", 64, "--model.sample_bytes", 0]
GPT += ["--data.batch_size", 1, "--lr_scheduler", "constant"]  # 64 tokens


def steps_and_memory(bench, ways, work, gates):
    """A step and the memory of the larger rank, for ways (name -> arguments of `bench.trainer`); ratios to the first."""

    def run(args, steps, warmup, **how):
        result = bench.trainer(args, steps, warmup, **how)
        run_json = next((bench.work / f"run{bench.runs}").rglob("run.json"))
        return {**result, "megabytes": json.loads(run_json.read_text())["pss_bytes"] / 1e6}

    results = bench.in_turns({name: lambda way=way: run(**way) for name, way in ways.items()})
    found, rows = {}, []
    for name in ways:
        found[name] = {key: median(of(results, name, key)) for key in ("step_us", "megabytes")}
        found[name]["ratio"] = ratio(results, name, next(iter(ways)), "step_us")
        rows.append(
            (
                f"{work}, {name}: a step, memory of a rank (Pss)",
                f"{found[name]['step_us'] / 1e3:.0f} ms (**{found[name]['ratio']:.2f}x**), {found[name]['megabytes']:.0f} MB",
                gates.get(name, ""),
            )
        )
    return found, rows


def zero(bench):
    """A GPT of 28.5 M parameters with Adam on 2 ranks, 64 tokens a rank."""
    args = [*GPT, "--model.layers", 9, "--data.path", bench.text]
    strategies = {
        "ddp, nothing divided": ["ddp", "--strategy.shard_optimizer", "false"],
        "ddp": ["ddp"],
        "zero, stage 2": ["zero", "--strategy.stage", 2],
        "zero, stage 3": ["zero", "--strategy.stage", 3],
    }

    def way(strategy, before=False):
        args_of_way = [*args, "--strategy", *strategies[strategy]]
        return {"args": args_of_way, "steps": 40, "warmup": 5, "ranks": 2, "before": before}

    ways = {name: way(name) for name in strategies}
    if bench.before:
        ways["ddp of the trainer before"] = way("ddp", before=True)
    return steps_and_memory(bench, ways, "gpt, 28.5 M, adam, 2 ranks", {})


def why_no_nodes(count, gbit=None):
    """Starts emulated nodes, whose links have `gbit` or no limit, and which have cores of their own if there are enough. Returns why there can be
    none; empty: they are up."""
    up = [NODES, "up", str(count), *([rate_of(gbit)] if gbit else [])]
    env = {**os.environ, "CXTRAIN_NODE_CORES": "own"}
    done = subprocess.run(up, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 77:
        print(done.stdout.strip(), file=sys.stderr)
        return done.stdout.strip()
    if done.returncode != 0:
        sys.exit(done.stdout)
    return ""


def zero_nodes(bench):
    """A GPT of 28.5 M parameters with Adam on 2 emulated nodes of one rank, 256 tokens a rank: ranks that share no memory."""
    args = [*GPT, "--model.layers", 9, "--data.path", bench.text, "--data.batch_size", 4]
    strategies = {
        "ddp": ["ddp"],
        "zero, stage 2": ["zero", "--strategy.stage", 2],
        "zero, stage 3": ["zero", "--strategy.stage", 3],
        "zero, stage 3, recomputed": ["zero", "--strategy.stage", 3, "--recompute_blocks", "true"],
    }
    found, rows = {}, []
    for gbit in (1, 10):
        if why := why_no_nodes(2, gbit):
            return {"skipped": why}, [(why, "", "")]
        try:
            how = {"steps": 16, "warmup": 4, "nodes": 2}
            ways = {name: {"args": [*args, "--strategy", *words], **how} for name, words in strategies.items()}
            # Stage 3 sends the parameters twice and the gradients once: half as much again as ddp.
            gates = {"zero, stage 3": "at most ddp, half of its wire and 5 %"}
            here, lines = steps_and_memory(bench, ways, f"gpt, 28.5 M, adam, 2 nodes, {gbit} Gbit", gates)
        finally:
            subprocess.run([NODES, "down"], check=True)
        found[f"{gbit} Gbit"] = here
        rows += lines
    return found, rows


def hooks(bench):
    """The MLP with Adam on 2 emulated nodes of one rank: fewer bytes between nodes, and their effect on the loss."""
    args = ["--model", "mnist", "--data.path", bench.mnist, "--data.batch_size", 64, "--strategy", "ddp"]
    ways = {
        "exact": [],
        "bf16": ["--strategy.comm_hook", "bf16"],
        "auto": ["--strategy.comm_hook", "auto"],
        "powersgd": ["--strategy.comm_hook", "powersgd", "--strategy.powersgd_start", 10],
        "powersgd, rank 4": [*"--strategy.comm_hook powersgd --strategy.powersgd_start 10 --strategy.powersgd_rank 4".split()],
        "averaged every 8 steps": ["--strategy.model_averaging_period", 8],
    }
    found, rows = {}, []
    for gbit in (0.1, 1):
        if why := why_no_nodes(2, gbit):
            return {"skipped": why}, [(why, "", "")]
        try:
            how = {"steps": 330 if gbit == 1 else 80, "warmup": 20, "nodes": 2}
            runs = {name: lambda words=words: bench.trainer([*args, *words], **how) for name, words in ways.items()}
            results = bench.in_turns(runs)
        finally:
            subprocess.run([NODES, "down"], check=True)
        here = found[f"{gbit:g} Gbit"] = {}
        for name in ways:
            here[name] = {key: median(of(results, name, key)) for key in ("step_us", "loss")}
            time = f"{here[name]['step_us'] / 1e3:.1f} ms (**{ratio(results, name, 'exact', 'step_us'):.2f}x**)"
            rows.append((f"mlp, 2 nodes, {gbit:g} Gbit, {name}: a step, the loss", f"{time}, {here[name]['loss']:.4f}", ""))
    return found, rows


def pipeline(bench):
    """A GPT of 25.4 M parameters with Adam, 8 micro-batches of 64 tokens: 2 stages over one process."""
    args = [*GPT, "--model.layers", 8, "--data.path", bench.text, "--accumulate_grad_batches", 8]

    def way(ranks, *strategy):
        return {"args": [*args, "--strategy", *strategy], "steps": 16, "warmup": 3, "ranks": ranks}

    ways = {"one process": way(1, "single")}
    for schedule in ("1f1b", "gpipe", "interleaved", "zb1p"):
        ways[schedule] = way(2, "pipeline", "--strategy.schedule", schedule)
    gates = {"1f1b": "at most 0.60x", "interleaved": "at most 0.57x"}
    return steps_and_memory(bench, ways, "gpt, 25.4 M, adam, 8 micro-batches", gates)


def bubble(bench):
    """Stages that sleep in place of computing, so that they do not share cores: the part of a step in which they wait."""
    blocks, block_ms, micro_batches = 16, 20, 16
    plugin = bench.bin.parent / "tests/plugins/sleeper.so"
    formulas = {
        "gpipe": lambda p, m: (p - 1) / (m + p - 1),
        "1f1b": lambda p, m: (p - 1) / (m + p - 1),
        "interleaved": lambda p, m: (p - 1) / (2 * m + p - 1),
        "zb1p": lambda p, m: (p - 1) / (3 * m + p - 1),
    }

    def step_of(ranks, blocks, *strategy):
        """Seconds of a step."""
        bench.runs += 1
        folder = bench.work / f"run{bench.runs}"
        args = ["--plugin", plugin, "--model", "sleeper", "--model.blocks", blocks, "--model.ms", block_ms]
        args += ["--accumulate_grad_batches", micro_batches, "--max_steps", 5, "--limit_val_batches", 0, "--accelerator", "cpu"]
        args += ["--profiler", "simple", "--default_root_dir", folder, "--strategy", *strategy]
        bench.run("cxtrain_mpi", "fit", *args, ranks=ranks, OMPI_MCA_rmaps_base_oversubscribe="1")
        return {"seconds": json.loads(next(folder.rglob("profile.json")).read_text())["median"]}

    # A process wakes up late, on some machines by 2 % of its sleep: the work of a stage is measured, too.
    ways = {("work", p): lambda p=p: step_of(1, blocks // p, "single") for p in (4, 8)}
    for p in (4, 8):
        for s in formulas:
            ways[s, p] = lambda s=s, p=p: step_of(p, blocks, "pipeline", "--strategy.schedule", s)
    results = bench.in_turns(ways)
    found, rows = {}, []
    for schedule, stages in ways:
        if schedule == "work":
            continue
        measured = 1 - ratio(results, ("work", stages), (schedule, stages), "seconds")
        formula = formulas[schedule](stages, micro_batches)
        found[f"{schedule} {stages}"] = {"bubble": measured, "formula": formula}
        rows.append(
            (
                f"{schedule}, {stages} stages, {micro_batches} micro-batches: formula, stages wait",
                f"{100 * formula:.1f} %, **{100 * measured:.1f} %**",
                "within 3 points",
            )
        )
    return found, rows


def allreduce(bench):
    lines = [json.loads(line) for line in bench.run("bench_allreduce", ranks=2).splitlines()]
    rows = []
    for line in lines:
        plain = min(line["one_call_us"], line["pieces_1_mib_us"], line["pieces_4_mib_us"])
        rows.append(
            (
                f"{line['megabytes']:.2f} MB on 2 ranks: the best MPI_Allreduce, in the window",
                f"{plain / 1e3:.3f} ms, {line['window_us'] / 1e3:.3f} ms: **{line['ratio']:.2f}x**",
                "at most 0.35x" if 1 < line["megabytes"] < 50 else "",
            )
        )
    return lines, rows


def with_links(file, title, run):
    """What TCP knew of the links at the end of a run (or half a second before), which is appended to `file`."""
    last, over = "", threading.Event()

    def look():
        nonlocal last
        while not over.wait(0.5):
            seen = subprocess.run([NODES, "links"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            # mpirun's own connections are there before the ranks have theirs, and after.
            launchers = re.compile('"(mpirun|orted|prterun|prted)"')
            seen = "".join(f"{line}\n" for line in seen.splitlines() if not launchers.search(line))
            last = seen or last

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        run()
    finally:
        over.set()
        watcher.join()
    with open(file, "a") as out:
        out.write(f"== {title}\n{last}\n")


def nodes(bench):
    """DDP on 2 and 4 emulated nodes (tests/support/nodes.sh) of one rank: cxtrain and the bound by the run's own profile, the floor under mpirun,
    and PyTorch over Gloo. A round has all links, so that a step over one link compares with that over another. Beside the build's programs
    `nodes_links.txt` then has what TCP knew of the trainer's links."""
    works = {  # name: trainer's arguments, data, batch, parameters, ms of a step without a network
        "mlp": (["--model", "mnist", "--data.path", bench.mnist], bench.mnist, 64, 669_706, 3),
        "gpt": (
            ["--model", "gpt", "--model.sample_bytes", 0, "--lr_scheduler", "constant", "--data.path", bench.text],
            bench.text,
            16,
            842_496,
            150,
        ),
    }
    links_file = bench.bin.parent / "nodes_links.txt"
    links_file.unlink(missing_ok=True)
    found, rows, first, alone_on_core, begun, cost_of_trace = {}, [], {}, {}, {}, {}
    for count in (2, 4):
        if why := why_no_nodes(count):
            return {"skipped": why}, [(why, "", "")]
        try:
            seconds = {gbit: 2 * (count - 1) / count * 4 / (gbit * 1e9 / 8) if gbit else 0 for gbit in LINKS}  # of the wire, for a parameter
            wires = {(name, gbit): 1e3 * seconds[gbit] * works[name][3] for name in works for gbit in LINKS}  # ms
            ways = {}  # (work, way, gbit) -> a run
            for name, (args, data, batch, _, alone) in works.items():
                train_args = [*args, "--data.batch_size", batch, "--strategy", "ddp", "--profiler"]
                for gbit in LINKS:  # the size of a bucket follows the link
                    traces = [traced_over_links(bench, train_args, count, gbit) for _ in range(3)]
                    begun[name, gbit] = median(until_first_bucket(trace) for trace in traces)
                    if count == 2:
                        first[name, gbit] = median(first_bucket(trace) for trace in traces)
                floor_args = ["--model", name, "--data", data, "--batch", batch]
                for way, run in ways_over_nodes(bench, count, [*train_args, "simple"], floor_args).items():
                    for gbit in LINKS:
                        measured = min(max(round(1500 / (alone + wires[name, gbit] + 2)), 5), 300)  # 1.5 s
                        how = {"warmup": max(measured // 10, 2), "nodes": count}
                        how["steps"] = measured + how["warmup"]
                        ways[name, way, gbit] = lambda run=run, gbit=gbit, how=how: over_links(count, gbit, lambda: run(**how))
            results = bench.in_turns(ways)
            for name in works:
                # PyTorch begins with other parameters: cxtrain seeds each block by its name.
                same = [key for key in ways if key[0] == name and key[1] != "gloo"]
                losses = {gbit: [of(results, key, "loss")[0] for key in same if key[2] == gbit] for gbit in LINKS}
                if any(max(each) - min(each) > 1e-3 * min(each) for each in losses.values()):
                    sys.exit(f"{name}: the ways did different work: losses {losses}")
                if count == 2:
                    runs = results[name, "trainer", None]
                    alone_on_core[name] = {part: median(run[part] for run in runs) for part in ("work_us", "backward_us")}
                for gbit in LINKS:
                    runs = results[name, "trainer", gbit]
                    if count == 2:
                        begun_untraced = median(run["work_us"] + first[name, gbit] * run["backward_us"] for run in runs)
                        cost_of_trace[name, gbit] = begun[name, gbit] / begun_untraced
                    for run in runs:
                        run["begun_us"] = begun[name, gbit] / cost_of_trace[name, gbit]
                        run["bound_us"] = bound_over_nodes(run, first[name, gbit], alone_on_core[name], count)
                    entry, row = node_row(results, name, gbit, wires[name, gbit], count)
                    entry["first_bucket"] = first[name, gbit]
                    found[f"{name}, {count} nodes, {link_name(gbit)}"] = entry
                    rows.append(row)
                    # A look at the links takes time of the ranks' cores, so it is no part of what is measured.
                    with_links(links_file, f"{name}, {count} nodes, {link_name(gbit)}", ways[name, "trainer", gbit])
        finally:
            subprocess.run([NODES, "down"], check=True)
    return found, rows


LINKS = (0.1, 1, 10, None)  # Gbit; None: no limit


def rate_of(gbit):
    """The rate as tests/support/nodes.sh takes it."""
    return f"{round(gbit * 1000)}mbit" if gbit else "none"


def link_name(gbit):
    return f"{gbit:g} Gbit" if gbit else "unlimited"


def over_links(count, gbit, run):
    """The result of `run` over links of this rate."""
    for node in range(1, count + 1):
        subprocess.run([NODES, "rate", f"n{node}", rate_of(gbit)], check=True)
    return run()


def traced_over_links(bench, train_args, count, gbit):
    """The trace of a training."""
    over_links(count, gbit, lambda: bench.trainer([*train_args, "trace"], 20, 2, nodes=count))
    return json.loads(gzip.decompress((bench.last_run() / "trace.json.gz").read_bytes()))


def ways_over_nodes(bench, count, train_args, floor_args):
    """Name -> function of steps, warmup and nodes."""
    ways = with_before(bench, {"trainer": lambda before, **how: bench.trainer(train_args, **how, before=before)})
    ways["floor"] = lambda **how: bench.floor(floor_args, **how)
    if count > 2:
        return ways
    # Open MPI hands the large part of a message to TCP in one go ("put"). What announces the other direction's message waits behind it, so that
    # the directions take turns. With fragments ("send") both are busy at once.
    ways["full-duplex floor"] = lambda **how: bench.floor(floor_args, **how, OMPI_MCA_btl_tcp_flags="send")
    if os.environ.get("CXTRAIN_TORCH_PYTHON"):
        ways["gloo"] = lambda **how: bench.gloo(floor_args, **how)
    return ways


def bound_over_nodes(run, first, alone_on_core, count):
    """The bound of a run. Where ranks share cores, also: of ranks that work as on a core of their own; of the processors' time that a rank takes; and of an
    exchange that begins when the last rank has its first bucket."""
    crowd = count / os.cpu_count()
    bound = bound_of(run, first)
    if crowd <= 1:
        return bound
    return max(bound, bound_of(run, first, alone_on_core, crowd), crowd * run["cpu_us"], run["begun_us"] + run["exchange_us"])


def node_row(results, work, gbit, wire, count):
    """What was found of a work over links of a rate, and its line of the table."""
    here = {way: runs for (name, way, rate), runs in results.items() if (name, rate) == (work, gbit)}
    entry = {"wire_ms": wire, **{way: median(of(here, way, "step_us")) for way in here}}
    entry |= {f"trainer over {way}": ratio(here, "trainer", way, "step_us") for way in here if way != "trainer"}
    entry |= {part: median(of(here, "trainer", part)) for part in ("work_us", "backward_us", "exchange_us", "last_us", "cpu_us", "begun_us")}
    entry |= {"bound": median(of(here, "trainer", "bound_us")), "trainer over bound": median(run["step_us"] / run["bound_us"] for run in here["trainer"])}
    if gbit:
        fast = {"slow": here["trainer"], "fast": results[work, "trainer", None]}
        entry["trainer over unlimited"] = ratio(fast, "slow", "fast", "step_us")
    times = ", ".join(f"{entry[way] / 1e3:.1f}" for way in here)
    over = f"**{entry['trainer over bound']:.2f}x** of its bound {entry['bound'] / 1e3:.1f} ms, "
    others = [way for way in here if way != "trainer"] + (["unlimited"] if gbit else [])
    over += ", ".join(f"**{entry[f'trainer over {name}']:.2f}x** of {name}" for name in others)
    wires = f" (the wire {wire:.1f} ms)" if gbit else ""
    what = f"{work}, {count} nodes, {link_name(gbit)}{wires}: a step of {', '.join(here)}"
    return entry, (what, f"{times} ms: {over}", "at most 1.05x of the bound")


def checkpoint(bench):
    found = json.loads(bench.run("bench_checkpoint", "--dir", str(bench.work)).splitlines()[-1])  # behind the log
    rows = [
        (
            "600 MB (50 million parameters with AdamW's state): a memcpy, training stands still",
            f"{found['memcpy']:.3f} s, {found['stall']:.3f} s: **{found['stall_over_memcpy']:.2f}x**",
            "at most 1.3x",
        ),
        (
            "a raw write and fsync; writing the checkpoint with its checksums",
            f"{found['raw_write']:.3f} s, {found['save']:.3f} s: **{found['write_speed_over_raw']:.2f}x** of its speed",
            "at least 0.9x",
        ),
        (
            "reading the files from the disk; checksums compared and the state read from it",
            f"{found['raw_read']:.3f} s, {found['load']:.3f} s",
            "",
        ),
    ]
    args = ["--model", "mnist", "--data.path", bench.mnist, "--data.batch_size", 64]
    epoch = 938  # steps of MNIST's 60,000 images
    for ranks in (1, 2):
        steps = bench.trainer([*args, "--checkpoint.every_n_train_steps", epoch], 5 * epoch + 1, 100, ranks=ranks)
        events = [json.loads(line) for line in (bench.last_run() / "events.jsonl").read_text().splitlines()]
        saves = [each for each in events if each["event"] == "checkpoint"][:5]
        took, still = (median(save[key] for save in saves) for key in ("seconds", "stalled"))
        seconds = epoch * steps["step_us"] / 1e6
        found[f"mnist, {ranks}"] = {"epoch": seconds, "save": took, "stall": still}
        rows.append(
            (
                f"mlp, {ranks} rank{'s' if ranks > 1 else ''}: {epoch} steps, a checkpoint every so many; training stands still",
                f"{seconds:.2f} s, {1e3 * took:.0f} ms beside it; {1e3 * still:.0f} ms: "
                f"**{100 * still / seconds:.2f} %** to {100 * took / seconds:.2f} %",
                "at most 1 %",
            )
        )
    return found, rows


BENCHMARKS = {way.__name__: way for way in (overhead, throughput, startup, ddp, sharding, zero, zero_nodes, hooks, pipeline, bubble, allreduce, nodes, checkpoint)}


def machine():
    model = next(
        (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU"
    )
    return f"{os.cpu_count()} cores, {model}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--against", help="the build folder of another commit, to be measured in the same turns")
    parser.add_argument("--only", default=",".join(BENCHMARKS))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--data", help="a folder with MNIST's files; random images without")
    parser.add_argument("--record", action="store_true", help="write benchmarks/RESULTS.md")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found, text = {}, ""
    with tempfile.TemporaryDirectory(prefix="cxtrain_bench_") as work:
        bench = Bench(options, pathlib.Path(work))
        version = bench.run("cxtrain_mpi", "--version").strip()
        for name in options.only.split(","):
            print(f"== {name}", file=sys.stderr)
            found[name], rows = BENCHMARKS[name](bench)
            fragment = f"## {name}\n\n| | median | target |\n|---|---|---|\n" + "".join(
                f"| {a} | {b} | {c} |\n" for a, b, c in rows
            )
            print(fragment, flush=True)
            text += "\n" + fragment
    mpi = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    page = (
        f"# Benchmarks\n\nMeasured {today} by `benchmarks/run.sh`: {options.pairs} rounds in alternating order, one "
        f"thread a rank, load average\n{load:.1f} at the start. {version}; {mpi}.\n"
        f"Machine: {machine()}, no GPU.\n\n"
        "The *floor* is a loop written by hand on LibTorch and MPI (`benchmarks/floor_loop.cpp`): the same networks, "
        "samples, batch\norder and fused optimizer kernel, no trainer; it ends with the same loss. The trainer logs to "
        "all its files meanwhile.\nRatios are medians of the ratios of neighbouring runs.\n" + text
    )
    results = pathlib.Path(options.build) / "benchmarks.json"
    results.write_text(
        json.dumps({"date": today, "version": version, "machine": machine(), "load": load, **found}, indent=1)
    )
    print(f"numbers: {results}", file=sys.stderr)
    if options.record:
        (ROOT / "benchmarks/RESULTS.md").write_text(page)


if __name__ == "__main__":
    main()
