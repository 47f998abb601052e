"""Tests of the sweep: `python -m pytest bench/sweep`; they need torch, and those of programs the Python package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

torch = pytest.importorskip("torch")

import cases  # noqa: E402
import runner  # noqa: E402


def test_names_are_unique_and_stable():
    points = cases.points()
    names = [p.name for p in points]
    assert len(names) > 6000
    assert len(set(names)) == len(names)
    assert names == [p.name for p in cases.points()]
    assert {p.family for p in points} == {e.family for e in cases.entries()}


def test_every_prefix_is_stratified():
    points = cases.points()
    prefix = cases.stratified(points)[: len(points) // 8]
    for family in {p.family for p in points}:
        share = sum(p.family == family for p in points) / len(points)
        assert abs(sum(p.family == family for p in prefix) / len(prefix) - share) < 0.01, family
    assert [p.name for p in prefix] == [p.name for p in cases.stratified(cases.points())[: len(prefix)]]


@pytest.mark.parametrize("entry", cases.entries(), ids=lambda e: e.name)
def test_every_entry_builds_inputs_and_runs(entry):
    points = cases.points_of(entry)
    smallest = min(entry.shapes, key=lambda c: len(cases.dims_text(entry.shapes[c])))
    chosen = [p for p in points if p.shape_class == smallest] or points[:1]
    for point in chosen[:3]:
        function, inputs = runner.problem(point, "cpu")
        again = runner.problem(point, "cpu")[1]
        assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(inputs, again)), point.name
        assert runner.listed(function(*inputs)), point.name


@pytest.mark.parametrize("layout", cases.LAYOUTS + ("channels_last",))
def test_layouts_keep_the_shape(layout):
    shape = (4, 6, 3, 5)
    x = cases.arranged(lambda s: torch.zeros(s), shape, layout)
    assert tuple(x.shape) == shape
    assert x.is_contiguous() == (layout in ("contiguous", "offset"))
    assert (x.storage_offset() > 0) == (layout in ("offset", "sliced"))


def test_comparison_finds_wrong_values():
    f = runner.forward_of(lambda x: x.sum(0))
    x = torch.randn(64, 32)
    right = f(x)
    assert runner.compare([right[0].clone()], right, f, [x]) is None
    assert "result 0" in runner.compare([right[0] + 1e-3], right, f, [x])
    assert "result 0" in runner.compare([right[0] * float("nan")], right, f, [x])
    assert "float64" in runner.compare([right[0].double()], right, f, [x])
    assert "elements differ" in runner.compare([torch.tensor([1, 2])], [torch.tensor([1, 3])], f, [x])


def test_rounding_is_no_wrong_value():
    # A sum of large values that cancel: eager's own error is as large.
    f = runner.forward_of(lambda x: x.sum(0))
    x = torch.randn(100_000, 1) * 1e6
    eager = f(x)
    exact = x.double().sum(0).float()
    assert runner.compare([exact], eager, f, [x]) is None
    assert runner.compare([exact + 1e4], eager, f, [x]) is not None


def test_a_wrong_program_is_reported_in_its_row(monkeypatch):
    pytest.importorskip("thalweg")
    points = {p.name: p for p in cases.points()}
    name = next(n for n in points if n.startswith("add_same/contiguous/f32/31x37/forward"))
    options = {"device": "cpu", "seconds": 0.1, "warm": 0.02, "check": True}
    assert "wrong" not in runner.measure(name, options, points)

    def wrong(self, *inputs):
        return [t * 1.001 for t in self.run(list(inputs))]

    monkeypatch.setattr(runner.Program, "__call__", wrong)
    assert "first call" in runner.measure(name, options, points)["wrong"]


def test_a_run_that_was_stopped_goes_on(tmp_path):
    pytest.importorskip("thalweg")
    file = tmp_path / "rows.jsonl"
    command = [sys.executable, HERE / "run", "--only", "^relu/.*31x37", "--check", "--json", file]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([*command, "--sample", "1"], check=True, env=environment)
    assert len(file.read_text().splitlines()) == 1
    subprocess.run([*command, "--resume"], check=True, env=environment)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == len({r["name"] for r in rows}) > 1
    assert all("error" not in r and "wrong" not in r for r in rows)
    page = tmp_path / "page.html"
    text = subprocess.run([HERE / "page", file, "--html", page], check=True, capture_output=True, text=True).stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert page.read_text().startswith("<!doctype html>")
