"""Programs and servers that end, stop or fork in the middle of things; limits that are reached; threads."""

import os
import signal

import pytest
from daemon import Daemon, Program, resident_bytes, run, state, until
from wire import Connection, RawSession

@pytest.fixture
def server(tmp_path):
    with Daemon(tmp_path) as running:
        yield running
        assert running.process.poll() is None, running.log()


NEIGHBOUR = """
    torch.manual_seed(1)
    x = torch.arange(1000.)
    print("ready")
    for line in sys.stdin:
        y = x
        for i in range(200):
            y = (y + 1) * 1
        print(y.sum().item() == 499500 + 200 * 1000)
"""

# What a client is doing when it is killed.
VICTIMS = {
    "sending ops": """
        keep = [torch.ones(1000, 100) for _ in range(50)]
        torch.synchronize()
        print("now")
        x = torch.ones(100, 100)
        while True: x = x @ x * 0.01
    """,
    "idle": """
        keep = torch.ones(1000, 1000)
        torch.synchronize()
        print("now")
        time.sleep(600)
    """,
    "uploading": """
        import numpy
        data = numpy.ones(30_000_000, dtype="float32")
        torch.from_numpy(data[:10000]).sum().item()
        print("now")
        while True: x = torch.from_numpy(data)
    """,
    "downloading": """
        x = torch.ones(30_000_000)
        x.sum().item()
        print("now")
        while True: x.numpy()
    """,
    "recording a graph": """
        x = torch.ones(1000, requires_grad=True)
        y = x
        for _ in range(5000): y = y.sin()
        y.sum().item()
        print("now")
        while True: y = y.sin()
    """,
}


SLACK = 100_000  # what a neighbour's temporaries take; less than any victim has


def held(probe):
    """Bytes of tensors that a server holds, of all sessions."""
    return probe.status()["allocated_bytes.all.current"]


@pytest.mark.parametrize("doing", VICTIMS)
def test_a_killed_clients_memory_comes_back(server, doing):
    with Program(NEIGHBOUR, server.address) as neighbour, Connection(server.address) as probe:
        assert neighbour.line() == "ready"
        neighbour.say()
        assert neighbour.line() == "True"
        before = held(probe)
        for _ in range(3):
            with Program(VICTIMS[doing], server.address) as victim:
                assert victim.line() == "now"
                until(lambda: held(probe) > before + SLACK, probe.status)
                neighbour.say()
                assert neighbour.line() == "True"
                victim.kill()
            until(lambda: held(probe) <= before + SLACK, probe.status)
            neighbour.say()
            assert neighbour.line() == "True"
        until(lambda: server.log().count("closed") >= 3, server.log)


def test_a_client_killed_while_its_queue_is_full(server):
    """The stream of a session that waits for an upload is not read: its end is seen all the same."""
    with Connection(server.address) as probe:
        before = held(probe)
        with Connection(server.address) as connection:
            session = RawSession(connection)
            pending = session.new()
            session.send(session.command("UPLOAD", outputs=[pending], sizes=[1000000], dtype=9))
            session.send(session.op("relu", [pending], [session.new()]))
            for _ in range(12):
                session.send(session.command("WRITE", outputs=[session.new()], sizes=[1 << 18], dtype=9, data=bytes(1 << 20)))
            until(lambda: held(probe) > before, "the announced tensor")
            until(lambda: session._outgoing.empty(), "batches to leave")
            session.stream.cancel()
        until(lambda: "closed" in server.log(), server.log)
        until(lambda: held(probe) == before, probe.status)


def test_a_client_that_takes_no_answers(server):
    """Reads whose results are not taken fill a limit, and no more; its end frees all."""
    with Connection(server.address) as probe:
        before = held(probe)
        with Connection(server.address) as connection:
            session = RawSession(connection)
            handle = session.new()
            session.send(session.op("ones", [], [handle], [[16000], session.pb.Attribute(kind=6, i=9), session.pb.Attribute(kind=7)]))
            session.wait()
            for _ in range(1000):
                session.send(*[session.command("READ", inputs=[handle])] * 10)
            until(lambda: probe.status(session.id)["executed_seq"] > 5, "reads")
            assert resident_bytes(server.pid) < 600 << 20
            session.stream.cancel()
        until(lambda: "closed" in server.log(), server.log)
        until(lambda: held(probe) == before, probe.status)


@pytest.mark.slow
def test_a_session_that_nobody_takes_up_goes(tmp_path):
    (tmp_path / "telensord.toml").write_text("[limits]\nmax_sessions = 1\n")
    with Daemon(tmp_path, "--config", tmp_path / "telensord.toml") as server, Connection(server.address) as connection:
        connection.open()
        script = """
            try:
                torch.ones(1)
                print("open")
            except torch.TelensorError as error:
                print(error)
        """
        assert "sessions: limit 1, used 1" in run(script, server.address)
        until(lambda: run(script, server.address) == "open\n", "the abandoned session's end")


LOST = """
    import numpy
    x = torch.ones(100000)
    w = torch.ones(10, requires_grad=True)
    print(x.sum().item())
    sys.stdin.readline()
    def fails(what, f):
        try:
            f()
        except torch.ConnectionLost as error:
            assert isinstance(error, (RuntimeError, ConnectionError)) and "connection to the server is lost" in str(error), error
        else:
            print("no error from", what)
    y = x + 1
    fails("item", lambda: y.sum().item())
    fails("tolist", lambda: x.tolist())
    fails("numpy", lambda: x.numpy())
    fails("synchronize", torch.synchronize)
    fails("nonzero", lambda: x.nonzero())
    fails("repr", lambda: repr(x))
    fails("upload", lambda: torch.from_numpy(numpy.ones(100000)))
    fails("status", lambda: core._status())
    for _ in range(50000):
        z = x * 2 + 1
        (w * 2).sum().backward()
    fails("item after many ops", lambda: z.sum().item())
    print("end")
"""


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM"])
def test_the_server_dies_under_a_client(tmp_path, end):
    with Daemon(tmp_path) as server, Program(LOST, server.address) as client:
        assert client.line() == "100000.0"
        server.signal(signal.SIGKILL if end == "SIGKILL" else signal.SIGTERM)
        if end == "SIGTERM":
            until(lambda: "draining" in server.log(), server.log)
            server.signal(signal.SIGTERM)
        server.wait()
        # Another one in its place is not its server.
        with Daemon(tmp_path) as second:
            client.say()
            assert client.end() == "end\n"
            assert second.process.poll() is None


@pytest.mark.parametrize("call", ["x.sum().item()", "torch.synchronize()", "x.numpy()", "x.nonzero()",
                                  "torch.from_numpy(numpy.ones(10_000_000))"])
def test_the_server_dies_while_a_client_waits(server_or_die, call):
    with Program(f"""
        import numpy
        x = torch.ones(100000)
        x.sum().item()
        print("ready")
        sys.stdin.readline()
        print("waiting")
        try:
            {call}
        except torch.ConnectionLost as error:
            print("lost", "connection to the server is lost" in str(error))
    """, server_or_die.address) as client:
        assert client.line() == "ready"
        server_or_die.signal(signal.SIGSTOP)  # so that it can't answer before it dies
        client.say()
        assert client.line() == "waiting"
        until(lambda: "S" == state(f"/proc/{client.pid}"), "the client's wait")
        server_or_die.process.kill()
        assert client.end() == "lost True\n"


@pytest.fixture
def server_or_die(tmp_path):
    with Daemon(tmp_path) as running:
        yield running


def test_a_stopped_server_holds_the_client_back_and_goes_on(server):
    with Program("""
        x = torch.zeros(1000)
        x.sum().item()
        print("ready")
        sys.stdin.readline()
        for i in range(300000):
            x = x + 1
        print("sent")
        print(x.sum().item())
    """, server.address) as client:
        assert client.line() == "ready"
        before = resident_bytes(client.pid)
        server.signal(signal.SIGSTOP)
        client.say()
        # It runs into its limit, and waits.
        last = [0, 0]
        def waits():
            ticks = sum(map(int, open(f"/proc/{client.pid}/stat").read().rpartition(")")[2].split()[11:13]))
            last[1] = last[1] + 1 if ticks == last[0] else 0
            last[0] = ticks
            return last[1] > 100
        until(waits, "the client to wait")
        assert not client._out and resident_bytes(client.pid) - before < 64 << 20
        server.signal(signal.SIGCONT)
        assert client.line() == "sent"
        assert client.end() == "300000000.0\n"


def test_a_stopped_client_keeps_its_session(server):
    with Program(NEIGHBOUR, server.address) as client, Connection(server.address) as probe:
        assert client.line() == "ready"
        client.say()
        assert client.line() == "True"
        client.process.send_signal(signal.SIGSTOP)
        mine = held(probe)
        with Program(NEIGHBOUR, server.address) as other:
            assert other.line() == "ready"
            for _ in range(20):
                other.say()
                assert other.line() == "True"
        assert held(probe) > 0 and mine > 0
        client.process.send_signal(signal.SIGCONT)
        client.say()
        assert client.line() == "True"


# Forks and threads.

@pytest.mark.parametrize("private", [False, True])
def test_a_forked_child_gets_a_clear_error(server, private):
    out = run("""
        x = torch.ones(4)
        print(x.sum().item())
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            for what in (lambda: x + 1, lambda: x.sum().item(), lambda: torch.ones(2), lambda: torch.tensor([1.0] * 20000),
                         lambda: torch.manual_seed(3), lambda: torch.synchronize(), lambda: core._status(),
                         lambda: x.add_(1), lambda: x.requires_grad_(), lambda: torch.set_default_dtype(torch.float64)):
                try:
                    what()
                    print("no error")
                except RuntimeError as error:
                    assert "forked" in str(error) and "spawn" in str(error), error
            assert x.shape == (4,) and torch.session_stats()["ops"] == 0
            del x
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print((x + 1).sum().item())
    """, None if private else server.address)
    assert out == "4.0\n8.0\n"


def test_a_child_forked_before_the_first_tensor_has_its_own_session(server):
    out = run("""
        child = os.fork()
        x = torch.full((3,), 5.0 if child == 0 else 7.0)
        assert x.sum().item() == (15 if child == 0 else 21)
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print((x + x).sum().item())
    """, server.address)
    assert out == "42.0\n"


def test_a_killed_parents_session_goes_though_a_child_lives(server):
    with Program("""
        x = torch.ones(1000, 1000)
        x.sum().item()
        child = os.fork()
        if child == 0:
            time.sleep(600)
        print(child)
        time.sleep(600)
    """, server.address) as client, Connection(server.address) as probe:
        child = int(client.line())
        try:
            assert held(probe) >= 4000000
            client.kill()
            until(lambda: held(probe) == 0, probe.status)
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(server, tmp_path, method):
    (tmp_path / "program.py").write_text(f"""
import multiprocessing
import telensor as torch

def work(n):
    try:
        return torch.arange(float(n)).sum().item()
    except RuntimeError as error:
        return str(error)

if __name__ == "__main__":
    x = torch.ones(3)
    print(x.sum().item())
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        for result in pool.map(work, [3, 5]):
            print(result)
    print((x + 1).sum().item())
""")
    out = run(f"import runpy; runpy.run_path('{tmp_path / 'program.py'}', run_name='__main__')", server.address) \
        if method == "fork" else spawned(tmp_path / "program.py", server.address)
    lines = out.splitlines()
    assert lines[0] == "3.0" and lines[-1] == "6.0" and len(lines) == 4
    if method == "spawn":
        assert lines[1:3] == ["3.0", "10.0"]
    else:
        assert all("forked" in line for line in lines[1:3])


def spawned(path, address):
    import subprocess
    import sys

    from daemon import environment
    done = subprocess.run([sys.executable, str(path)], env=environment(TELENSOR_ADDR=address), capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_data_loader_workers(server):
    out = run("""
        import numpy
        from telensor.utils.data import DataLoader, Dataset
        class Squares(Dataset):
            def __len__(self): return 64
            def __getitem__(self, i): return numpy.float32(i * i)
        class Tensors(Squares):
            def __getitem__(self, i): return torch.ones(2)
        w = torch.ones(1)
        for _ in range(2):
            print(sum((batch * w).sum().item() for batch in DataLoader(Squares(), batch_size=8, num_workers=2)))
        try:
            list(DataLoader(Tensors(), batch_size=8, num_workers=2))
        except RuntimeError as error:
            print("forked" in str(error) or "worker" in str(error))
        print((w + 1).item())
    """, server.address)
    assert out == f"{sum(i * i for i in range(64))}.0\n" * 2 + "True\n2.0\n"


def test_threads(server):
    out = run("""
        wrong = []
        def work(seed):
            try:
                x = torch.full((50, 50), float(seed), requires_grad=True)
                for i in range(300):
                    y = (x * 2 + i).sum()
                    if i % 10 == 0:
                        if y.item() != 2500 * (2 * seed + i): wrong.append((seed, i, y.item()))
                        big = torch.tensor([float(seed)] * 10000)
                        if big.sum().item() != 10000 * seed: wrong.append((seed, i, "upload"))
                        if len((x.detach() + torch.zeros(50, 50)).tolist()) != 50: wrong.append("list")
                    y.backward()
                if x.grad.sum().item() != 2500 * 2 * 300: wrong.append((seed, "grad"))
            except Exception as error:
                wrong.append(error)
        threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(wrong)
    """, server.address)
    assert out == "[]\n"


# Limits.

@pytest.fixture
def limited(tmp_path):
    (tmp_path / "telensord.toml").write_text(
        "[limits]\nmax_sessions = 2\nmax_handles = 100\nsession_memory = 20_000_000\n[cpu]\nmemory = 30_000_000\n")
    with Daemon(tmp_path, "--config", tmp_path / "telensord.toml") as running:
        yield running
        assert running.process.poll() is None, running.log()


def test_handles(limited):
    out = run("""
        x = [torch.full((2,), float(i)) for i in range(100)]
        print(x[99].tolist())
        more = [torch.ones(3) for _ in range(5)]
        after = more[4] + 1
        for t in (more[0], more[4], after):
            try:
                t.tolist()
            except torch.OutOfMemoryError as error:
                print(error)
        print(x[3].tolist())
        del more, after, t, x[50:]
        print((x[1] + x[2]).tolist())
    """, limited.address)
    lines = out.splitlines()
    assert lines[0] == "[99.0, 99.0]" and lines[4:] == ["[3.0, 3.0]", "[3.0, 3.0]"]
    assert all("handles: limit 100, used 100, requested 1" in line for line in lines[1:4]), lines


def test_session_memory(limited):
    out = run("""
        x = torch.ones(1000, 1000)
        y = [x + i for i in range(3)]
        bad = torch.ones(1000, 3000)
        worse = (bad * 2).sum()
        try:
            worse.item()
        except torch.OutOfMemoryError as error:
            print(error)
        print(y[2].sum().item())
        del y, bad, worse
        print(torch.ones(1000, 3000).sum().item())
    """, limited.address)
    lines = out.splitlines()
    assert lines[1:] == ["3000000.0", "3000000.0"], out
    assert "session memory" in lines[0] and "11.44 MiB" in lines[0] and "19.07 MiB" in lines[0], lines[0]


def test_device_memory_of_several_sessions(limited):
    script = """
        x = torch.ones(1000, 4000)
        print(x.sum().item())
        sys.stdin.readline()
    """
    with Program(script, limited.address) as first:
        assert first.line() == "4000000.0"
        with Program("""
            x = torch.ones(1000, 4000)
            try:
                x.sum().item()
            except torch.OutOfMemoryError as error:
                print(error)
            sys.stdin.readline()
            x = torch.ones(1000, 4000)
            print(x.sum().item())
        """, limited.address) as second:
            words = second.line()
            assert "out of memory" in words and "Tried to allocate" in words, words
            out = run("""
                try:
                    torch.ones(1)
                except torch.TelensorError as error:
                    print(error)
            """, limited.address)
            assert "sessions: limit 2, used 2, requested 1" in out
            first.say()
            first.end()
            with Connection(limited.address) as probe:
                until(lambda: held(probe) == 0, probe.status)
            second.say()
            assert second.line() == "4000000.0"
