"""Programs of scikit-learn and SciPy; left out where these are not installed."""

import pathlib
import sys

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))

import programs  # noqa: E402

# Programs that cannot run, with the reason.
REFUSED = {
    "metrics.roc_curve": "calls where with one argument, which is no function of the standard",
    "GaussianMixture": "writes to the diagonal of a slice of a slice, and expects the array to change",
    "scipy.signal.oaconvolve": "adds to a slice of a slice in place, and expects the array to change",
}


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_program(name):
    if name in REFUSED:
        pytest.xfail(REFUSED[name])
    programs.run(name)
