#!/usr/bin/env python3
"""Trains a small convolutional network on Fashion-MNIST.

    python3 examples/fashion_mnist.py --epochs 3
    python3 examples/fashion_mnist.py --address localhost:7070     on somebody's GPU
    python3 examples/fashion_mnist.py --backend torch              the same code on a local PyTorch

The data is Debian's package dataset-fashion-mnist: apt-get install dataset-fashion-mnist
"""

import argparse
import gzip
import json
import os
import struct
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--lr", type=float, default=2e-3, help="at the start; it falls to a hundredth of that")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--limit", type=int, help="use only the first LIMIT training images")
parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="where the four .gz files are")
parser.add_argument("--address", help="the telensor server; by default TELENSOR_ADDR, or a private one")
parser.add_argument("--threads", type=int, help="CPU threads of a private server, or of PyTorch")
parser.add_argument("--backend", choices=["telensor", "torch"], default="telensor")
parser.add_argument("--json", action="store_true", help="print a summary as JSON, and all else to stderr")
args = parser.parse_args()

if args.threads:
    os.environ["OMP_NUM_THREADS"] = str(args.threads)  # before a library or a server reads it

import numpy as np  # noqa: E402

if args.backend == "torch":
    import torch
else:
    import telensor as torch

nn = torch.nn
F = torch.nn.functional
DataLoader = torch.utils.data.DataLoader
TensorDataset = torch.utils.data.TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(64 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):  # (N, 1, 28, 28) -> (N, 10)
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout(F.relu(self.fc1(x.flatten(1))))
        return self.fc2(x)


def read_idx(name):
    """An array out of an IDX file: two zero bytes, a type (8: uint8), the rank, the sizes, the numbers."""
    path = os.path.join(args.data, name)
    try:
        with gzip.open(path) as file:
            data = file.read()
    except FileNotFoundError:
        sys.exit(f"{path} is not there.\nInstall the data with:  sudo apt-get install dataset-fashion-mnist\n"
                 "or name its folder with --data")
    zero, kind, rank = struct.unpack_from(">HBB", data)
    if zero != 0 or kind != 8:
        sys.exit(f"{path} is no IDX file of bytes")
    shape = struct.unpack_from(f">{rank}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load(part, limit=None):
    # The images stay bytes, and become floats a batch at a time: a quarter of the memory.
    images = read_idx(f"{part}-images-idx3-ubyte.gz")[:limit, None]
    labels = read_idx(f"{part}-labels-idx1-ubyte.gz")[:limit].astype(np.int64)
    return TensorDataset(torch.from_numpy(images.copy()).to(device), torch.from_numpy(labels).to(device))


def normalized(images):
    """Bytes as float32 of mean 0 and deviation 1 over the training images."""
    return (images.float() / 255 - 0.286) / 0.353


class Progress:
    """A bar on a terminal; nothing where the output is no terminal."""

    def __init__(self, title, steps):
        self.title, self.steps, self.shown = title, steps, sys.stderr.isatty()

    def due(self, step):
        return self.shown and (step % 25 == 0 or step == self.steps)

    def update(self, step, loss):
        full = 30 * step // self.steps
        print(f"\r{self.title} [{'#' * full}{'.' * (30 - full)}] {step}/{self.steps} loss {loss:.4f}", end="",
              file=sys.stderr, flush=True)

    def close(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def train(model, loader, optimizer, schedule, epoch):
    model.train()
    total = torch.zeros((), device=device)
    bar = Progress(f"epoch {epoch}", len(loader))
    for step, (images, labels) in enumerate(loader, 1):
        loss = F.cross_entropy(model(normalized(images)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        # The sum stays on the device: reading the loss here would make every step wait.
        total += loss.detach() * len(labels)
        if bar.due(step):
            bar.update(step, loss.item())
    bar.close()
    return total.item() / len(loader.dataset)


@torch.no_grad()
def test(model, loader):
    model.eval()
    correct = torch.zeros((), dtype=torch.int64, device=device)
    for images, labels in loader:
        correct += (model(normalized(images)).argmax(1) == labels).sum()
    return correct.item() / len(loader.dataset)


def main():
    say = sys.stderr if args.json else sys.stdout
    torch.manual_seed(args.seed)
    train_set, test_set = load("train", args.limit), load("t10k")
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=1000)
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=args.epochs * len(train_loader))
    print(f"{args.backend} {torch.__version__} on {device}: {len(train_set):,} images, "
          f"{sum(p.numel() for p in model.parameters()):,} parameters", file=say, flush=True)

    epochs = []
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        loss = train(model, train_loader, optimizer, schedule, epoch)
        speed = len(train_set) / (time.perf_counter() - start)
        accuracy = test(model, test_loader)
        epochs.append({"loss": loss, "accuracy": accuracy, "images_per_s": speed})
        print(f"epoch {epoch}: loss {loss:.4f}, test accuracy {accuracy:.2%}, {speed:,.0f} images/s", file=say,
              flush=True)

    steps = args.epochs * len(train_loader)
    summary = {"backend": args.backend, "device": str(device), "batch_size": args.batch_size, "steps": steps,
               "epochs": epochs}
    if args.backend == "telensor":
        blocked = summary["blocked_round_trips"] = torch.session_stats()["blocked_round_trips"]
        print(f"{steps} steps; the program waited for the server {blocked} times", file=say)
    if args.json:
        print(json.dumps(summary))


if args.address and args.backend == "telensor":
    torch.connect(args.address)
if args.backend == "torch" and args.threads:
    torch.set_num_threads(args.threads)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

if __name__ == "__main__":
    main()
