"""DLPack, the buffer protocol and NumPy's protocols: values, lifetimes, hostile capsules."""

import ctypes
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest
import thalweg as tw

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    t = tw.from_dlpack(x)
    np.testing.assert_array_equal(np.asarray(t), x, strict=True)
    np.testing.assert_array_equal(np.from_dlpack(t + t), x + x, strict=True)
    np.testing.assert_array_equal(np.asarray(tw.asarray(x)), x, strict=True)
    assert pickle.loads(pickle.dumps(t)).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(dtype):
    x = (np.arange(6) + 1j).reshape(2, 3).astype(dtype)
    for y in (tw.from_dlpack(x), tw.asarray(x), tw.asarray(x.tolist(), dtype=dtype)):
        np.testing.assert_array_equal(np.asarray(y), x, strict=True)
        np.testing.assert_array_equal(np.from_dlpack(y), x, strict=True)
    with pytest.raises(BufferError):
        tw.from_dlpack(x, copy=False)


def test_no_copy():
    x = np.arange(1000.0)
    t = tw.from_dlpack(x)
    address = np.from_dlpack(t).ctypes.data
    assert address == x.ctypes.data
    assert np.asarray(t).ctypes.data == address
    # Views share the memory, too; operations do not write it.
    view = x.reshape(20, 50)[::-2, 3:]
    u = tw.from_dlpack(view)
    np.testing.assert_array_equal(np.asarray(u), view)
    for _ in range(5):
        v = tw.from_dlpack(x)
        w = v * 2 + 1
        del v
        w.tolist()
    assert x[7] == 7.0 and not np.asarray(t).flags.writeable


def test_the_producer_is_kept_and_freed():
    class Owner(np.ndarray):
        pass

    x = np.arange(100.0).view(Owner)
    alive = weakref.ref(x)
    t = tw.from_dlpack(x)
    del x
    gc.collect()
    assert alive() is not None and float(t[99]) == 99.0
    y = t + 1
    del t
    assert y.tolist()[0] == 1.0
    del y
    tw.synchronize()
    gc.collect()
    # The stream may keep inputs of its last segment until the next one.
    tw.asarray([1.0]).tolist()
    float(tw.ones((2,)).sum())
    gc.collect()
    assert alive() is None


def test_an_exported_array_is_kept_and_unchanged():
    t = tw.arange(1000, dtype=tw.float64) * 2
    x = np.from_dlpack(t)
    del t
    gc.collect()
    for _ in range(10):
        (tw.arange(1000, dtype=tw.float64) * 3).tolist()
    assert x[10] == 20.0 and x[999] == 1998.0


def test_references_do_not_leak():
    x = np.arange(10.0)
    before = sys.getrefcount(x)
    for _ in range(50):
        t = tw.from_dlpack(x)
        float(t.sum())
        del t
    float(tw.ones((2,)).sum())
    gc.collect()
    assert sys.getrefcount(x) <= before + 1


def test_capsules():
    t = tw.arange(6, dtype=tw.float32)
    for version in (None, (0, 8), (1, 0), (1, 1), (2, 0)):
        capsule = t.__dlpack__(max_version=version)
        assert ("versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
    del capsule  # not consumed: its destructor frees it
    assert t.__dlpack_device__() == (1, 0)

    class Once:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return (1, 0)

    once = Once(t.__dlpack__())
    assert tw.from_dlpack(once).tolist() == t.tolist()
    with pytest.raises(ValueError, match="consumed"):
        tw.from_dlpack(once)
    with pytest.raises(TypeError):
        tw.from_dlpack(Once(object()))
    with pytest.raises(TypeError):
        tw.from_dlpack(object())
    copy = np.from_dlpack(t, copy=True)
    copy[0] = 9
    assert t.tolist()[0] == 0.0


class RawTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]


class Hostile:
    """A capsule with any contents, whose deleter counts its calls."""

    def __init__(self, **fields):
        self.memory = (ctypes.c_float * 16)(*range(16))
        shape = fields.pop("shape", (2, 3))
        strides = fields.pop("strides", None)
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.deleted = 0

        def delete(_):
            self.deleted += 1

        self.delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete)
        values = dict(
            data=ctypes.addressof(self.memory), device_type=1, device_id=0, ndim=len(shape), code=2, bits=32, lanes=1,
            shape=self.shape, byte_offset=0, deleter=ctypes.cast(self.delete, ctypes.c_void_p),
        )
        if self.strides is not None:
            values["strides"] = self.strides
        values.update(fields)
        self.raw = RawTensor(**values)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = new(ctypes.addressof(self.raw), b"dltensor", None)

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="pages are asked for on Linux only")


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (dict(code=9), TypeError),
        (dict(bits=24), TypeError),
        (dict(lanes=4), TypeError),
        (dict(ndim=-1), ValueError),
        (dict(shape=(1,) * 9), ValueError),
        (dict(shape=(-2, 3)), ValueError),
        (dict(shape=(2**40, 2**40)), ValueError),
        (dict(strides=(2**62, 1)), ValueError),
        (dict(data=0), ValueError),
        (dict(device_type=99), BufferError),
        (dict(device_type=10), BufferError),
        (dict(bits=0), TypeError),
        (dict(lanes=65535), TypeError),
        (dict(ndim=2**31 - 1), ValueError),
        (dict(shape=(2**62, 4)), ValueError),
        (dict(shape=(2**63 - 1,)), ValueError),
        (dict(strides=(-(2**63), 1)), ValueError),
        # Addresses that wrap, and that no memory of the process has.
        (dict(byte_offset=2**63), ValueError),
        (dict(byte_offset=2**64 - 8), ValueError),
        pytest.param(dict(data=64), ValueError, marks=LINUX),
        pytest.param(dict(strides=(2**40, -(2**40))), ValueError, marks=LINUX),
        pytest.param(dict(byte_offset=2**45), ValueError, marks=LINUX),
    ],
)
def test_hostile_capsules(fields, kind):
    hostile = Hostile(**fields)
    with pytest.raises(kind):
        tw.from_dlpack(hostile)
    # It was refused, so it was not consumed, and its owner still frees it.
    assert hostile.deleted == 0


@LINUX
def test_unmapped_memory():
    import mmap

    page = mmap.mmap(-1, 4096)
    pointer = ctypes.addressof(ctypes.c_char.from_buffer(page))
    used = Hostile(data=pointer, shape=(4,))
    assert tw.from_dlpack(used).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="consumed"):
        tw.from_dlpack(used)
    gc.collect()
    page.close()
    freed = Hostile(data=pointer, shape=(4,))
    with pytest.raises(ValueError, match="no memory"):
        tw.from_dlpack(freed)


def test_odd_capsules():
    odd = Hostile(strides=(0, 2))
    t = tw.from_dlpack(odd)
    assert t.tolist() == [[0, 2, 4], [0, 2, 4]]
    back = Hostile(shape=(3,), strides=(-1,), byte_offset=8)
    assert tw.from_dlpack(back).tolist() == [2, 1, 0]
    unaligned = Hostile(shape=(2,), byte_offset=2)
    tw.from_dlpack(unaligned).tolist()
    assert unaligned.deleted == 1
    empty = Hostile(shape=(0, 3), data=0)
    assert tw.from_dlpack(empty).shape == (0, 3) and empty.deleted == 1
    del t
    float(tw.ones((2,)).sum())
    gc.collect()
    assert odd.deleted == 1


def test_buffers():
    t = tw.asarray([[1, 2], [3, 4]], dtype=tw.int16)
    view = memoryview(t)
    assert (view.shape, view.format, view.readonly, view.tolist()) == ((2, 2), "h", True, [[1, 2], [3, 4]])
    assert memoryview(t[:, ::-1]).tolist() == [[2, 1], [4, 3]]
    assert bytes(t) == np.array([[1, 2], [3, 4]], dtype=np.int16).tobytes()
    assert memoryview(tw.asarray(5)).shape == ()
    with pytest.raises(BufferError):
        memoryview(tw.ones((2,), dtype=tw.bfloat16))
    assert tw.asarray(b"ab").tolist() == [97, 98]
    assert tw.asarray(memoryview(b"ab")).dtype == tw.uint8
    strided = np.arange(12).reshape(3, 4)[:, ::2]
    np.testing.assert_array_equal(np.asarray(tw.asarray(strided)), strided)
    del t
    assert view.tolist() == [[1, 2], [3, 4]]


def test_asarray_copies_what_its_owner_may_change():
    x = np.zeros(3)
    t = tw.asarray(x)
    x[0] = 1
    assert t.tolist() == [0, 0, 0]
    shared = tw.asarray(x, copy=False)
    assert shared.tolist() == [1, 0, 0]
    with pytest.raises(ValueError):
        tw.asarray([1, 2], copy=False)
    np.testing.assert_array_equal(np.asarray(t, dtype=np.float32), np.zeros(3, np.float32))
    assert np.array(t, copy=True).flags.writeable


def test_conversions():
    assert float(tw.asarray(2.5)) == 2.5 and int(tw.asarray(7)) == 7 and bool(tw.asarray(True))
    assert complex(tw.asarray(1 + 2j)) == 1 + 2j and [10, 20, 30][tw.asarray(1)] == 20
    assert tw.asarray([[1.5]]).item() == 1.5 and isinstance(tw.asarray(3).item(), int)
    assert int(tw.asarray(2**63, dtype=tw.uint64)) == 2**63
    for wrong in (lambda: bool(tw.ones((2,))), lambda: float(tw.ones((2,)))):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: float(tw.asarray(1j)), lambda: [1][tw.asarray(0.0)], lambda: hash(tw.ones((2,)))):
        with pytest.raises(TypeError):
            wrong()
    assert tw.zeros((2, 0, 3)).tolist() == [[], []]
