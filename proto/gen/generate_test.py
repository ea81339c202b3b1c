"""Rows that can't be right fail the build with a message that names the row. Run: python3 proto/gen/generate_test.py"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

GOOD = {
    "neg": {
        "signature": "neg(Tensor self) -> Tensor",
        "shape": "pointwise(self)",
        "dtype": "same(self)",
        "grad": {"self": "neg(grad)"},
    },
    "sub": {
        "signature": "sub(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "shape": "broadcast(self, other)",
        "dtype": "promote(self, other)",
        "grad": {"self": "grad", "other": "neg(grad)"},
    },
    "twice": {
        "signature": "twice(Tensor self, int dim=0) -> Tensor",
        "shape": "size_of(self)",
        "dtype": "same(self)",
        "formula": "x = neg(self)\nsub(neg(x), x, alpha=1) if dim(self) > 0 and dim != 3 else self",
    },
}


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{k}" = {toml_value(v)}' for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def run(rows):
    """Runs the generator as the build does. (its exit status, what it said, the folder's files by name)"""
    with tempfile.TemporaryDirectory() as folder:
        ops = pathlib.Path(folder, "ops")
        ops.mkdir()
        text = []
        for name, row in rows.items():
            text.append(f'["{name}"]')
            text += [f"{key} = {toml_value(value)}" for key, value in ({"doc": "Test."} | row).items()]
        (ops / "rows.toml").write_text("\n".join(text), encoding="utf-8")
        out = pathlib.Path(folder, "out")
        done = subprocess.run(
            [sys.executable, str(HERE / "generate.py"), "--ops", str(ops), "--core", str(HERE.parent / "core"), "--out", str(out)],
            capture_output=True, text=True, check=False)
        files = {str(p.relative_to(out)): p.read_text(encoding="utf-8") for p in out.rglob("*") if p.is_file()}
        return done.returncode, done.stderr, files


def changed(name, **fields):
    """The good rows with one of them changed; a field set to None is left out."""
    row = {k: v for k, v in (GOOD[name] | fields).items() if v is not None}
    return GOOD | {name: row}


class GeneratorTest(unittest.TestCase):
    def assert_fails(self, rows, *words):
        status, said, _ = run(rows)
        self.assertEqual(status, 1, said)
        for word in words:
            self.assertIn(word, said)
        self.assertNotIn("Traceback", said)

    def test_good_rows(self):
        status, said, files = run(GOOD)
        self.assertEqual((status, said), (0, ""))
        self.assertIn('"sub(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"', files["proto/core/op_table.cc"])
        self.assertIn("inline constexpr OpId sub = 1;", files["proto/core/op_ids.h"])
        self.assertIn("Tensor sub(const Tensor& self, const Tensor& other, const Scalar& alpha = 1);", files["client-cpp/ops.h"])
        self.assertIn("ops::sub, inputs, 2, attrs, 1", files["client-cpp/ops.cc"])
        self.assertIn("## `twice`", files["ops.md"])

    def test_the_whole_table(self):
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([sys.executable, str(HERE / "generate.py"), "--ops", str(HERE.parent / "ops"), "--core",
                            str(HERE.parent / "core"), "--out", out], check=True)

    def test_misspelt_op(self):
        self.assert_fails(changed("twice", formula="negg(self)"), "twice", "negg")
        self.assert_fails(changed("neg", grad={"self": "negg(grad)"}), "neg", "negg")

    def test_wrong_arity(self):
        self.assert_fails(changed("twice", formula="neg(self, self)"), "twice", "neg", "2")
        self.assert_fails(changed("twice", formula="sub(self)"), "twice", "sub", "other")
        self.assert_fails(changed("twice", formula="sub(self, self, beta=2)"), "twice", "beta")
        self.assert_fails(changed("twice", formula="sub(self, self, other=self)"), "twice", "other")

    def test_unknown_name(self):
        self.assert_fails(changed("twice", formula="neg(selff)"), "twice", "selff")
        self.assert_fails(changed("twice", formula="neg(grad)"), "twice", "grad")

    def test_broken_formula(self):
        self.assert_fails(changed("twice", formula="neg(self"), "twice")
        self.assert_fails(changed("twice", formula="neg(self)\nx = self"), "twice")
        self.assert_fails(changed("twice", formula="[neg(x) for x in self]"), "twice")

    def test_input_without_gradient(self):
        self.assert_fails(changed("sub", grad={"self": "grad"}), "sub", "other")
        self.assert_fails(changed("sub", grad={"self": "grad", "other": "none", "alpha": "grad"}), "sub", "alpha")
        self.assert_fails(changed("sub", grad=None), "sub", "grad")
        self.assertEqual(run(changed("sub", grad={"self": "grad", "other": "none"}))[0], 0)

    def test_unknown_rule(self):
        self.assert_fails(changed("neg", shape="pointwisee(self)"), "neg", "pointwisee")
        self.assert_fails(changed("neg", dtype="samee(self)"), "neg", "samee")
        self.assert_fails(changed("neg", shape="pointwise(selff)"), "neg", "selff")
        self.assert_fails(changed("neg", shape=["pointwise(self)", "pointwise(self)"]), "neg")
        self.assert_fails(changed("neg", shape="pointwise"), "neg")

    def test_unknown_field(self):
        self.assert_fails(changed("neg", gradient="none"), "neg", "gradient")
        self.assert_fails(changed("neg", shape=None), "neg", "shape")
        self.assert_fails(changed("neg", kind="magic"), "neg", "magic")

    def test_overloads(self):
        def overload(params):
            return GOOD | {"twice.more": GOOD["twice"] | {"signature": f"twice({params}) -> Tensor", "formula": "neg(self)"}}

        # C++ takes a number for a bool, and the reverse: what tells the overloads apart takes its own type only.
        status, said, files = run(overload("Tensor self, bool flag"))
        self.assertEqual((status, said), (0, ""))
        header = files["client-cpp/ops.h"]
        self.assertIn("template <typename T1, IfInt<T1> = 0>\nTensor twice(const Tensor& self, T1 dim)", header)
        self.assertIn("template <typename T1, IfBool<T1> = 0>\nTensor twice(const Tensor& self, T1 flag)", header)
        self.assertEqual(run(overload("Tensor self, Tensor other"))[0], 0)
        self.assert_fails(overload("Tensor self, Scalar? dim") | {
            "twice": GOOD["twice"] | {"signature": "twice(Tensor self, Scalar dim) -> Tensor", "formula": "neg(self)"},
        }, "twice.more", "apart")

    def test_bad_signature(self):
        self.assert_fails(changed("neg", signature="negate(Tensor self) -> Tensor"), "neg")
        self.assert_fails(changed("neg", signature="neg(Tensr self) -> Tensor"), "neg", "Tensr")
        self.assert_fails(changed("neg", signature="neg(Tensor self, int self=0) -> Tensor"), "neg", "twice")
        self.assert_fails(changed("neg", signature="neg(Tensor self) -> Int"), "neg")
        self.assert_fails(changed("neg", signature="neg(Tensor[] self, Tensor[] more) -> Tensor"), "neg", "list")


if __name__ == "__main__":
    unittest.main()
