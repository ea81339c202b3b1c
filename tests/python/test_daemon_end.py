"""How telensord ends, and what it says meanwhile: signals, draining, health, reflection, its private servers' ends."""

import os
import pathlib
import signal

import pytest
from daemon import Daemon, Program, accepts, alive, run, until
from wire import Connection, refused

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"

WORKER = """
    x = torch.ones(1000)
    print("ready")
    for line in sys.stdin:
        x = x + 1
        print(x.sum().item())
    print("done", torch.ones(2).sum().item())
"""


def health(connection, service=b""):
    request = b"\x0a" + bytes([len(service)]) + service if service else b""
    return connection.call("/grpc.health.v1.Health/Check", request)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once(tmp_path, number):
    with Daemon(tmp_path) as server:
        server.signal(number)
        assert server.wait() == 0
        assert not server.socket.exists() and "all sessions have ended" in server.log()


def test_health_is_watched(tmp_path):
    name = b"\x0a\x14telensor.v1.Telensor"
    with Daemon(tmp_path) as server, Connection(server.address) as probe:
        assert refused(lambda: health(probe, b"another")).code == "NOT_FOUND"
        whole, named, unknown = (probe.watch("/grpc.health.v1.Health/Watch", r) for r in (b"", name, b"\x0a\x01x"))
        assert (next(whole), next(named), next(unknown)) == (SERVING, SERVING, b"\x08\x03")
        probe.open()  # a session keeps the server for its drain
        server.signal(signal.SIGTERM)
        assert (next(whole), next(named)) == (NOT_SERVING, NOT_SERVING)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_draining_lets_a_session_finish(tmp_path, number):
    with Daemon(tmp_path) as server, Program(WORKER, server.address) as worker, Connection(server.address) as probe:
        assert worker.line() == "ready"
        assert health(probe) == SERVING and health(probe, b"telensor.v1.Telensor") == SERVING
        server.signal(number)
        until(lambda: health(probe) == NOT_SERVING, "health during the drain")
        assert health(probe, b"telensor.v1.Telensor") == NOT_SERVING
        refusal = refused(probe.open)
        assert refusal.code == "UNAVAILABLE" and "shutting down" in refusal.words
        words = run("""
            try:
                torch.ones(1)
            except torch.ConnectionLost as error:
                print(error)
        """, server.address)
        assert "shutting down" in words and str(server.socket) in words
        for n in range(2, 5):  # the session that runs is not disturbed
            worker.say()
            assert worker.line() == f"{n * 1000}.0"
        assert server.process.poll() is None
        worker.process.stdin.close()
        assert worker.line() == "done 2.0"
        assert worker.process.wait(60) == 0
        assert server.wait() == 0
        assert "all sessions have ended" in server.log()


def test_sessions_are_cut_after_drain_seconds(tmp_path):
    (tmp_path / "telensord.toml").write_text("[server]\ndrain_seconds = 1\n")
    with Daemon(tmp_path, "--config", tmp_path / "telensord.toml") as server, Program("""
        x = torch.ones(3)
        print(x.sum().item())
        sys.stdin.readline()
        try:
            (x + 1).sum().item()
        except torch.ConnectionLost as error:
            print(error)
    """, server.address) as worker:
        assert worker.line() == "3.0"
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "sessions were cut" in server.log()
        worker.say()
        assert "the connection to the server is lost" in worker.end()


def test_a_second_signal_ends_the_wait(tmp_path):
    with Daemon(tmp_path) as server, Program(WORKER, server.address) as worker:
        assert worker.line() == "ready"
        server.signal(signal.SIGTERM)
        until(lambda: "draining" in server.log(), server.log)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "sessions were cut" in server.log()


def test_a_second_signal_does_not_wait_for_a_long_op(tmp_path):
    with Daemon(tmp_path) as server, Program("""
        x = torch.rand(3000, 3000)
        x.sum().item()
        for _ in range(200):
            x = x.cumsum(0).sort(0)[0].cumsum(1).sort(1)[0]
        y = torch.ones(1, 1, 2600, 2600)
        w = torch.ones(1, 1, 1300, 1300)
        z = torch.nn.functional.conv2d(y, w)
        print("sent")
        sys.stdin.readline()
    """, server.address) as worker:
        assert worker.line() == "sent"
        server.signal(signal.SIGTERM)
        until(lambda: "draining" in server.log(), server.log)
        server.signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert not server.socket.exists()


def test_reflection(tmp_path):
    with Daemon(tmp_path) as server, Connection(server.address) as probe:
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        ask = probe.channel.stream_stream(method)
        listing = b"".join(ask(iter([b"\x3a\x00"]), timeout=60))  # list_services
        assert b"telensor.v1.Telensor" in listing and b"grpc.health.v1.Health" in listing
        file = b"".join(ask(iter([b"\x22" + bytes([20]) + b"telensor.v1.Telensor"]), timeout=60))  # by symbol
        for name in (b"OpenSession", b"CommandBatch", b"KIND_BACKWARD"):
            assert name in file


# A private server belongs to the program that started it.

PRIVATE = """
    torch.ones(3).sum().item()
    server = int(open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()[0])
    print(server, core._status()["address"].removeprefix("unix:"))
"""
ENDS = {
    "its last line": ("", 0),
    "exit": ("sys.exit(3)", 3),
    "exception": ("raise RuntimeError('on purpose')", 1),
    "os._exit": ("os._exit(4)", 4),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", -15),
    "abort": ("os.abort()", -6),
    "with work in flight": ("x = torch.rand(500, 500)\n    for _ in range(3000): x = x @ x\n    os.kill(os.getpid(), 9)", -9),
    "with an error unread": ("x = torch.ones(3)[torch.tensor([7])]", 0),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_private_server_ends_with_its_program(how):
    last, status = ENDS[how]
    with Program(PRIVATE + "    " + last, env={"TELENSOR_THREADS": "1"}) as client:
        pid, path = client.line().split()
        client.process.communicate(timeout=60)
        assert client.process.returncode == status
    until(lambda: not alive(int(pid)), "the private server's end")
    until(lambda: not pathlib.Path(path).parent.exists(), f"the folder of {path} going")


def test_a_forked_child_does_not_keep_the_private_server():
    """A child has what its parent had open: it must not keep the parent's server."""
    with Program(PRIVATE + """
    if os.fork() == 0:
        time.sleep(600)
    child = open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()
    print(*[c for c in child if int(c) != server])
    os.kill(os.getpid(), signal.SIGKILL)
    """, env={"TELENSOR_THREADS": "1"}) as client:
        server, path = client.line().split()
        child = int(client.line())
        try:
            assert client.process.wait(60) == -9
            until(lambda: not alive(int(server)), "the private server's end")
            assert alive(child)
            assert not accepts(path)
        finally:
            os.kill(child, signal.SIGKILL)
