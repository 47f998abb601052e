"""The examples of README.md run."""

import pathlib
import re

import pytest

TEXT = (pathlib.Path(__file__).resolve().parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code, capsys):
    assert len(code.strip().splitlines()) <= 12
    if "import torch" in code:
        pytest.importorskip("torch")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out
