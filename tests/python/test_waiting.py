"""Waits for a server: other threads of the program run, Ctrl-C ends them, and no amount of commands ends the session."""

import signal

import pytest
from daemon import PATIENCE, Daemon, Program


@pytest.fixture
def server(tmp_path):
    with Daemon(tmp_path) as running:
        yield running
        assert running.process.poll() is None, running.log()


WAITS = {
    "item": "x.sum().item()",
    "tolist": "x.tolist()",
    "numpy": "x.numpy()",
    "large": "large.numpy()",
    "synchronize": "torch.synchronize()",
    "dynamic": "x.nonzero()",
    "full": "[x + i for i in range(100_000)]",
    "backward": "[w.sum().backward() for i in range(100_000)]",
    "print": "print(x)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(server, wait):
    script = f"""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    x, large = torch.ones(3), torch.ones(1 << 20)
    w = torch.ones(3, requires_grad=True)
    w.sum().backward()
    torch.synchronize()
    ticks = 0
    def tick():
        global ticks
        while True:
            ticks += 1
            time.sleep(0.001)
    threading.Thread(target=tick, daemon=True).start()
    print("ready")
    sys.stdin.readline()
    # Tells from beside the wait that it waits and that other threads run.
    def watch():
        before = ticks
        while ticks < before + 50:
            time.sleep(0.001)
        print("waits")
    threading.Thread(target=watch, daemon=True).start()
    try:
        {WAITS[wait]}
        print("nothing")
    except KeyboardInterrupt:
        print("interrupted")
    sys.stdin.readline()
    print((x + 1).tolist(), float(large.sum()), large.numpy().sum() == 1 << 20)
    torch.synchronize()
    """
    with Program(script, server.address) as program:
        assert program.line() == "ready"
        server.signal(signal.SIGSTOP)
        program.say()
        assert program.line() == "waits"
        program.process.send_signal(signal.SIGINT)
        assert program.line() == "interrupted"
        server.signal(signal.SIGCONT)
        program.say()
        assert program.line() == "[2.0, 2.0, 2.0] 1048576.0 True"
        assert program.process.wait(PATIENCE) == 0


def test_a_program_ends_though_its_server_stands_still(server):
    script = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    x = torch.ones(3)
    x.tolist()
    print("ready")
    try:
        sys.stdin.readline()
        y = [x + i for i in range(10_000)]
        print("issued")
        y[-1].tolist()
    except KeyboardInterrupt:
        print("interrupted")
    """
    with Program(script, server.address) as program:
        assert program.line() == "ready"
        server.signal(signal.SIGSTOP)
        program.say()
        assert program.line() == "issued"
        program.process.send_signal(signal.SIGINT)
        assert program.line() == "interrupted"
        assert program.process.wait(PATIENCE) == 0
        server.signal(signal.SIGCONT)


def test_half_a_million_tensors_are_released_at_once(server):
    script = """
    x = torch.zeros(())
    many = [torch.empty(0) for _ in range(500_000)]
    torch.synchronize()
    print("ready")
    sys.stdin.readline()
    y = x + 1                       # something under way, so that the releases gather
    del many                        # does not wait
    print("issued")
    sys.stdin.readline()
    z = [x + i for i in range(1000)]
    print(y.item(), z[999].item())
    torch.synchronize()
    torch.synchronize()
    print(core._status()["session"]["tensors"] < 2000)
    """
    with Program(script, server.address) as program:
        assert program.line() == "ready"
        server.signal(signal.SIGSTOP)
        program.say()
        assert program.line() == "issued"
        server.signal(signal.SIGCONT)
        program.say()
        assert program.line() == "1.0 999.0"
        assert program.line() == "True"


def test_long_operand_lists_in_a_loop(server):
    script = """
    one = [torch.ones(1)] * 20_000
    total = torch.zeros(())
    for _ in range(60):
        total = total + torch.cat(one).sum()
    print(total.item())
    few = [torch.ones(1)] * 40      # each short, together more than a batch may have
    parts = [torch.cat(few) for _ in range(20_000)]
    print(parts[-1].sum().item())
    try:
        torch.cat(one * 20)
    except RuntimeError as error:
        print(error)
    print(torch.cat(one[:10] * 1000).sum().item())
    """
    with Program(script, server.address) as program:
        assert program.line() == "1200000.0"
        assert program.line() == "40.0"
        assert "one call takes at most 200000" in program.line()
        assert program.line() == "10000.0"
