"""Writes ops.md: the reference of all ops, formulas included."""


def emit_docs(ops):
    out = ["# Ops", "", "Generated from `proto/ops`. Names starting with `_` are internal.", ""]
    for op in sorted(ops, key=lambda o: (o.base.startswith("_"), o.name)):
        out.append(f"## `{op.name}`\n\n    {op.signature}\n\n{op.row['doc']}\n")
        facts = []
        if op.row.get("inplace"):
            facts.append(f"in place as `{op.base}_`")
        if op.row.get("aliases"):
            facts.append("also " + ", ".join(f"`{a}`" for a in op.row["aliases"]))
        if op.row.get("dtypes"):
            facts.append(f"dtypes: {op.row['dtypes']}")
        if facts:
            out.append("; ".join(facts) + ".\n")
        if "formula" in op.row:
            out.append("Computed as" + "".join(f"\n    {line}" for line in [""] + op.row["formula"].strip().splitlines()) + "\n")
        if isinstance(op.row.get("grad"), dict):
            out.append("Gradients\n\n" + "\n".join(f"    {k}: {v}" for k, v in op.row["grad"].items()) + "\n")
    return "\n".join(out)
