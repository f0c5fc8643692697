"""A training by the program, and whether what it wrote is true."""

import json
import math


def read_run(folder):
    """run.json and the rows of metrics.jsonl of the first run in this folder."""
    run_folder = folder / "cxtrain_logs" / "version_0"
    rows = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    return json.loads((run_folder / "run.json").read_text()), rows


def learns(machine, outcome, options, ranks=1, gpus=1, precision="32-true", says=(), bind_to="none"):
    """Trains with these options on so many ranks. Fails where the training does not end well, the loss does not fall,
    the log lacks one of `says`, or run.json does not agree with what was asked and logged."""
    folder = machine.folder()
    strategy = "single" if ranks == 1 else "ddp"
    launch = [] if ranks == 1 else machine.mpirun(ranks, bind_to)
    common = ["--strategy", strategy, "--precision", precision, "--seed", 1, "--log_every_n_steps", 1]
    done = machine.run(launch + machine.fit(*common, *options, folder=folder), gpus=gpus)
    if done.status != 0:
        outcome.fail(f"exit status {done.status}: {done.tail()}")
        return
    run, rows = read_run(folder)
    outcome.expect("status", run["status"], "done")
    outcome.expect("exit_code", run["exit_code"], 0)
    outcome.expect("world_size", run["world_size"], ranks)
    outcome.expect("strategy", run["strategy"], strategy)
    outcome.expect("precision", run["precision"], precision)
    outcome.expect("steps", run["global_step"], max(row["step"] for row in rows) + 1)
    outcome.expect("length of parameters_sha256", len(run["parameters_sha256"]), 64)
    for name, value in run["metrics"].items():
        last = next((row[name] for row in reversed(rows) if row.get(name) is not None), None)
        outcome.expect(f"run.json's {name}", value, last)
    for text in says:
        if text not in done.output:
            outcome.fail(f"the log does not say {text!r}")
    losses = [row["train_loss"] for row in rows if row.get("train_loss") is not None]
    quarter = max(1, len(losses) // 4)
    first, last = sum(losses[:quarter]) / quarter, sum(losses[-quarter:]) / quarter
    outcome.figure("samples", run["samples_per_second"], "/s")
    outcome.figure("loss at the beginning", first)
    outcome.figure("loss at the end", last)
    if not (math.isfinite(last) and last < 0.9 * first):
        outcome.fail(f"train_loss went from {first:.4f} to {last:.4f}")
