"""How telensord starts: settings and where they come from, its socket, who may have it."""

import os
import signal
import socket
import subprocess
import sys

import pytest
import telensor
from daemon import PATIENCE, Daemon, accepts, environment, program, run, until


def telensord(*flags, **env):
    """Runs the server to its end: exit status, output, errors."""
    done = subprocess.run([program(), *map(str, flags)], env=environment(**env), capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def check(tmp_path, text, *flags):
    file = tmp_path / "telensord.toml"
    file.write_text(text)
    return telensord("--config", file, "--check-config", *flags)


def setting(output, name):
    """The value of a setting in what --print-config prints."""
    values = [line.split("=", 1)[1].strip() for line in output.splitlines() if line.split("=")[0].strip() == name]
    assert len(values) == 1, output
    return values[0].strip("'\"")


GOOD = """
[listen]
socket = "/run/user/1/x.sock"
[limits]
max_sessions = 3
[server]
drain_seconds = 1
[log]
format = "json"
"""


def test_good_settings(tmp_path):
    code, out, err = check(tmp_path, GOOD)
    assert (code, err) == (0, "") and "good" in out


def test_the_example_has_the_defaults(tmp_path):
    example = os.path.join(os.path.dirname(__file__), "../../deploy/telensord.toml")
    code, printed, err = telensord("--config", example, "--print-config")
    assert code == 0, err
    assert printed == telensord("--print-config")[1]


@pytest.mark.parametrize("text, words", [
    ("[limits]\nmax_sessions = 3\nmax_hands = 1\n", [":3:", "max_hands", "[limits]"]),
    ("\n\n[limitations]\nx = 1\n", [":3:", "limitations"]),
    ("x = 1\n", [":1:", "x"]),
    ("[limits]\nmax_sessions = \n", [":2:"]),
    ("[limits]\nmax_sessions = 'three'\n", [":2:", "max_sessions"]),
    ("[limits]\nmax_sessions = 1.5\n", [":2:", "max_sessions"]),
    ("[limits]\nmax_sessions = -1\n", [":2:", "max_sessions", "at least 0"]),
    ("[limits]\nmax_sessions = 0\n", ["limits must not be 0"]),
    ("[cpu]\nthreads = 5000000000\n", [":2:", "threads", "2147483647"]),
    ("[server]\ndrain_seconds = 99999999999\n", [":2:", "drain_seconds"]),
    ("[server]\nslice_us = 1\n", ["slice_us"]),
    ("[cuda]\nplugin = 'libtelensor_cuda.so'\n", ["cuda.plugin", "absolute"]),
    ("[cuda]\nrequired = 1\n", [":2:", "required"]),
    ("[log]\nlevel = 'loud'\n", ["log.level"]),
    ("[log]\nformat = 'xml'\n", ["log.format"]),
    ("[listen]\nsocket = 'relative.sock'\n", ["absolute", "relative.sock"]),
    (f"[listen]\nsocket = '/{'x' * 120}'\n", ["too long"]),
    ("[listen]\ntcp = '127.0.0.1:7070'\n", ["insecure-dev"]),
])
def test_bad_settings(tmp_path, text, words):
    code, out, err = check(tmp_path, text)
    assert code == 78 and out == "", (code, out, err)
    for word in words:
        assert word in err, err


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.168.1.1:7070", "example.com:1", "127.0.0.1.example.com:1",
                                     "127.1:1", ":7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000",
                                     "[::]:1", "::1:1"])
def test_tcp_only_on_loopback(address):
    code, _, err = telensord("--check-config", "--insecure-dev", "--tcp", address)
    assert code == 78 and "loopback" in err, (code, err)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.3.2.1:65535", "localhost:7070", "[::1]:1"])
def test_loopback(address):
    assert telensord("--check-config", "--insecure-dev", "--tcp", address)[0] == 0
    code, _, err = telensord("--check-config", "--tcp", address)
    assert code == 78 and "--insecure-dev" in err


def test_a_file_that_is_not_there(tmp_path):
    code, _, err = telensord("--check-config", "--config", tmp_path / "nothing.toml")
    assert code == 78 and "nothing.toml" in err


@pytest.mark.parametrize("flags", [["--threads", "many"], ["--threads", "-1"], ["--no-such-flag"], ["extra"]])
def test_wrong_arguments(flags):
    code, _, err = telensord(*flags, "--check-config")
    assert code in (2, 78) and err.strip(), (code, err)


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path):
    file = tmp_path / "telensord.toml"
    file.write_text("[cpu]\nthreads = 3\n[log]\nlevel = 'debug'\n[limits]\nmax_sessions = 5\n")

    def threads(*flags, **env):
        code, out, err = telensord("--print-config", *flags, **env)
        assert code == 0, err
        return setting(out, "threads"), setting(out, "level"), setting(out, "max_sessions")

    assert threads() == ("0", "info", "32")
    assert threads("--config", file) == ("3", "debug", "5")
    assert threads(TELENSOR_CONFIG=str(file)) == ("3", "debug", "5")
    assert threads("--config", file, TELENSOR_THREADS="2") == ("2", "debug", "5")
    assert threads("--config", file, "--threads", 1, TELENSOR_THREADS="2") == ("1", "debug", "5")
    assert threads("--config", file, "--log-level", "error", TELENSOR_LOG_LEVEL="off")[1] == "error"


def test_the_settings_printed_are_settings(tmp_path):
    code, out, _ = check(tmp_path, GOOD)
    printed = telensord("--config", tmp_path / "telensord.toml", "--print-config")[1]
    assert check(tmp_path, printed)[0] == 0
    assert telensord("--config", tmp_path / "telensord.toml", "--print-config")[1] == printed


def test_the_folder_is_made_for_this_user_alone(tmp_path):
    with Daemon(tmp_path) as server:
        assert server.socket.parent.stat().st_mode & 0o777 == 0o700
        assert server.socket.stat().st_mode & 0o077 == 0
        assert run("print(torch.ones(3).sum().item())", server.address) == "3.0\n"


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_open_to_others_is_refused(tmp_path, mode):
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    with Daemon(tmp_path, wait=False) as server:
        assert server.wait() == 77
        assert "0700" in server.log() and str(tmp_path / "run") in server.log()
        assert not server.socket.exists()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "run").write_text("a file")
    with Daemon(tmp_path, wait=False) as server:
        assert server.wait() == 69
        assert "not a folder" in server.log()


def test_what_is_no_socket_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "run" / "telensord.sock").write_text("precious")
    with Daemon(tmp_path, wait=False) as server:
        assert server.wait() == 69
        assert "is not a socket" in server.log()
        assert server.socket.read_text() == "precious"


def test_a_dead_servers_socket_is_replaced(tmp_path):
    with Daemon(tmp_path) as server:
        server.process.kill()
        server.wait()
        assert server.socket.exists() and not accepts(server.socket)
    with Daemon(tmp_path) as server:
        assert run("print(torch.ones(3).sum().item())", server.address) == "3.0\n"


def test_a_living_servers_socket_is_not(tmp_path):
    with Daemon(tmp_path) as first:
        with Daemon(tmp_path, wait=False) as second:
            assert second.wait() == 69
            assert "another server listens" in second.log()
        assert first.process.poll() is None
        assert run("print(torch.ones(3).sum().item())", first.address) == "3.0\n"
        first.signal(signal.SIGTERM)
        assert first.wait() == 0
        assert not first.socket.exists()


def test_of_many_that_start_at_once_one_gets_the_socket(tmp_path):
    servers = [Daemon(tmp_path, wait=False) for _ in range(6)]
    try:
        until(lambda: sum(s.process.poll() is not None for s in servers) == 5, lambda: [s.log() for s in servers])
        winner, = (s for s in servers if s.process.poll() is None)
        assert all(s.process.returncode == 69 for s in servers if s is not winner)
        assert run("print(torch.ones(3).sum().item())", winner.address) == "3.0\n"
    finally:
        for server in servers:
            server.__exit__()


def test_tcp_for_development(tmp_path):
    with Daemon(tmp_path, "--insecure-dev", "--tcp", "127.0.0.1:0") as server:
        line = until(lambda: [x for x in server.log().splitlines() if "on port" in x], server.log)[0]
        port = int(line.split("on port ")[1].split()[0])
        assert run("print(torch.ones(3).sum().item())", f"127.0.0.1:{port}") == "3.0\n"
        # One port, one server: it is not shared with a second one.
        other = tmp_path / "other"
        other.mkdir()
        with Daemon(other, "--insecure-dev", "--tcp", f"127.0.0.1:{port}", wait=False) as second:
            assert second.wait() == 69, second.log()
            assert f"127.0.0.1:{port}" in second.log()
            assert not second.socket.exists()


def test_tcp_is_not_served_unasked(tmp_path):
    with Daemon(tmp_path) as server:
        sockets = {os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{server.pid}/fd")}
        inodes = {line.split()[9] for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]}
        assert not {f"socket:[{i}]" for i in inodes} & sockets


def test_the_default_socket(tmp_path):
    process = subprocess.Popen([program(), "--threads", "1"], env=environment(XDG_RUNTIME_DIR=str(tmp_path)),
                               stderr=subprocess.DEVNULL)
    try:
        path = tmp_path / "telensor" / "telensord.sock"
        until(lambda: accepts(path), "the default socket")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(path))
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_a_plugin_that_is_no_use_is_named_and_the_cpu_serves(tmp_path):
    """The log, the status and the doctor say why there is no GPU; programs run on the CPU."""
    plugin = os.path.join(os.path.dirname(os.path.realpath(program())), "../kernels/fault/libtelensor_fault_plugin.so")
    with open(plugin, "rb") as file:
        whole = file.read()
    cut = tmp_path / "cut.so"
    cut.write_bytes(whole[:len(whole) // 2])
    for number, (path, look, why) in enumerate([
        (tmp_path / "none.so", "", "cannot open the plug-in"),
        (cut, "", "was cut short"),
        (os.path.abspath(plugin), "abi=9", "the plug-in speaks ABI 9"),
        (os.path.abspath(plugin), "devices=0", "told to have none"),
    ]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Daemon(folder, "--cuda-plugin", path, env={"TELENSOR_FAULT": look}) as server:
            said = [line for line in server.log().splitlines() if "cuda: no device: " in line]
            assert len(said) == 1 and why in said[0], server.log()
            for command in ("status", "doctor"):
                done = subprocess.run([sys.executable, "-m", "telensor.cli", command, "--addr", server.address], cwd="/",
                                      env=environment(), capture_output=True, text=True, timeout=60, check=False)
                assert done.returncode == 0, done
                assert "cuda: no device: " in done.stdout and why in done.stdout, done.stdout
            assert run("print((torch.ones(3) + 1).sum().item(), torch.cuda.is_available())", server.address) == "6.0 False\n"


def test_the_built_plugin_says_why_there_is_no_gpu(tmp_path):
    """The server's own search finds the plug-in of its build."""
    built = os.path.join(os.path.dirname(os.path.realpath(program())), "../kernels/cuda/libtelensor_cuda.so")
    with Daemon(tmp_path) as server:
        log = server.log()
        assert "cuda:0: " in log or "cuda: no device: " in log, log
        assert ("the plug-in libtelensor_cuda.so is not installed" in log) == (not os.path.exists(built)), log


def test_a_private_server_is_found_beside_the_interpreter(tmp_path):
    """As in an environment that is not activated: nothing names telensord and it is not on the PATH."""
    os.symlink(sys.executable, tmp_path / "python")
    os.symlink(program(), tmp_path / "telensord")
    env = environment(PATH="/usr/bin:/bin", PYTHONPATH=os.path.dirname(os.path.dirname(telensor.__file__)))
    del env["TELENSORD"]
    said = subprocess.run([tmp_path / "python", "-c", "import telensor; print(telensor.ones(2).sum().item())"], env=env,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout == "2.0\n", said.stderr
