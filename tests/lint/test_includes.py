"""Tests of the lint: each rule finds what it is for, and lets pass what is right."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from includes import Lint

RIGHT = {
    "proto/ops/pointwise.toml": "".join(f"[op_{c}]\n" for c in "abcdefghijklmnopqrstuvwxyz"),
    "proto/core/half.h": "#pragma once\n#include <cstdint>\n",
    "proto/core/dims.h": "#include <cstdlib>\ninline void F() { std::abort(); }\n",
    "allocator/buffer.h": '#include "proto/core/half.h"\n',
    "kernels/plugin_abi.h": "#include <stdint.h>\n",
    "kernels/philox.h": '#include "proto/core/half.h"\n',
    "kernels/tensor.h": '#include "allocator/buffer.h"\n',
    "kernels/cpu/add.cc": '#include <omp.h>\n#include <sleef.h>\n#include "kernels/plugin_abi.h"\n#include "kernels/philox.h"\n',
    "kernels/cpu/cpu_backend.cc": '#include "kernels/backend.h"\n',
    "kernels/backend.h": '#include "kernels/plugin_abi.h"\n#include "absl/status/status.h"\n',
    "autograd/node.cc": '#include "kernels/tensor.h"\nstatic_assert(true);\n// never abort() here\n',
    "server/service.cc": '#include <grpcpp/grpcpp.h>\n#include "telensor/v1/telensor.grpc.pb.h"\n#include "autograd/node.h"\n',
    "server/executor_test.cc": '#include <gtest/gtest.h>\n#include "client-cpp/tensor.h"\n',
    "client-cpp/telensor.h": '#include "client-cpp/tensor.h"\n',
    "client-cpp/tensor.h": '#include "proto/core/dims.h"\n',
    "client-cpp/connection.cc": "#include <grpcpp/grpcpp.h>\n",
    "client-python/ext.cc": '#include <nanobind/nanobind.h>\n#include "client-cpp/tensor.h"\n',
}


def lint(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**RIGHT, **changes}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Lint(folder).run()


class LintTest(unittest.TestCase):
    def assert_one(self, changes, start, words):
        problems = lint(changes)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(start), problems[0])
        self.assertIn(words, problems[0])

    def test_a_right_tree_passes(self):
        self.assertEqual(lint({}), [])

    def test_a_layer_may_not_look_up(self):
        self.assert_one({"allocator/pool.cc": '\n#include "kernels/tensor.h"\n'}, "allocator/pool.cc:2:", "may not include")
        self.assert_one({"kernels/x.cc": '#include "server/session.h"\n'}, "kernels/x.cc:1:", "kernels may not")
        self.assert_one({"proto/core/x.h": '#include "allocator/buffer.h"\n'}, "proto/core/x.h:1:", "nothing of ours")
        self.assert_one({"autograd/x.h": '#include "server/session.h"\n'}, "autograd/x.h:1:", "autograd may not")

    def test_clients_and_server_do_not_meet(self):
        self.assert_one({"client-cpp/x.cc": '#include "kernels/tensor.h"\n'}, "client-cpp/x.cc:1:", "client-cpp may not")
        self.assert_one({"server/x.cc": '#include "client-cpp/tensor.h"\n'}, "server/x.cc:1:", "server may not")
        self.assert_one({"examples/x.cc": '#include "server/server.h"\n'}, "examples/x.cc:1:", "examples may not")

    def test_backends_see_the_plugin_abi_and_shared_headers_only(self):
        self.assert_one({"kernels/cuda/x.cu": '#include "kernels/tensor.h"\n'}, "kernels/cuda/x.cu:1:", "kernels/cuda may not")
        self.assert_one({"kernels/cpu/x.cc": '#include "kernels/backend.h"\n'}, "kernels/cpu/x.cc:1:", "kernels/cpu may not")
        self.assert_one({"kernels/philox.h": '#include "allocator/buffer.h"\n'}, "kernels/cpu/add.cc:4:", "kernels/philox.h")

    def test_libraries_stay_where_they_belong(self):
        self.assert_one({"server/session.cc": "#include <grpcpp/grpcpp.h>\n"}, "server/session.cc:1:", "gRPC")
        self.assert_one({"server/x.h": '#include "telensor/v1/telensor.grpc.pb.h"\n'}, "server/x.h:1:", "gRPC")
        self.assert_one({"kernels/x.cc": "#include <spdlog/spdlog.h>\n"}, "kernels/x.cc:1:", "spdlog")
        self.assert_one({"kernels/x.cc": "#include <cuda_runtime.h>\n"}, "kernels/x.cc:1:", "CUDA")
        self.assert_one({"kernels/cuda/x.cc": "#include <cblas.h>\n"}, "kernels/cuda/x.cc:1:", "OpenBLAS")
        self.assert_one({"autograd/x.cc": "#include <gtest/gtest.h>\n"}, "autograd/x.cc:1:", "GoogleTest")
        self.assertEqual(len(lint({"autograd/x.cc": '#include "telensor/v1/telensor.pb.h"\n'})), 2)

    def test_public_client_headers_show_no_message(self):
        self.assert_one({"client-cpp/tensor.h": '#include "telensor/v1/telensor.pb.h"\n'}, "client-cpp/tensor.h:1:", "public header")

    def test_files_stay_small(self):
        self.assert_one({"server/x.h": "\n" * 250}, "server/x.h:250:", "limit is 250")
        self.assert_one({"server/x.cc": "\n" * 600}, "server/x.cc:600:", "limit is 600")
        self.assert_one({"server/README.md": "\n" * 60}, "server/README.md:60:", "README")
        self.assertEqual(lint({"server/x.h": "\n" * 249, "server/x.cc": "\n" * 599, "server/x_test.cc": "\n" * 2000}), [])

    def test_request_code_never_ends_the_process(self):
        self.assert_one({"server/x.cc": "\nvoid F() { std::abort(); }\n"}, "server/x.cc:2:", "abort")
        self.assert_one({"kernels/cpu/x.cc": "assert(n > 0);\n"}, "kernels/cpu/x.cc:1:", "assert")
        self.assertEqual(lint({"autograd/x.cc": 'Say("abort() said somebody");\n'}), [])

    def test_ops_are_listed_once(self):
        names = ", ".join(f'"op_{c}"' for c in "abcdefghijklmnopqrstu")
        self.assert_one({"server/x.cc": f"const char* k[] = {{{names}}};\n"}, "server/x.cc:1:", "names 21 ops")
        self.assert_one({"client-python/telensor/x.py": f"NAMES = [{names}]\n".replace('"', "'")},
                        "client-python/telensor/x.py:1:", "second list")
        cases = "".join(f"case ops::op_{c}:\n" for c in "abcdefghijklmnopqrstu")
        self.assert_one({"autograd/x.cc": cases}, "autograd/x.cc:1:", "names 21 ops")
        self.assertEqual(lint({"kernels/cpu/x.cc": names, "tests/x.cc": names,
                               "client-python/telensor/x.py": f"# lint: ops listed here, operators\nNAMES = [{names}]\n"}), [])

    def test_the_program_names_file_and_line_and_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kernels" / "x.cc"
            path.parent.mkdir()
            path.write_text('#include "server/session.h"\n', encoding="utf-8")
            script = pathlib.Path(__file__).parent / "includes.py"
            run = subprocess.run([sys.executable, "-B", script, folder], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn("kernels/x.cc:1:", run.stdout)

    def test_an_empty_tree_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(__file__).parent / "includes.py"
            run = subprocess.run([sys.executable, "-B", script, folder], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)


if __name__ == "__main__":
    unittest.main()
