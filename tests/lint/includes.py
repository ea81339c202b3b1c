#!/usr/bin/env python3
"""Checks what keeps the layers apart. Standard library only.

    tests/lint/includes.py [ROOT]      prints each violation as FILE:LINE: words; exit status 1 if there is one

- Includes: who may include whom (docs/architecture.md, "Modules"), and which files may see gRPC, protobuf, spdlog, the
  maths libraries, CUDA and GoogleTest.
- Sizes: public headers under 250 lines, sources under 600, a folder's README under 60.
- Request code never ends the process: no assert, abort, exit, terminate in it.
- Ops are listed once, in proto/ops: no other file names many of them in text. Kernel families do, where a kernel that
  no row claims, or a row without its kernel, is an error at start.
"""

import pathlib
import re
import sys
import tomllib

HEADER_LINES, SOURCE_LINES, README_LINES = 250, 600, 60
MANY_OPS = 20

# module: what of ours it may include besides itself. A path belongs to the module with the longest matching prefix.
MODULES = {
    "proto/core": set(),
    "telensor/v1": set(),  # generated from proto/telensor/v1
    "allocator": {"proto/core"},
    "kernels": {"allocator", "proto/core"},
    "kernels/cpu": {"kernels:shared"},
    "kernels/cuda": {"kernels:shared"},
    "kernels/fault": {"kernels:shared"},
    "autograd": {"kernels", "allocator", "proto/core"},
    "server": {"autograd", "kernels", "allocator", "proto/core", "telensor/v1"},
    "client-cpp": {"proto/core", "telensor/v1"},
    "client-python": {"client-cpp", "proto/core", "telensor/v1"},
    "examples": {"client-cpp"},
}
# The CPU backend is linked in and not opened: one file hands its struct to the runtime.
EXTRA_INCLUDES = {"kernels/cpu/cpu_backend.cc": {"kernels/backend.h"}}
# Any module's headers, in tests only.
TESTS = re.compile(r"^tests/|_test\.(cc|cu|h)$|_testing\.h$|/testing/")

# Libraries: (name, pattern of the include, pattern of the files that may have it).
LIBRARIES = [
    ("gRPC", r"^grpc(pp|\+\+)?/|\.grpc\.pb\.h$",
     r"^server/(health|service|server)\.(h|cc)$|^client-cpp/connection\.cc$"),
    ("protobuf", r"^google/protobuf/|^telensor/v1/.*\.pb\.h$", r"^server/|^client-(cpp|python)/"),
    ("spdlog", r"^spdlog/|^fmt/", r"^server/"),
    ("toml++ or CLI11", r"^toml\+\+/|^CLI/", r"^server/"),
    ("oneDNN, OpenBLAS or SLEEF", r"^(oneapi/)?dnnl|^cblas\.h$|^lapacke?\.h$|^sleef", r"^kernels/cpu/"),
    ("CUDA", r"^(cuda|cub|cublas|cudnn|curand|cusolver|cutlass|nccl|nvml|thrust|mma)", r"^kernels/cuda/"),
    ("nanobind or Python", r"^nanobind/|^Python\.h$|^pybind11/", r"^client-python/"),
    ("OpenMP", r"^omp\.h$", r"^kernels/cpu/|^server/(session|device_set)\.cc$"),
    ("GoogleTest", r"^g(test|mock)/", r"^$"),
    ("google-benchmark", r"^benchmark/", r"(^|_)bench(mark)?(\.|_|/)"),
    ("Abseil", r"^absl/", r"^(?!kernels/(cpu|cuda)/|examples/)"),
]
# Headers a user of the C++ client includes, besides what these include themselves.
PUBLIC_CLIENT = ["client-cpp/telensor.h", "client-cpp/call.h", "client-cpp/error.h"]

# Request code, where a client's data must never end the server.
REQUEST_CODE = re.compile(r"^(server|kernels|autograd|proto/core)/.*\.(h|cc|cu|cuh)$")
FATAL = re.compile(r"\b(assert|abort|exit|_exit|quick_exit|terminate|__builtin_trap)\s*\(")
FATAL_ALLOWED = {
    "proto/core/dims.h": "every caller has bounded the rank",
    "server/main.cc": "the flags, before any request",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
STRING = re.compile(r'"([a-z_][a-z0-9_]*)"|\'([a-z_][a-z0-9_]*)\'')
OP_ID = re.compile(r"\bops::([a-z_][a-z0-9_]*)\b")
OP_LIST_ALLOWED = re.compile(r"lint: ops listed here, (\w+)")
SKIPPED = {"build", "dist", "shared", ".git", ".venv", "__pycache__", "node_modules"}


def files_of(root, suffixes):
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.suffix in suffixes and path.is_file() and not SKIPPED.intersection(parts):
            yield "/".join(parts), path.read_text(encoding="utf-8", errors="replace").splitlines()


def module_of(name):
    best = ""
    for module in MODULES:
        if name.startswith(module + "/") and len(module) > len(best):
            best = module
    return best


def includes_of(lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(2)


def without_comments(lines):
    """Code without // comments, strings blanked: enough to look for a call."""
    for number, line in enumerate(lines, 1):
        line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        line = line.split("//")[0]
        if not line.lstrip().startswith(("*", "/*")):
            yield number, line


class Lint:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.problems = []
        self.code = dict(files_of(self.root, {".h", ".cc", ".cpp", ".cu", ".cuh", ".c"}))
        self.python = dict(files_of(self.root, {".py"}))
        self._closures = {}

    def say(self, name, line, words):
        self.problems.append((name, line, f"{name}:{line}: {words}"))

    def run(self):
        self.check_includes()
        self.check_public_client()
        self.check_sizes()
        self.check_fatal()
        self.check_op_lists()
        return [words for _, _, words in sorted(self.problems)]

    def ours(self, include):
        return module_of(include) or (include if include in self.code else "")

    def closure(self, name):
        """Our files that a file pulls in, itself included."""
        if name not in self._closures:
            self._closures[name] = seen = {name}
            todo = [name]
            while todo:
                for _, include in includes_of(self.code.get(todo.pop(), [])):
                    if self.ours(include) and include not in seen:
                        seen.add(include)
                        todo.append(include)
        return self._closures[name]

    def is_shared_kernel_header(self, name):
        """The plug-in ABI, and headers of kernels/ that pull in nothing of the runtime."""
        if name in ("proto/core/half.h", "kernels/plugin_abi.h"):
            return True
        if module_of(name) != "kernels" or not name.endswith((".h", ".cuh")):
            return False
        return all(f in ("proto/core/half.h", "kernels/plugin_abi.h") or module_of(f) == "kernels"
                   for f in self.closure(name)) and not any(
                       include.startswith("absl/") for f in self.closure(name)
                       for _, include in includes_of(self.code.get(f, [])))

    def check_includes(self):
        for name, lines in self.code.items():
            test = bool(TESTS.search(name))
            module = module_of(name)
            for number, include in includes_of(lines):
                for library, pattern, where in LIBRARIES:
                    if re.search(pattern, include) and not re.search(where, name) and not test:
                        self.say(name, number, f"{library} is not for this file: {include}")
                if test or not module or not self.ours(include):
                    continue
                target = module_of(include)
                allowed = MODULES[module]
                if target == module or target in allowed or include in EXTRA_INCLUDES.get(name, ()):
                    continue
                if "kernels:shared" in allowed and self.is_shared_kernel_header(include):
                    continue
                may = ", ".join(sorted(allowed)) or "nothing of ours"
                self.say(name, number, f"{module} may not include {include} (it may: {may})")

    def check_public_client(self):
        seen = set()
        for start in PUBLIC_CLIENT:
            if start in self.code:
                seen |= self.closure(start)
        for name in sorted(seen):
            for number, include in includes_of(self.code.get(name, [])):
                if include.startswith(("telensor/v1/", "google/protobuf/", "grpc")):
                    self.say(name, number, f"a public header of the client shows {include}")

    def check_sizes(self):
        for name, lines in {**self.code, **self.python}.items():
            if TESTS.search(name) or "/tests/" in name:
                continue
            limit = HEADER_LINES if name.endswith((".h", ".cuh")) else SOURCE_LINES
            if len(lines) >= limit:
                self.say(name, len(lines), f"{len(lines)} lines; the limit is {limit}: split it by noun")
        for name, lines in files_of(self.root, {".md"}):
            if name.count("/") == 1 and name.endswith("/README.md") and len(lines) >= README_LINES:
                self.say(name, len(lines), f"{len(lines)} lines; a folder's README has less than {README_LINES}")

    def check_fatal(self):
        for name, lines in self.code.items():
            if not REQUEST_CODE.match(name) or TESTS.search(name) or name in FATAL_ALLOWED:
                continue
            for number, line in without_comments(lines):
                match = FATAL.search(line)
                if match:
                    self.say(name, number, f"{match.group(1)} in request code: return an error")

    def op_names(self):
        names = set()
        for path in (self.root / "proto/ops").glob("*.toml"):
            names |= {row.split(".")[0] for row in tomllib.loads(path.read_text(encoding="utf-8"))}
        return names

    def check_op_lists(self):
        ops = self.op_names()
        for name, lines in {**self.code, **self.python}.items():
            if TESTS.search(name) or "/tests/" in name or name.startswith(("kernels/cpu/", "kernels/cuda/", "examples/")):
                continue
            found = {}
            for number, line in enumerate(lines, 1):
                if OP_LIST_ALLOWED.search(line):
                    found = {}
                    break
                named = [a or b for a, b in STRING.findall(line)] + OP_ID.findall(line)
                for word in named:
                    if word.removesuffix("_op") in ops:
                        found.setdefault(word, number)
            if len(found) >= MANY_OPS:
                some = ", ".join(sorted(found)[:5])
                self.say(name, min(found.values()),
                         f"names {len(found)} ops ({some}, ...): a second list of ops rots; put the property in the "
                         f"row, or say 'lint: ops listed here, REASON'")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    lint = Lint(root)
    problems = lint.run()
    print("\n".join(problems), end="\n" if problems else "")
    print(f"lint: {len(lint.code) + len(lint.python)} files, {len(problems)} violations")
    return 1 if problems or not lint.code else 0


if __name__ == "__main__":
    sys.exit(main())
