"""What the scripts in this folder have in common: how a training of several ranks is started, and who takes part in it."""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys

NODES = pathlib.Path(__file__).resolve().parents[1] / "support" / "nodes.sh"


def environment():
    """Ranks on one machine, also as root and with more ranks than cores."""
    return dict(
        os.environ,
        OMP_NUM_THREADS="1",
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
    )


def launcher(ranks):
    """The words before the program's."""
    return ["mpirun", "-np", str(ranks), "--bind-to", "none"] if ranks > 1 else []


def processes(program, root):
    """The ranks of the training that writes below this folder; with an empty program everything that has the folder on its command line."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(bytes(program)) and bytes(root) in words:
            found.append(int(process.name))
    return sorted(found)


@contextlib.contextmanager
def emulated_nodes(count, *rate):
    """So many emulated nodes, with links of a rate such as "100mbit", or without a limit."""
    subprocess.run([NODES, "up", str(count), *rate], check=True)
    try:
        yield
    finally:
        subprocess.run([NODES, "down"], check=True)


def set_rate(node, rate):
    """Gives the links of an emulated node another rate."""
    subprocess.run([NODES, "rate", f"n{node}", rate], check=True)


def hosts_of(nodes, ranks=1):
    """So many nodes with so many ranks on each, as mpirun takes them: "n1:2,n2:2"."""
    return ",".join(f"n{node + 1}:{ranks}" for node in range(nodes))


def train_on_nodes(program, hosts, options, root):
    """Trains on emulated nodes, "n1:2,n2:2", below this folder. Returns the run's folder."""
    ranks = sum(int(host.split(":")[1]) for host in hosts.split(","))
    command = [NODES, "mpirun", "-H", hosts, "-np", str(ranks), program, "fit", "--accelerator", "cpu", "--enable_progress_bar", "false"]
    command += ["--max_epochs", "-1", "--limit_val_batches", "0", "--default_root_dir", root, *options]
    run = subprocess.run([str(word) for word in command], env=environment(), capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        sys.exit(f"{hosts} {' '.join(map(str, options))}: status {run.returncode}\n{run.stdout}{run.stderr}")
    return newest_run(root)


def study_on_nodes(program, folder, nodes, rounds, options):
    """A study of one rank on each of so many emulated nodes. Returns the content of scaling.json."""
    folder.mkdir()
    sizes = [{"ranks": each, "nodes": each} for each in nodes]
    (folder / "study.json").write_text(json.dumps({"mode": "weak", "sizes": sizes, "repeats": rounds}))
    for round_ in range(1, rounds + 1):
        for each in random.Random(round_).sample(nodes, len(nodes)):
            train_on_nodes(program, hosts_of(each), [*options, "--profiler", "simple"], folder / "points" / f"r{each}-n{each}-k{round_}")
    subprocess.run([program, "scaling", "collect", "--from", folder], check=True, stdout=subprocess.DEVNULL)
    return json.loads((folder / "scaling.json").read_text())


def newest_run(root):
    """The folder of the newest run: one that was killed before its first checkpoint began anew, in another."""
    return max((root / "cxtrain_logs").iterdir(), key=lambda path: int(path.name.split("_")[1]))
