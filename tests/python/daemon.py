"""A telensord of a test's own, in a folder of its own, and programs that use it."""

import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time

PATIENCE = 60  # seconds that anything may take before a test gives up; nothing here waits that long when all is well


def program():
    """The telensord under test."""
    return os.environ["TELENSORD"]


def environment(**extra):
    """The environment without settings of the caller's that a server or client would heed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TELENSOR_") and k != "XDG_RUNTIME_DIR"}
    return {**env, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def until(condition, what, patience=PATIENCE):
    """Waits for a condition, and gives its value back."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {patience} s: {what() if callable(what) else what}"
        time.sleep(0.005)


def state(folder):
    """R, S, T ... of a process or thread, by its folder in /proc."""
    with open(f"{folder}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def alive(pid):
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return state(f"/proc/{pid}") not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def resident_bytes(pid):
    """What a process has in memory."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def accepts(path):
    """Whether somebody listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(str(path))
        except OSError:
            return False
        return True


class Ended:
    """A process that ends with its `with`, stopped or not."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid


class Daemon(Ended):
    """A server process; `with` ends it. Started with `wait=False` it may as well refuse to start."""

    def __init__(self, folder, *flags, env=None, wait=True, threads=1):
        self.folder = pathlib.Path(folder)
        self.socket = self.folder / "run" / "telensord.sock"
        self.log_file = self.folder / f"log-{time.monotonic_ns()}"
        command = [program(), "--socket", str(self.socket), "--threads", str(threads), *map(str, flags)]
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(command, env=environment(**(env or {})), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        if wait:
            until(lambda: self.process.poll() is not None or "listens on" in self.log(), "the server's start")
            assert self.process.poll() is None, self.log()

    @property
    def address(self):
        return f"unix:{self.socket}"

    def log(self):
        return self.log_file.read_text(errors="replace")

    def signal(self, number):
        """Sends a signal; SIGSTOP has stopped every thread when this returns."""
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            tasks = f"/proc/{self.process.pid}/task"
            until(lambda: all(state(f"{tasks}/{task}") == "T" for task in os.listdir(tasks)), "the stop")

    def wait(self):
        """The exit status."""
        return self.process.wait(PATIENCE)


class Program(Ended):
    """A Python program with a session of its own. It prints what it finds; `line` reads that, `say` answers."""

    def __init__(self, script, address=None, env=None):
        extra = dict(env or {})
        if address is not None:
            extra["TELENSOR_ADDR"] = address
        prelude = "import os, signal, sys, threading, time\nimport telensor as torch\ncore = torch._core\n"
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", prelude + textwrap.dedent(script)], env=environment(**extra), cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._out = b""

    def __exit__(self, *_):
        super().__exit__()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def line(self, patience=PATIENCE):
        """The next line the program prints, within a time."""
        deadline = time.monotonic() + patience
        while b"\n" not in self._out:
            left = deadline - time.monotonic()
            assert left > 0, f"the program said nothing for {patience} s"
            if select.select([self.process.stdout], [], [], left)[0]:
                got = os.read(self.process.stdout.fileno(), 65536)
                assert got, f"the program ended with {self.process.wait()}: {self.process.stderr.read().decode()}"
                self._out += got
        line, _, self._out = self._out.partition(b"\n")
        return line.decode()

    def say(self, words=""):
        self.process.stdin.write(f"{words}\n".encode())
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self, status=0):
        """Waits for the end; what was printed since the last `line`."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == status, f"exit status {self.process.returncode}\n{self._out + out}\n{err.decode()}"
        return (self._out + out).decode()


def run(script, address=None, env=None, status=0):
    """Runs a program to its end and gives what it printed."""
    with Program(script, address, env) as client:
        return client.end(status)
