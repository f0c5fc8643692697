"""3: the host does not wait for the GPU within a step."""

from checks import check

MODELS = {
    "digits": ["--model", "digits", "--max_steps", 36],
    "gpt": ["--model", "gpt", "--model.sample_bytes", "0", "--max_steps", "36"],
}
COMMON = ["--accelerator", "gpu", "--strategy", "single", "--precision", "16-mixed", "--gradient_clip_val", "1"]
COMMON += ["--log_every_n_steps", "1000", "--max_epochs", "-1", "--limit_val_batches", "0"]


def waits(machine, options, bar):
    command = [machine.program("gpu_bench"), "waits", *COMMON, *map(str, options)]
    command += ["--default_root_dir", machine.folder(), "--enable_progress_bar", "true" if bar else "false"]
    done = machine.run_on_terminal(command) if bar else machine.run(command)
    figures = machine.figures(done)
    return figures["waits"][0], figures["steps"][0]


def bar_off(name, options):
    @check(3, f"steps without waiting: {name}", "in 30 steps of 16-mixed with clipping no call waits for the GPU")
    def measured(machine, outcome):
        count, steps = waits(machine, options, bar=False)
        outcome.at_least("steps", steps, 30)
        outcome.at_most("waits", count, 0)


def bar_on(name, options):
    @check(3, f"steps with a progress bar: {name}", "at most a wait a step, for what the bar shows", needs="gpu")
    def measured(machine, outcome):
        count, steps = waits(machine, options, bar=True)
        outcome.at_least("steps", steps, 30)
        outcome.at_most("waits a step", count / max(steps, 1), 1)


for each in MODELS.items():
    bar_off(*each)
for each in MODELS.items():
    bar_on(*each)
