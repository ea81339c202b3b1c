"""What the training step of examples/fashion_mnist.py costs, with its net and its data.

    tests/bench/training.py step                  blocked round trips and device allocations of a step
    tests/bench/training.py memory [--steps N]    memory of the daemon over N steps
    tests/bench/training.py speed [--rounds N]    images/s beside local PyTorch: the example itself, in turns

`speed` needs Debian's python3-torch in the same environment (build/venv has it). Both sides get the same threads.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "fashion_mnist.py"


class Daemon:
    """A telensord of this benchmark's own, whose memory can be watched."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        socket = f"{self.folder.name}/telensord.sock"
        program = os.environ.get("TELENSORD", "telensord")
        self.process = subprocess.Popen([program, "--socket", socket, "--log-level", "warn"])
        for _ in range(400):
            if os.path.exists(socket):
                break
            time.sleep(0.05)
        os.environ["TELENSOR_ADDR"] = f"unix:{socket}"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def resident(self):
        """MiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def load_example():
    argv, sys.argv = sys.argv, [str(EXAMPLE)]
    try:
        spec = importlib.util.spec_from_file_location("fashion_mnist", EXAMPLE)
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
    finally:
        sys.argv = argv
    return example


class Trainer:
    """The example's net, optimizer and step, on batches of one size."""

    def __init__(self, batch):
        self.example = load_example()
        torch = self.torch = self.example.torch
        torch.manual_seed(0)
        self.model = self.example.Net()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        images = self.example.load("train", limit=batch * 16)
        self.batches = list(self.example.DataLoader(images, batch_size=batch))

    def step(self, i):
        images, labels = self.batches[i % len(self.batches)]
        loss = self.example.F.cross_entropy(self.model(self.example.normalized(images)), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss

    def stats(self):
        from telensor import _core

        return self.torch.session_stats()["blocked_round_trips"], _core._status()["memory"]["num_device_alloc"]


def step(args):
    with Daemon():
        trainer = Trainer(128)
        trainer.step(0).item()
        waits, allocations = trainer.stats()
        for i in range(1, 101):
            trainer.step(i).item()
        more_waits, more_allocations = trainer.stats()
        print(f"100 steps after the first, each loss read: {more_waits - waits} blocked round trips, "
              f"{more_allocations - allocations} device allocations")


def memory(args):
    with Daemon() as daemon:
        trainer = Trainer(16)
        seen, loss = [], None
        for i in range(args.steps + 1):
            loss = trainer.step(i)
            if i % 1000 == 0:
                loss = loss.item()
                seen.append(daemon.resident())
                print(f"step {i:>6}: {seen[-1]:8.1f} MiB, loss {loss:.4f}", flush=True)
        later = seen[1:]
        print(f"after the first 1,000 of {args.steps:,} steps: {min(later):.1f} to {max(later):.1f} MiB, "
              f"last less first {later[-1] - later[0]:+.1f} MiB")


def images_per_second(backend, threads):
    command = [sys.executable, str(EXAMPLE), "--backend", backend, "--limit", "12800", "--epochs", "1", "--json",
               "--threads", str(threads)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(said)["epochs"][0]["images_per_s"]


def speed(args):
    threads = args.threads or len(os.sched_getaffinity(0))
    pairs = []
    for _ in range(args.rounds):
        pairs.append((images_per_second("telensor", threads), images_per_second("torch", threads)))
        print("telensor {:,.0f} images/s, torch {:,.0f}".format(*pairs[-1]), flush=True)
    mine, theirs = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{threads} threads: telensor {mine:,.0f} images/s, torch {theirs:,.0f}, ratio {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("step").set_defaults(run=step)
    command = commands.add_parser("memory")
    command.add_argument("--steps", type=int, default=20000)
    command.set_defaults(run=memory)
    command = commands.add_parser("speed")
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--threads", type=int)
    command.set_defaults(run=speed)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
