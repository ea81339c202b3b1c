"""Cost of one small op from Python, as ratios to local PyTorch in the same run.

    tests/bench/dispatch.py [--rounds 7]

Needs Debian's python3-torch in the same environment (build/venv has it). Prints medians of the rounds; both sides
alternate within a round. Run it on a quiet machine.
"""

import argparse
import statistics
import time

import telensor
import torch


def issue(module, n, wait):
    """ns for one `z = x + y` of 16 floats, n in a row, the release of the old z included; client side only."""
    x, y = module.randn(16), module.randn(16)
    wait()
    start = time.perf_counter()
    for _ in range(n):
        z = x + y
    taken = time.perf_counter() - start
    wait()
    return taken / n * 1e9


def chain(module, n, requires_grad):
    """ns for one of n chained adds of 16 floats, one final read included."""
    x, y = module.randn(16).requires_grad_(requires_grad), module.randn(16)
    z = x
    x.tolist()
    start = time.perf_counter()
    for _ in range(n):
        z = z + y
    z.tolist()
    return (time.perf_counter() - start) / n * 1e9


def op_and_read(n):
    """us for one add and the read of its result."""
    x, y = telensor.randn(16), telensor.randn(16)
    times = []
    for _ in range(n):
        start = time.perf_counter()
        (x + y).tolist()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    nothing = lambda: None
    rows = {"issue": [], "chain of 10,000": [], "chain with requires_grad": []}
    issue(telensor, 4096, telensor.synchronize)
    chain(telensor, 10000, False)
    for _ in range(rounds):
        rows["issue"].append((issue(telensor, 4096, telensor.synchronize), issue(torch, 4096, nothing)))
        rows["chain of 10,000"].append((chain(telensor, 10000, False), chain(torch, 10000, False)))
        rows["chain with requires_grad"].append((chain(telensor, 10000, True), chain(torch, 10000, True)))
    print(f"{'ns per op':<26}{'telensor':>10}{'torch':>10}{'ratio':>8}")
    for name, pairs in rows.items():
        mine, theirs = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name:<26}{mine:>10.0f}{theirs:>10.0f}{ratio:>8.2f}")
    print(f"one op and a read of it: {op_and_read(3000):.1f} us")


if __name__ == "__main__":
    main()
