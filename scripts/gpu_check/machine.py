"""The machine that is checked: its GPUs, the programs, and how they are started."""

import fcntl
import json
import os
import pathlib
import pty
import signal
import struct
import subprocess
import termios
import time

from report import NotMeasurable


class Finished:
    """A program that has ended. `status`: as a shell has it, 124 where it ran out of time."""

    def __init__(self, status, output, seconds):
        self.status, self.output, self.seconds = status, output, seconds

    def tail(self, characters=400):
        return " ".join(self.output.split())[-characters:]


class Running:
    """A program that runs beside the checks, in a session of its own, its output in a file."""

    def __init__(self, command, log, env):
        self.log, self.begin = pathlib.Path(log), time.monotonic()
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )

    def wait(self, seconds):
        try:
            status = self.process.wait(seconds)
            status = 128 - status if status < 0 else status
        except subprocess.TimeoutExpired:
            status = 124
        taken = time.monotonic() - self.begin
        self.end()
        return Finished(status, self.log.read_text(errors="replace"), taken)

    def end(self):
        """Ends all that is left of it: whatever is of its session, also ranks that are stopped."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                session = int((process / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self.process.pid:
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:  # it has ended meanwhile
                pass
        self.process.wait()


class Machine:
    def __init__(self, options, work):
        self.options, self.work = options, pathlib.Path(work)
        self.rehearse = options.rehearse
        self.bin, self.root = pathlib.Path(options.bin), pathlib.Path(options.root)
        self.gpus, self.no_gpu = [], None
        self.folders = 0

    def size(self, real, tiny):
        """The first on a GPU, the second where it is rehearsed on a CPU."""
        return tiny if self.rehearse else real

    def program(self, name="cxtrain_mpi"):
        path = self.bin / name
        if not path.exists():
            raise NotMeasurable(f"{path} is not there")
        return str(path)

    def plugin(self, name):
        """A plugin that only checks have."""
        return str(self.root / "lib" / "gpu_check" / f"{name}.so")

    def folder(self):
        """A new one."""
        self.folders += 1
        path = self.work / str(self.folders)
        path.mkdir()
        return path

    def env(self, gpus=1, **more):
        """This environment; programs see the first so many of the GPUs."""
        env = dict(os.environ, **more)
        if self.rehearse:
            env["OMP_NUM_THREADS"] = "1"
        if self.gpus:
            shown = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(len(self.gpus))))
            env["CUDA_VISIBLE_DEVICES"] = ",".join(shown.split(",")[:gpus])
        return env

    def start(self, command, gpus=1, **env):
        return Running(command, self.folder() / "log", self.env(gpus, **env))

    def run(self, command, seconds=240, gpus=1, **env):
        return self.start(command, gpus, **env).wait(seconds)

    def run_on_terminal(self, command, seconds=240):
        """The same on a terminal of its own, for programs that look for one."""
        log = self.folder() / "log"
        terminal, its_end = pty.openpty()
        fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("4H", 25, 100, 0, 0))
        begin = time.monotonic()
        with open(log, "wb") as out:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=its_end,
                stdout=out,
                stderr=its_end,
                env=self.env(TERM="xterm"),
                start_new_session=True,
            )
        os.close(its_end)
        os.set_blocking(terminal, False)
        while process.poll() is None and time.monotonic() - begin < seconds:
            try:
                os.read(terminal, 1 << 16)
            except OSError:
                time.sleep(0.01)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
        os.close(terminal)
        return Finished(status, log.read_text(errors="replace"), time.monotonic() - begin)

    def mpirun(self, ranks, bind_to="none"):
        return [self.options.mpirun, "-np", str(ranks), "--oversubscribe", "--bind-to", bind_to]

    def fit(self, *options, folder=None):
        """cxtrain_mpi on this machine's devices, and the folder that its runs go to."""
        folder = folder or self.folder()
        accelerator = "cpu" if self.rehearse else "gpu"
        own = ["fit", "--accelerator", accelerator, "--default_root_dir", str(folder)]
        return [self.program(), *own, *map(str, options)]

    def find_gpus(self):
        """Asks CUDA's run time, by gpu_bench, which GPUs there are; why there is none is in `no_gpu`."""
        found = self.measured(self.run([self.program("gpu_bench"), "devices"], gpus=0))
        self.no_gpu = found.get("not_measurable")
        self.gpus = found.get("devices", [])

    def measured(self, finished):
        """The line of JSON that gpu_bench ends with."""
        lines = [line for line in finished.output.splitlines() if line.startswith('{"')]
        if finished.status != 0 or not lines:
            raise RuntimeError(f"gpu_bench ended with status {finished.status}: {finished.tail()}")
        return json.loads(lines[-1])

    def figures(self, finished):
        """gpu_bench's figures by name, each a value and a unit."""
        found = self.measured(finished)
        if "not_measurable" in found:
            raise NotMeasurable(found["not_measurable"])
        return {name: (figure["value"], figure["unit"]) for name, figure in found["figures"].items()}

    def bench(self, name):
        device = ["--device", "cpu", "--tiny", "1"] if self.rehearse else ["--device", "cuda"]
        return self.figures(self.run([self.program("gpu_bench"), *device, name]))

    def data_file(self, name):
        """A file of data that comes with the program."""
        for folder in self.options.data_folders.split(":"):
            if (pathlib.Path(folder) / name).is_file():
                return pathlib.Path(folder) / name
        raise NotMeasurable(f"{name} is not in {self.options.data_folders}")
