"""The command `telensor`: what a server is doing, and what is wrong when there is none.

    telensor status [--addr ADDRESS] [--json]    devices, memory, uptime of a server
    telensor doctor [--addr ADDRESS]             checks everything between this program and a device
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys


def version():
    try:
        return importlib.metadata.version("telensor")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def default_socket():
    """Where telensord listens unless it is told otherwise: server/config.cc says the same."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return f"{runtime}/telensor/telensord.sock"
    return f"/tmp/telensor-{os.getuid()}/telensord.sock"


def knock(address, timeout=2.0):
    """Why nobody answers at an address; None where somebody does."""
    if address.startswith("unix:"):
        family, target = socket.AF_UNIX, address.removeprefix("unix:")
    else:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            return "neither unix:/PATH nor HOST:PORT"
        family, target = (socket.AF_INET6 if ":" in host else socket.AF_INET), (host.strip("[]"), int(port))
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(timeout)
            s.connect(target)
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def find_address(given):
    """The server to ask, and who named it; (None, ...) where none is running."""
    if given:
        return given, "--addr"
    named = os.environ.get("TELENSOR_ADDR")
    if named:
        return named, "TELENSOR_ADDR"
    address = "unix:" + default_socket()
    return (address if knock(address) is None else None), "the default socket"


def find_server():
    """The telensord that a private server would be started from."""
    named = os.environ.get("TELENSORD")
    if named:
        return named if os.access(named, os.X_OK) else None
    beside = os.path.join(os.path.dirname(sys.executable), "telensord")
    return beside if os.access(beside, os.X_OK) else shutil.which("telensord")


def fetch(address):
    """A server's status, as telensor._core gives it; `address` None starts a private server."""
    import telensor
    from telensor import _core

    if address is not None:
        telensor.connect(address)
    return _core._status()


def human(n):
    """12345678 -> '11.8 MiB'"""
    value, units = float(n), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def duration(seconds):
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{n} {unit}" for n, unit in parts[:2])


def print_status(address, status, out=None):
    out = out or sys.stdout
    print(f"telensord {status['version']} at {address}, up {duration(status['uptime_s'])}", file=out)
    rows = [(d["name"], human(d["total_memory"]), d["description"]) for d in status["devices"]]
    widths = [max(len(row[i]) for row in rows) for i in range(2)] if rows else [0, 0]
    for name, memory, description in rows:
        print(f"  {name:<{widths[0]}}  {memory:>{widths[1]}}  {description}", file=out)
    memory = status.get("memory", {})
    for label, key in (("allocated", "allocated_bytes.all.current"), ("peak", "allocated_bytes.all.peak"),
                       ("reserved", "reserved_bytes.all.current")):
        if key in memory:
            print(f"  {label:<10} {human(memory[key])}", file=out)
    for backend in status.get("backends", []):
        if ": no device: " in backend:
            print(f"  {backend}", file=out)


def status_command(args):
    address, source = find_address(args.addr)
    if address is None:
        print(f"no server listens on {default_socket()}. Programs start a private one by themselves; a lasting one is "
              "started with: telensord", file=sys.stderr)
        return 1
    reason = knock(address)
    if reason is not None:
        print(f"no server answers at {address} ({source}): {reason}", file=sys.stderr)
        return 1
    status = fetch(address)
    if args.json:
        json.dump({"address": address, **status}, sys.stdout, indent=2)
        print()
    else:
        print_status(address, status)
    return 0


class Doctor:
    def __init__(self):
        self.failures = 0

    def good(self, words):
        print(f"  ok    {words}")

    def note(self, words):
        print(f"  note  {words}")

    def bad(self, words, remedy):
        self.failures += 1
        print(f"  FAIL  {words}\n        {remedy}")

    def check_package(self):
        try:
            from telensor import _core  # noqa: F401
        except ImportError as error:
            self.bad(f"the extension telensor._core cannot be loaded: {error}",
                     "install the package again: pip install --force-reinstall telensor")
            return False
        self.good(f"telensor {version()}, Python {platform.python_version()}, {platform.platform()}")
        try:
            import numpy
            self.good(f"numpy {numpy.__version__}")
        except ImportError:
            self.note("numpy is not installed: from_numpy() and .numpy() will not work")
        return True

    def check_server_program(self):
        program = find_server()
        if program is None:
            if os.environ.get("TELENSORD"):
                self.bad(f"TELENSORD={os.environ['TELENSORD']} is no program that may be run", "correct or unset it")
            else:
                self.note("telensord is not on the PATH: a private server cannot be started")
            return False
        try:
            run = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            self.bad(f"{program} does not run: {error}", "build it again, and look at what `ldd` says of it")
            return False
        self.good(f"{program}, version {run.stdout.strip()}")
        return True

    def check_server(self, given, can_start):
        address, source = find_address(given)
        if address is not None:
            reason = knock(address)
            if reason is not None:
                self.bad(f"nobody answers at {address} ({source}): {reason}",
                         "start telensord there, or name another server with TELENSOR_ADDR or --addr")
                return
            self.good(f"a server listens at {address} ({source})")
        elif not can_start:
            self.bad(f"no server listens on {default_socket()}, and none can be started",
                     "put telensord on the PATH, or name a server with TELENSOR_ADDR")
            return
        else:
            self.note(f"no server listens on {default_socket()}: a private one is started")
        try:
            status = fetch(address)
        except Exception as error:  # whatever it is, it is what the user is here for
            self.bad(f"no session could be opened: {error}",
                     "run telensord with --log-level debug and look at what it says")
            return
        self.good(f"it answers: telensord {status['version']}, up {duration(status['uptime_s'])}")
        if status["version"] != version():
            self.note(f"the versions differ: this client is {version()}")
        for backend in status.get("backends", []):
            if ": no device: " in backend:
                self.note(backend)
            else:
                self.good(backend)

    def check_compute(self):
        try:
            import telensor

            value = (telensor.ones(2, 2) + 1).sum().item()
        except Exception as error:
            self.bad(f"a sum cannot be computed: {error}", "look at the server's log")
            return
        if value == 8:
            self.good("ones(2, 2) + 1 sums to 8")
        else:
            self.bad(f"ones(2, 2) + 1 sums to {value}, not 8", "the server computes wrongly: report this")


def doctor_command(args):
    doctor = Doctor()
    if doctor.check_package():
        can_start = doctor.check_server_program()
        before = doctor.failures
        doctor.check_server(args.addr, can_start)
        if doctor.failures == before:
            doctor.check_compute()
    print("all is well" if doctor.failures == 0 else f"{doctor.failures} problem(s)")
    return 1 if doctor.failures else 0


def main(argv=None):
    parser = argparse.ArgumentParser(prog="telensor", description="A tensor runtime in a daemon.")
    parser.add_argument("--version", action="version", version=f"telensor {version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status", help="devices, memory and uptime of a server")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=status_command)
    doctor = commands.add_parser("doctor", help="checks everything between this program and a device")
    doctor.set_defaults(run=doctor_command)
    for command in (status, doctor):
        command.add_argument("--addr", help="unix:/PATH or HOST:PORT; else TELENSOR_ADDR; else the default socket")
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except (RuntimeError, OSError) as error:
        print(f"telensor: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
