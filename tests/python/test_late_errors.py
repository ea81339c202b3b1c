"""Errors that only the server finds: where they are raised, that they are raised once, and what they leave behind."""

import pytest
import telensor
import torch
from daemon import Daemon, Program

WORDS = {  # calls that fail only on the server: what they raise, and a word of it
    "embedding": ("torch.nn.functional.embedding(torch.tensor([9]), torch.ones(3, 2))", "IndexError", "out of"),
    "gather": ("torch.ones(3, 2).gather(0, torch.tensor([[7, 0]]))", "IndexError", "out of"),
    "index_select": ("torch.ones(3).index_select(0, torch.tensor([3]))", "IndexError", "out of"),
    "index": ("torch.ones(3)[torch.tensor([5])]", "IndexError", "out of"),
    "scatter": ("torch.ones(3).scatter(0, torch.tensor([5]), torch.ones(1))", "IndexError", "out of"),
    "division": ("torch.tensor([1]) // torch.tensor([0])", "TelensorError", "ZeroDivisionError"),
    "remainder": ("torch.tensor([1]) % torch.tensor([0])", "TelensorError", "ZeroDivisionError"),
    "bernoulli": ("torch.bernoulli(torch.tensor([2.0]))", "TelensorError", "p_in"),
    "nll_loss": ("torch.nn.functional.nll_loss(torch.ones(2, 3), torch.tensor([0, 5]))", "IndexError", "out of"),
    "memory": ("torch.ones(1 << 24)", "OutOfMemoryError", "session memory"),
    "upload": ("torch.tensor(bytearray(1 << 25))", "OutOfMemoryError", "session memory"),
}
IN_PLACE = {
    "index_put_": ("x[torch.tensor([5])] = 1.0", "IndexError", "out of"),
    "index_add_": ("x.index_add_(0, torch.tensor([5]), torch.ones(1))", "IndexError", "out of"),
    "bernoulli": ("x.mul_(torch.bernoulli(torch.tensor([2.0])))", "TelensorError", "p_in"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("late")
    (folder / "telensord.toml").write_text("[limits]\nsession_memory = 16_000_000\n")
    with Daemon(folder, "--config", folder / "telensord.toml") as running:
        yield running
        assert running.process.poll() is None, running.log()


def run(script, server, **env):
    with Program(script, server.address, env=env) as program:
        lines = []
        while (line := program.line()) != "end":
            lines.append(line)
        return lines


@pytest.mark.parametrize("name", WORDS | IN_PLACE)
def test_sync_raises_on_the_line_itself(server, name):
    call, kind, word = (WORDS | IN_PLACE)[name]
    script = f"""
    x = torch.zeros(3)
    try:
        {call}
        print("nothing")
    except Exception as error:
        print(type(error).__name__, error)
    # Raised once, and all goes on.
    torch.synchronize()
    print((x + 1).tolist())
    print("end")
    """
    said, after = run(script, server, TELENSOR_SYNC="1")
    assert said.startswith(kind + " ") and word in said, said
    assert after == "[1.0, 1.0, 1.0]"


@pytest.mark.parametrize("name", [name for name in WORDS if name != "upload"])  # which waits by itself
def test_a_failure_that_nobody_reads_is_raised_by_synchronize(server, name):
    call, kind, word = WORDS[name]
    script = f"""
    y = {call}
    print(torch.ones(2).tolist())   # what does not depend on it is good
    for _ in range(2):
        try:
            torch.synchronize()
            print("nothing")
        except Exception as error:
            print(type(error).__name__, error)
    print("end")
    """
    good, first, second = run(script, server)
    assert good == "[1.0, 1.0]"
    assert first.startswith(kind + " ") and word in first, first
    assert second == "nothing"


def test_the_first_of_several_failures_is_raised(server):
    script = """
    x = torch.ones(3)
    y = torch.bernoulli(torch.tensor([2.0]))
    x[torch.tensor([5])] = 1.0
    z = torch.tensor([1]) // torch.tensor([0])
    for _ in range(2):
        try:
            torch.synchronize()
            print("nothing")
        except Exception as error:
            print(error)
    print("end")
    """
    first, second = run(script, server)
    assert "p_in" in first
    assert second == "nothing"


def test_a_failed_write_fails_who_reads_it_once(server):
    """Until the failure is raised, nobody sees the tensor without the write; afterwards it has its old value."""
    script = """
    x, other = torch.ones(3), torch.full((2,), 5.0)
    view = x[1:]
    x[torch.tensor([7])] = 2.0
    later, seen = x + 1, view * 2
    x.mul_(10)
    print(other.tolist())
    for read in (x.tolist, x.tolist, view.tolist, later.tolist, seen.tolist, x.tolist, torch.synchronize):
        try:
            print(read())
        except Exception as error:
            print(type(error).__name__)
    print("end")
    """
    old = "[1.0, 1.0, 1.0]"
    assert run(script, server) == ["[5.0, 5.0]", "IndexError", old, "[1.0, 1.0]", "IndexError", "IndexError", old, "None"]


@pytest.mark.parametrize("read", ["later.item()", "view.tolist()", "torch.synchronize()", "later.nonzero()"])
def test_a_failed_write_is_over_when_it_was_raised(server, read):
    script = f"""
    x = torch.ones(3)
    view = x[1:]
    x.index_add_(0, torch.tensor([7]), torch.ones(1))
    later = x.sum()
    try:
        {read}
        print("nothing")
    except IndexError as error:
        print("raised")
    x += 1
    print(x.tolist())
    print("end")
    """
    assert run(script, server) == ["raised", "[2.0, 2.0, 2.0]"]


def test_two_failed_writes_are_raised_each(server):
    script = """
    x, y = torch.ones(2), torch.ones(2)
    x.mul_(torch.bernoulli(torch.tensor([2.0])))
    y[torch.tensor([7])] = 2.0
    for read in (x.tolist, y.tolist, x.tolist, y.tolist, torch.synchronize):
        try:
            print(read())
        except Exception as error:
            print(type(error).__name__)
    print("end")
    """
    assert run(script, server) == ["TelensorError", "IndexError", "[1.0, 1.0]", "[1.0, 1.0]", "None"]


def test_a_training_loop_goes_on_after_a_failed_step(server):
    """As real PyTorch, where the exception would have left the loop before anything was changed."""
    script = """
    F = torch.nn.functional
    torch.manual_seed(0)
    table = torch.nn.Embedding(4, 2)
    head = torch.nn.Linear(2, 3)
    parameters = list(table.parameters()) + list(head.parameters())
    opt = torch.optim.SGD(parameters, lr=0.5, momentum=0.9, weight_decay=0.1)
    def step(ids):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(head(table(torch.tensor(ids))), torch.tensor([0, 2]))
        loss.backward()
        opt.step()
        return loss
    step([0, 1]).item()
    before = [p.tolist() for p in parameters]
    try:
        loss = step([0, 9])
        step([1, 2]).item()         # issued before anybody knows
        print("nothing")
    except IndexError:
        print("raised")
    print([p.tolist() for p in parameters] == before)
    print(all(p.grad.abs().sum().item() == 0 for p in parameters))
    print(step([1, 2]).item() > 0)
    print([p.tolist() for p in parameters] != before)
    torch.synchronize()
    print("end")
    """
    assert run(script, server) == ["raised", "True", "True", "True", "True"]


def test_memory_of_an_unwritten_tensor_is_freed(server):
    script = """
    for _ in range(40):
        x = torch.zeros(1 << 20)
        x[torch.tensor([-1 - (1 << 20)])] = 1.0
    try:
        x.sum().item()
    except IndexError:
        print("raised")
    print(x.sum().item())
    print("end")
    """
    assert run(script, server) == ["raised", "0.0"]


def test_in_place_errors_have_the_words_of_real_pytorch(server):
    x = torch.ones(3)
    with pytest.raises(IndexError):
        x[torch.tensor([5])] = 1.0
    assert x.tolist() == [1.0, 1.0, 1.0]
    y = telensor.ones(3)
    y[telensor.tensor([5])] = 1.0
    with pytest.raises(IndexError):
        y.tolist()
    assert y.tolist() == x.tolist()
