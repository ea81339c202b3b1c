"""The generator of the op table. Needs Python 3.11 and its standard library only.

    generate.py --ops proto/ops --core proto/core --out BUILD/generated
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from emit_client import emit_client_header, emit_client_source
from emit_docs import emit_docs
from emit_table import Emitter, emit_ids
from formula import Pool, read_helpers
from table import TableError, read_table


def read_rules(core):
    """The rule functions that proto/core/meta_rules.h declares."""
    text = (pathlib.Path(core) / "meta_rules.h").read_text(encoding="utf-8")
    return set(re.findall(r"\b((?:Shape|DType)\w+)\b", text))


def write(path, text):
    """Leaves an unchanged file alone, so that nothing is rebuilt for it."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", required=True)
    parser.add_argument("--core", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    try:
        ops = read_table(args.ops)
        pool = Pool(ops, read_helpers(pathlib.Path(args.core) / "expr.h"))
        write(args.out / "proto/core/op_table.cc", Emitter(ops, pool, read_rules(args.core)).emit())
        write(args.out / "proto/core/op_ids.h", emit_ids(ops))
        write(args.out / "client-cpp/ops.h", emit_client_header(ops))
        write(args.out / "client-cpp/ops.cc", emit_client_source(ops))
        write(args.out / "ops.md", emit_docs(ops))
    except TableError as error:
        sys.exit(f"op table: {error}")


if __name__ == "__main__":
    main()
