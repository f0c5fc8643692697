"""PyTorch Lightning's Trainer, or a plain PyTorch loop (--plain), with a stopwatch: prints the same JSON line as
bench_floor_loop and bench_trainer_loop. The clock is read when the device has done its work.

    python3 benchmarks/lightning_loop.py --model gpt --data bible-kjv.txt --batch 16 --steps 200 --warmup 40 --device cuda
"""

import argparse
import json
import tempfile
import time
import warnings

import torch

from torch_models import add_work_arguments, make_work


def read_options():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_work_arguments(parser)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=40)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--bf16", action="store_true", help="bf16-mixed")
    parser.add_argument("--workers", type=int, default=0, help="processes that prepare batches")
    parser.add_argument("--plain", action="store_true", help="no Lightning")
    return parser.parse_args()


class Stopwatch:
    def __init__(self, options):
        self.options, self.begin, self.end = options, 0.0, 0.0

    def step_is_done(self, steps):
        if steps not in (self.options.warmup, self.options.steps):
            return
        if self.options.device == "cuda":
            torch.cuda.synchronize()
        if steps == self.options.warmup:
            self.begin = time.perf_counter()
        else:
            self.end = time.perf_counter()

    def report(self, loss):
        step = (self.end - self.begin) / (self.options.steps - self.options.warmup)
        print(json.dumps({"step_us": step * 1e6, "samples_per_second": self.options.batch / step, "loss": loss}))


def loader(options, samples):
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*samples),
        options.batch,
        shuffle=True,
        drop_last=True,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
        pin_memory=options.device == "cuda",
    )


def plain(options, model, samples, stopwatch):
    model.to(options.device)
    optimizer = model.optimizer(fused=True)
    steps = 0
    while steps < options.steps:
        for batch in loader(options, samples):
            batch = [part.to(options.device, non_blocking=True) for part in batch]
            with torch.autocast(options.device, torch.bfloat16, enabled=options.bf16):
                loss = model.loss(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            stopwatch.step_is_done(steps)
            if steps == options.steps:
                break
    return loss.item()


def with_lightning(options, model, samples, stopwatch):
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, index):
            loss = self.model.loss(batch)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return self.model.optimizer(fused=True)

    class Clock(lightning.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, index):
            stopwatch.step_is_done(trainer.global_step)
            self.loss = outputs["loss"]

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="gpu" if options.device == "cuda" else "cpu",
            devices=1,
            precision="bf16-mixed" if options.bf16 else "32-true",
            max_steps=options.steps,
            max_epochs=-1,
            callbacks=[clock],
            logger=lightning.pytorch.loggers.CSVLogger(folder),
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Model(), loader(options, samples))
    return clock.loss.item()


def main():
    options = read_options()
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    model, samples = make_work(options)
    stopwatch = Stopwatch(options)
    train = plain if options.plain else with_lightning
    stopwatch.report(train(options, model, samples, stopwatch))


if __name__ == "__main__":
    main()
