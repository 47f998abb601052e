"""Indexing and assignment against NumPy, by keys drawn at random."""

import random

import numpy as np
import pytest
import thalweg as tw

SHAPES = [(), (1,), (5,), (0,), (3, 4), (1, 6), (4, 0), (2, 3, 4), (3, 1, 2, 2)]


def a_slice(rng, size):
    def end():
        return rng.choice([None, rng.randint(-size - 2, size + 2)])

    return slice(end(), end(), rng.choice([None, 1, 2, -1, -2, 3]))


def a_key(rng, shape):
    """A key for an array of a shape: basic parts, index arrays and masks in any order."""
    parts, axis = [], 0
    advanced = rng.random() < 0.5
    index_shape = rng.choice([(2,), (3,), (1,), (2, 2), (), (0,)])
    ellipsis_left = rng.random() < 0.3
    while axis < len(shape):
        size = shape[axis]
        roll = rng.random()
        if roll < 0.1:
            parts.append(None)
            continue
        if ellipsis_left and roll < 0.3:
            parts.append(Ellipsis)
            ellipsis_left = False
            axis += rng.randint(0, len(shape) - axis)
            continue
        if advanced and roll < 0.6 and (size > 0 or 0 in index_shape):
            shape_here = rng.choice([index_shape, index_shape, (1,) * min(len(index_shape), 1)])
            if 0 not in shape_here and size == 0:
                shape_here = (0,)
            parts.append(np.array([rng.randint(-size, size - 1) for _ in range(int(np.prod(shape_here)))], dtype=rng.choice([np.int64, np.int32])).reshape(shape_here))
            axis += 1
            continue
        if advanced and roll < 0.7:
            parts.append(np.array([rng.random() < 0.5 for _ in range(size)], dtype=bool))
            axis += 1
            continue
        if roll < 0.85 or size == 0:
            parts.append(a_slice(rng, size))
        else:
            parts.append(rng.randint(-size, size - 1))
        axis += 1
        if rng.random() < 0.2:
            break
    if len(parts) == 1 and rng.random() < 0.5:
        return parts[0]
    return tuple(parts)


def ours(key):
    """The key with thalweg's arrays in place of NumPy's."""
    if isinstance(key, tuple):
        return tuple(ours(k) for k in key)
    return tw.asarray(key) if isinstance(key, np.ndarray) else key


def result(f):
    try:
        return f()
    except (IndexError, ValueError) as e:
        return type(e)


@pytest.mark.parametrize("seed", range(60))
def test_reads_and_writes(seed):
    rng = random.Random(seed)
    for _ in range(12):
        shape = rng.choice(SHAPES)
        x = np.arange(int(np.prod(shape)), dtype=rng.choice([np.float64, np.int32, np.complex64])).reshape(shape)
        key = a_key(rng, shape)
        t = tw.asarray(x)
        want = result(lambda: x[key])
        got = result(lambda: np.asarray(t[ours(key)]))
        if isinstance(want, type):
            assert isinstance(got, type) and issubclass(got, (IndexError, ValueError)), (shape, key, got)
            continue
        assert not isinstance(got, type), (shape, key, got)
        np.testing.assert_array_equal(got, want, err_msg=f"{shape} {key}", strict=True)
        # Assignment of one value, and of values of the selection's shape. Positions that occur twice take any of them,
        # so equal values are written.
        for value in (7, np.full(np.shape(want), 9, dtype=x.dtype)):
            a, b = x.copy(), tw.asarray(x)
            a[key] = value
            b[ours(key)] = value if np.isscalar(value) else tw.asarray(value)
            np.testing.assert_array_equal(np.asarray(b), a, err_msg=f"{shape} {key} = {value}")


def test_assignment_rebinds_the_handle_alone():
    x = tw.asarray([1, 2, 3])
    y = x
    z = tw.asarray(x, copy=True)
    assert tw.asarray(x) is x and tw.asarray(x, dtype="float32") is not x
    view = x[:2]
    x[0] = 9
    assert y.tolist() == [9, 2, 3]
    assert z.tolist() == [1, 2, 3] and view.tolist() == [1, 2]


def test_values_in_order():
    x = np.zeros((4, 3))
    t = tw.asarray(x)
    mask = np.array([[True, False, True]] * 4)
    x[mask] = np.arange(8.0)
    t[tw.asarray(mask)] = tw.arange(8.0)
    np.testing.assert_array_equal(np.asarray(t), x)
    rows = np.array([0, 2])
    x[rows] = [[1, 2, 3], [4, 5, 6]]
    t[tw.asarray(rows)] = tw.asarray([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(np.asarray(t), x)
    x[:, [0, 2]] += 1
    t[:, [0, 2]] += 1
    np.testing.assert_array_equal(np.asarray(t), x)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (5, IndexError),
        (-4, IndexError),
        ((0, 0, 0), IndexError),
        ((..., ...), IndexError),
        ("a", IndexError),
        (1.5, IndexError),
        (slice(None, None, 0), ValueError),
    ],
)
def test_wrong_keys(key, kind):
    x = tw.zeros((3, 2))
    with pytest.raises(kind) as e:
        x[key]
    assert "test_indexing.py" in str(e.value) or kind is TypeError


def test_index_array_out_of_range_is_an_error_at_the_read():
    y = tw.zeros((3,))[tw.asarray([0, 3])]
    with pytest.raises(IndexError, match="out of range"):
        y.tolist()


def test_iteration_len_and_contains():
    x = tw.asarray([[1, 2], [3, 4]])
    assert [r.tolist() for r in x] == [[1, 2], [3, 4]]
    assert len(x) == 2 and 3 in x and 7 not in x
    with pytest.raises(TypeError):
        len(tw.asarray(1))
