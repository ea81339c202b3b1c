"""The wheel lives in one process with grpcio, protobuf and torch, whichever is imported first.

Each case runs in a process of its own. The wheel that deploy/wheel.sh makes carries gRPC and protobuf under names of
their own; a package built without that step shares the system's, so there is nothing to test. deploy/wheel.sh names in
TELENSOR_WHEEL_BESIDE what must be there: nothing is skipped then.
"""

import importlib.util
import itertools
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest


def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _missing():
    if not found("telensor"):
        return "telensor is not installed"
    if not (pathlib.Path(importlib.util.find_spec("telensor").origin).parents[1] / "telensor.libs").is_dir():
        return "the installed telensor is not a repaired wheel; deploy/wheel.sh makes one and runs this"
    return None


MISSING = _missing()
REQUIRED = os.environ.get("TELENSOR_WHEEL_BESIDE", "").split()
if REQUIRED and (MISSING or not all(map(found, REQUIRED))):
    raise RuntimeError(f"{MISSING or 'not installed: ' + ' '.join(n for n in REQUIRED if not found(n))}")
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
OTHERS = REQUIRED or [name for name in ("grpc", "google.protobuf", "torch") if found(name)]

USE = {
    "telensor": """
        w = telensor.ones(3, 4, requires_grad=True)
        (w @ telensor.ones(4, 2)).sum().backward()
        assert w.grad.tolist() == [[2.0] * 4] * 3, w.grad
        assert telensor.arange(100000).sum().item() == 4999950000
        try:
            telensor.ones(2) + telensor.ones(3)
        except RuntimeError:
            pass
        else:
            raise AssertionError("no error for shapes that do not fit")
    """,
    # A server, a client, and a call of telensor in each handler, so that both gRPC cores have calls in flight.
    "grpc": """
        from concurrent import futures

        def handler(request, context):
            if "telensor" in sys.modules:
                t = sys.modules["telensor"]
                return str(int(t.arange(len(request)).sum().item())).encode()
            return str(sum(range(len(request)))).encode()

        server = grpc.server(futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "test.Sum", {"Of": grpc.unary_unary_rpc_method_handler(handler)}),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            of = channel.unary_unary("/test.Sum/Of")
            calls = [of.future(b"x" * n, timeout=60) for n in range(1, 101)]
            assert [int(c.result()) for c in calls] == [n * (n - 1) // 2 for n in range(1, 101)]
            try:
                channel.unary_unary("/test.Sum/None")(b"", timeout=60)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
            else:
                raise AssertionError("no error for a method that is not there")
        server.stop(None).wait()
    """,
    # Its own file in its own pool, and one with the name of telensor's: two registries know nothing of each other.
    "google.protobuf": """
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

        s = struct_pb2.Struct()
        s.update({"a": 1.5, "b": ["x", True]})
        assert struct_pb2.Struct.FromString(s.SerializeToString()) == s
        path = "telensor/v1/telensor.proto"
        pool = descriptor_pool.Default()
        try:
            pool.FindFileByName(path)
        except KeyError:
            file = descriptor_pb2.FileDescriptorProto(name=path, package="telensor.v1", syntax="proto3")
            field = file.message_type.add(name="Tensor").field.add(name="id", number=1, type=4, label=1)
            pool.Add(file)
        cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("telensor.v1.Tensor"))
        assert cls.FromString(cls(id=7).SerializeToString()).id == 7
    """,
    "torch": """
        t = torch.ones(3, 4, requires_grad=True)
        (t @ torch.ones(4, 2)).sum().backward()
        assert t.grad.tolist() == [[2.0] * 4] * 3
        assert torch.nn.functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)).sum().item() == 36
        try:
            torch.ones(2) + torch.ones(3)
        except RuntimeError:
            pass
        else:
            raise AssertionError("no error for shapes that do not fit")
    """,
}


def run(script):
    env = {k: v for k, v in os.environ.items() if k not in ("TELENSOR_ADDR", "PYTHONPATH")}
    done = subprocess.run([sys.executable, "-B", "-c", "import sys\n" + script + '\nprint("done")\n'], env=env, cwd="/",
                          capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0 and done.stdout.strip().endswith("done"), \
        f"exit status {done.returncode}\n{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def use(imports, uses):
    run("".join(f"import {name}\n" for name in imports) + "\n".join(textwrap.dedent(USE[name]) for name in uses))


def test_alone():
    use(["telensor"], ["telensor"])


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("first", ["telensor", "other"])
@pytest.mark.parametrize("used_first", ["telensor", "other"])
def test_beside(other, first, used_first):
    imports = ["telensor", other] if first == "telensor" else [other, "telensor"]
    uses = ["telensor", other] if used_first == "telensor" else [other, "telensor"]
    use(imports, [*uses, *uses])


@pytest.mark.parametrize("telensor_at", ["first", "last"])
def test_all_together(telensor_at):
    imports = ["telensor", *OTHERS] if telensor_at == "first" else [*OTHERS, "telensor"]
    use(imports, ["telensor", *itertools.chain.from_iterable((name, "telensor") for name in OTHERS)])


@pytest.mark.parametrize("other", OTHERS)
def test_beside_one_loaded_for_all(other):
    """A package whose symbols are global, as some programs import torch: they are searched before telensor's own."""
    run(textwrap.dedent(f"""
        import os
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
        import {other}
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL)
        import telensor
    """) + textwrap.dedent(USE["telensor"]) + textwrap.dedent(USE[other]) + textwrap.dedent(USE["telensor"]))


def libraries_of_process():
    out = run(textwrap.dedent("""
        import telensor
        telensor.ones(1).item()
        for line in sorted({l.split(None, 5)[5].strip() for l in open("/proc/self/maps") if "/" in l}):
            print(line)
    """))
    return [line for line in out.splitlines() if line.startswith("/")]


def test_the_libraries_have_names_of_their_own():
    """Nothing of the system's gRPC, nor of what it needs, is loaded for telensor."""
    grafted = ("libgrpc", "libgpr", "libprotobuf", "libabsl", "libre2", "libcares", "libupb", "libaddress_sorting")
    loaded = [p for p in map(pathlib.Path, libraries_of_process()) if p.name.startswith(grafted)]
    assert {p.name.split("-")[0] for p in loaded} >= {"libgrpc", "libgrpc++", "libprotobuf", "libre2"}
    assert all(p.parent.name == "telensor.libs" for p in loaded), loaded


def test_no_symbol_is_shared_with_the_process():
    """The extension shows its module's entry only, and no library has a symbol that is unique in a process."""
    package = pathlib.Path(importlib.util.find_spec("telensor").origin).parent
    extension, = package.glob("_core*.so")

    def defined(path):
        done = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True)
        return [line.split() for line in done.stdout.splitlines()]

    assert [entry[-1] for entry in defined(extension)] == ["PyInit__core"]
    libraries = list(package.with_name("telensor.libs").iterdir())
    symbols = [entry for path in libraries for entry in defined(path)]
    assert len(symbols) > 10000
    assert [entry for entry in symbols if entry[-2] == "u"] == []
