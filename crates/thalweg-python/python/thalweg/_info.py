"""Inspection of the namespace, as the array API standard describes it."""

from thalweg import _thalweg as _t

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class __array_namespace_info__:
    """Capabilities, devices and dtypes of this namespace."""

    __module__ = "thalweg"

    def capabilities(self):
        """What the standard leaves open: boolean indexing and data-dependent shapes are there; ranks go up to 8."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        """Name of the device of arrays created without one."""
        return _t.default_device()

    def default_dtypes(self, *, device=None):
        """Dtypes of arrays created without one, by kind."""
        _check_device(device)
        return {
            "real floating": _t._default_dtype("real floating"),
            "complex floating": _t._default_dtype("complex floating"),
            "integral": _t.int64,
            "indexing": _t.int64,
        }

    def devices(self):
        """Names of the devices."""
        return tuple(_t.devices())

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes that are there, by name; those of a kind, or of a tuple of kinds."""
        _check_device(device)
        if kind is None:
            kinds = ("bool", "numeric")
        elif isinstance(kind, tuple):
            kinds = kind
        else:
            kinds = (kind,)
        names = []
        for one in kinds:
            if one not in _KINDS:
                raise ValueError(f"there is no kind {one!r} of dtypes")
            names += [name for name in _KINDS[one] if name not in names]
        return {name: getattr(_t, name) for name in names}


def _check_device(device):
    if device is not None and str(device) not in _t.devices():
        raise ValueError(f"there is no device {device!r}")
