"""The wheel lives in one process with grpcio and with torch, whichever is imported first.

Each case runs in a process of its own. The wheel that deploy/wheel.sh makes carries gRPC and protobuf under names of
their own; a package built without that step shares the system's, so there is nothing to test.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest


def _missing():
    spec = importlib.util.find_spec("telensor")
    if spec is None:
        return "telensor is not installed"
    if not (pathlib.Path(spec.origin).parents[1] / "telensor.libs").is_dir():
        return "the installed telensor is not a repaired wheel; deploy/wheel.sh makes one and runs this"
    return None


MISSING = _missing()
if MISSING is not None and os.environ.get("TELENSOR_WHEEL_REQUIRED"):
    raise RuntimeError(MISSING)
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

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
    "grpc": """
        from concurrent import futures

        def handler(request, context):
            return request[::-1]

        server = grpc.server(futures.ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "test.Echo", {"Say": grpc.unary_unary_rpc_method_handler(handler)}),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            say = channel.unary_unary("/test.Echo/Say")
            assert [say(b"abc", timeout=20) for _ in range(20)] == [b"cba"] * 20
        server.stop(None).wait()
    """,
    "torch": """
        t = torch.ones(3, 4, requires_grad=True)
        (t @ torch.ones(4, 2)).sum().backward()
        assert t.grad.tolist() == [[2.0] * 4] * 3
        assert torch.nn.functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)).sum().item() == 36
    """,
}


def run(imports, uses):
    script = "".join(f"import {name}\n" for name in imports)
    script += "\n".join(textwrap.dedent(USE[name]) for name in uses) + '\nprint("done")\n'
    env = {k: v for k, v in os.environ.items() if k not in ("TELENSOR_ADDR", "PYTHONPATH")}
    done = subprocess.run([sys.executable, "-B", "-c", script], env=env, cwd="/", capture_output=True, text=True,
                          timeout=180, check=False)
    assert done.returncode == 0 and done.stdout.strip().endswith("done"), \
        f"exit status {done.returncode}\n{script}\n{done.stdout}\n{done.stderr}"


def test_alone():
    run(["telensor"], ["telensor"])


@pytest.mark.parametrize("other", ["grpc", "torch"])
@pytest.mark.parametrize("first", ["telensor", "other"])
def test_beside(other, first):
    if importlib.util.find_spec(other) is None:
        pytest.skip(f"{other} is not installed")
    imports = ["telensor", other] if first == "telensor" else [other, "telensor"]
    # Each before and after the other.
    run(imports, [*imports, *imports])


def test_all_three():
    for other in ("grpc", "torch"):
        if importlib.util.find_spec(other) is None:
            pytest.skip(f"{other} is not installed")
    run(["torch", "telensor", "grpc"], ["grpc", "telensor", "torch", "telensor"])


def test_the_libraries_have_names_of_their_own():
    """Nothing of the system's gRPC or protobuf is loaded for telensor."""
    script = textwrap.dedent("""
        import telensor
        telensor.ones(1)
        libraries = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
        print("\\n".join(l for l in libraries if "libgrpc" in l or "libprotobuf" in l))
    """)
    done = subprocess.run([sys.executable, "-B", "-c", script], cwd="/", capture_output=True, text=True, timeout=60,
                          check=True)
    loaded = done.stdout.split()
    assert loaded and all("telensor.libs" in library for library in loaded), loaded
