#!/usr/bin/env python3
"""Runs the cells of a notebook without Jupyter, and with `--write` stores their outputs in it.

    python examples/notebook.py [--write] examples/explain.ipynb

A cell that needs PyTorch is left out where that is not installed. Fails where a cell raises, or where one that is stored with an
output has none.
"""

import ast
import contextlib
import importlib.util
import io
import json
import sys


def run_cell(source, names):
    """Runs a cell; returns its printed text and the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue(), value


def outputs_of(printed, value, number):
    out = []
    if printed:
        out.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = [value._repr_html_()]
        out.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return out


def main():
    write = "--write" in sys.argv
    path = next(a for a in sys.argv[1:] if not a.startswith("--"))
    with open(path) as file:
        notebook = json.load(file)
    names, number, left_out = {"__name__": "__main__"}, 0, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        source = "".join(cell["source"])
        if "torch" in cell["metadata"].get("tags", []) and importlib.util.find_spec("torch") is None:
            left_out += 1
            continue
        outputs = outputs_of(*run_cell(source, names), number)
        if bool(outputs) != bool(cell["outputs"]) and not write:
            sys.exit(f"{path}: cell {number} has {len(outputs)} outputs, {len(cell['outputs'])} are stored")
        if write:
            cell["outputs"], cell["execution_count"] = outputs, number
    if write:
        with open(path, "w") as file:
            json.dump(notebook, file, indent=1)
            file.write("\n")
    print(f"{path}: {number - left_out} cells ran" + (f", {left_out} left out without PyTorch" if left_out else ""))


if __name__ == "__main__":
    main()
