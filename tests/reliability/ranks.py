"""What the scripts in this folder have in common: how a training of several ranks is started, and who takes part in it."""

import os
import pathlib
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


def train_on_nodes(program, hosts, options, root):
    """Trains on emulated nodes, "n1:2,n2:2", below this folder. Returns the run's folder."""
    ranks = sum(int(host.split(":")[1]) for host in hosts.split(","))
    command = [NODES, "mpirun", "-H", hosts, "-np", str(ranks), program, "fit", "--accelerator", "cpu", "--enable_progress_bar", "false"]
    command += ["--max_epochs", "-1", "--limit_val_batches", "0", "--default_root_dir", root, *options]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        sys.exit(f"{hosts} {' '.join(map(str, options))}: status {run.returncode}\n{run.stdout}{run.stderr}")
    return newest_run(root)


def newest_run(root):
    """The folder of the newest run: one that was killed before its first checkpoint began anew, in another."""
    return max((root / "cxtrain_logs").iterdir(), key=lambda path: int(path.name.split("_")[1]))
