"""What the scripts in this folder have in common: how a training of several ranks is started, and who takes part in it."""

import os
import pathlib


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
    """The ranks of the training that writes below this folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(bytes(program)) and bytes(root) in words:
            found.append(int(process.name))
    return sorted(found)


def newest_run(root):
    """The folder of the newest run: one that was killed before its first checkpoint began anew, in another."""
    return max((root / "cxtrain_logs").iterdir(), key=lambda path: int(path.name.split("_")[1]))
