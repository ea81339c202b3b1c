"""telensor.save and telensor.load: what comes back, and what damaged files do."""

import ast
import io
import math
import os
import pathlib
import random
from collections import OrderedDict

import pytest

import telensor
from telensor import nn, optim

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def again(value, **options):
    file = io.BytesIO()
    telensor.save(value, file)
    file.seek(0)
    return telensor.load(file, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors(dtype):
    dtype = getattr(telensor, dtype)
    for shape in [(), (3,), (2, 3), (0, 4)]:
        x = (telensor.randn(shape, dtype=telensor.float64) * 50).abs().to(dtype)
        y = again(x)
        assert y.dtype == dtype and tuple(y.shape) == shape and telensor.equal(x, y) and not y.requires_grad
    view = telensor.arange(12).reshape(3, 4).t()[1:3]
    assert again(view).tolist() == view.tolist()


def test_structures():
    x = telensor.arange(3.0)
    value = {"a": [1, (2.5, None, True)], 3: "é\n", "n": math.nan, "i": -math.inf, "o": OrderedDict(b=1, a=2),
             "s": {1, 2}, "bytes": b"\0\xff", "size": x.shape, "dtype": telensor.bfloat16,
             "device": telensor.device("cpu"), "twice": [x, x], "big": 1 << 80, ("t", 1): 0.1}
    back = again(value)
    assert math.isnan(back.pop("n")) and math.isnan(value.pop("n"))
    first, second = back.pop("twice")
    assert first is second and first.tolist() == value.pop("twice")[0].tolist()
    assert back == value and type(back["o"]) is OrderedDict and type(back["size"]) is type(x.shape)
    assert type(back["a"][1]) is tuple


def test_model_and_optimizer(tmp_path):
    def make():
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        return net, optim.Adam(net.parameters(), lr=0.1)

    def step(net, optimizer, x):
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()

    net, optimizer = make()
    x = telensor.randn(5, 3)
    step(net, optimizer, x)
    path = tmp_path / "state.pt"
    telensor.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    other, other_optimizer = make()
    state = telensor.load(path)
    assert state["epoch"] == 3
    assert repr(other.load_state_dict(state["net"])) == "<All keys matched successfully>"
    assert state["net"]._metadata == net.state_dict()._metadata
    other_optimizer.load_state_dict(state["optimizer"])
    step(net, optimizer, x), step(other, other_optimizer, x)
    for a, b in zip(net.state_dict().values(), other.state_dict().values()):
        assert telensor.equal(a, b)


def test_gradients_and_parameters():
    p = again(nn.Parameter(telensor.ones(2)))
    assert isinstance(p, nn.Parameter) and p.requires_grad
    assert again(telensor.ones(2, requires_grad=True)).requires_grad


def test_map_location():
    x = telensor.ones(2)
    for location in ("cpu", telensor.device("cpu"), {"cuda:0": "cpu"}):
        assert str(again(x, map_location=location).device) == "cpu"
    with pytest.raises(TypeError, match="map_location"):
        again(x, map_location=lambda storage, location: storage)


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"an object of type Linear at \['a'\]\[0\]; save module.state_dict"):
        telensor.save({"a": [nn.Linear(1, 1)]}, io.BytesIO())
    deep = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper than"):
        telensor.save(deep, io.BytesIO())
    with pytest.raises(ValueError, match="PyTorch's own format"):
        telensor.load(io.BytesIO(b"PK\x03\x04" + bytes(100)))
    with pytest.raises(ValueError, match="no telensor file"):
        telensor.load(io.BytesIO(b"something else"))
    with pytest.raises(FileNotFoundError):
        telensor.load("/nowhere/at/all")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.pt"
    telensor.save({"x": 1}, path)
    with pytest.raises(TypeError):
        telensor.save({"x": object()}, path)
    assert telensor.load(path) == {"x": 1} and os.listdir(tmp_path) == ["state.pt"]


def header(text, body=b""):
    text = text.encode()
    return io.BytesIO(b"TELENSR1" + len(text).to_bytes(8, "little") + text + body)


@pytest.mark.parametrize("text", [
    "", "[]", "{", '{"tensors":[],"object":{"tensor":0}}', '{"tensors":[],"object":{"tensor":-1}}',
    '{"tensors":[],"object":{"reduce":[]}}', '{"tensors":[],"object":{"__init__":[]}}', '{"tensors":[],"object":[1]}',
    '{"tensors":[],"object":{"dict":[[{"list":[]},1]]}}', '{"tensors":[],"object":{"bytes":"zz"}}',
    '{"tensors":[],"object":{"size":[-1]}}', '{"tensors":[],"object":{"device":"/etc/passwd"}}',
    '{"tensors":[{"dtype":"float32","shape":[4],"start":0,"bytes":16}],"object":null}',
    '{"tensors":[{"dtype":"float32","shape":[1],"start":-4,"bytes":4}],"object":null}',
    '{"tensors":[{"dtype":"float32","shape":[4294967296,4294967296],"start":0,"bytes":0}],"object":null}',
    '{"tensors":[{"dtype":"object","shape":[1],"start":0,"bytes":4}],"object":null}',
    '{"tensors":[{"dtype":"uint8","shape":[4],"start":0,"bytes":4},'
    '{"dtype":"uint8","shape":[4],"start":0,"bytes":4}],'
    '"object":null}',
    '{"tensors":[],"object":' + '{"list":[' * 200 + "]}" * 200 + "}",
    "[" * 100000,
])
def test_bad_headers(text):
    with pytest.raises(ValueError, match="damaged or not a telensor file"):
        telensor.load(header(text, bytes(8)))


def test_damaged_files():
    file = io.BytesIO()
    telensor.save({"a": telensor.arange(5), "b": [telensor.ones(2, 2), (1, 2.5, "x", math.inf)], "c": b"12"}, file)
    whole, source, refused = file.getvalue(), random.Random(0), 0
    for length in range(0, len(whole), 7):
        with pytest.raises(ValueError):
            telensor.load(io.BytesIO(whole[:min(length, len(whole) - 64)]))
    end = 16 + int.from_bytes(whole[8:16], "little")
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(source.randint(1, 3)):
            data[source.randrange(end)] = source.randrange(256)
        try:
            telensor.load(io.BytesIO(bytes(data)))
        except ValueError:
            refused += 1
    assert refused > 500


def test_the_package_runs_no_foreign_code():
    """The client never unpickles, evaluates or executes anything."""
    for path in pathlib.Path(telensor.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {a.name for a in node.names} | {getattr(node, "module", None)}
                assert not names & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
