"""Seconds to import the package, and to a first result from a private server, each in fresh processes.

    tests/bench/startup.py [--rounds 9]

Prints medians. "First result" is the whole program: the interpreter's start, the import, the server's start, one op
and the read of it.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

IMPORT = "import time; s = time.perf_counter(); import telensor; print(time.perf_counter() - s)"
RESULT = "import telensor as torch; torch.ones(3).sum().item()"
NOTHING = "pass"


def run(program):
    env = {k: v for k, v in os.environ.items() if k != "TELENSOR_ADDR"}
    start = time.perf_counter()
    said = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True).stdout
    return float(said) if said else time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    run(RESULT)
    for name, program in (("import", IMPORT), ("first result, private server", RESULT), ("an empty program", NOTHING)):
        print(f"{name:<32}{statistics.median(run(program) for _ in range(rounds)):>8.3f} s")


if __name__ == "__main__":
    main()
