#!/usr/bin/env python3
"""Turns a CUDA source of kernels/cuda into C++ for the simulator.

    translate.py IN OUT

- NAME<...><<<grid, block, shared, stream>>>(arguments) becomes a call of cudasim::Launch.
- __shared__ variables become static ones: blocks run one after the other, their threads on one thread of the host.
- A kernel that waits for other threads runs its threads as fibers; one that does not runs them as plain calls.
"""

import pathlib
import re
import sys

WAITS = re.compile(r"__sync|__shfl|__match|BlockSum|BlockJoin|BlockPrefix|Team::")


def closing(text, at, pair):
    """The index after the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == pair[0]:
            depth += 1
        elif text[i] == pair[1]:
            depth -= 1
            if depth == 0:
                return i + 1
    raise ValueError("unbalanced " + pair)


def split(text):
    """At the commas outside of brackets."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    return parts + [text[last:].strip()]


def waiting_kernels(text):
    names = set()
    for match in re.finditer(r"__global__\s+void\s+(?:__launch_bounds__\(\w+\)\s+)?(\w+)\(", text):
        body = text.index("{", closing(text, match.end() - 1, "()"))
        if WAITS.search(text[body:closing(text, body, "{}")]):
            names.add(match.group(1))
    return names


def translate(text):
    waiting = waiting_kernels(text)
    out, at = [], 0
    while (launch := text.find("<<<", at)) >= 0:
        start = re.search(r"(\w+)(<[^;{}]*>)?\s*$", text[at:launch])
        name = start.group(0).strip()
        end = text.index(">>>", launch)
        grid, block, shared, _stream = split(text[launch + 3:end])
        stop = closing(text, text.index("(", end), "()")
        arguments = text[end + 4:stop - 1]
        kind = "true" if start.group(1) in waiting else "false"
        out.append(text[at:at + start.start()])
        out.append(f"::cudasim::Launch<{kind}>({grid}, {block}, {shared}, "
                   f"[](const auto&... a) {{ {name}(a...); }}, {arguments})")
        at = stop
    text = "".join(out) + text[at:]
    text = re.sub(r"extern __shared__ double (\w+)\[\];",
                  r"double* \1 = reinterpret_cast<double*>(::cudasim::DynamicShared());", text)
    text = text.replace("__shared__ ", "static ")
    text = re.sub(r"__launch_bounds__\(\w+\)", "", text)
    return '#include "tests/gpu/simulator/cuda_simulator.h"\n' + text


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(translate(source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
