"""Hands every call to a process outside. Generated."""

import os
import struct
import threading

import numpy as np

_SOCKET = int(os.environ["SOCKET_VARIABLE"])
_LOCK = threading.Lock()
_DTYPES = ["float16", None, "float32", "float64", "int32", "int64"]
_RELEASED = []


class Refused(ValueError, TypeError, IndexError, RuntimeError, AssertionError):
    """The contract asks for an exception, whichever."""


class _State:
    def __init__(self, number):
        self.number = number

    def __del__(self):
        _RELEASED.append(self.number)


def _send(frame):
    frame = struct.pack("=I", len(frame)) + frame
    while frame:
        frame = frame[os.write(_SOCKET, frame) :]


def _take(count):
    parts = []
    while count:
        part = os.read(_SOCKET, min(count, 1 << 20))
        if not part:
            raise ConnectionError("nobody stands in any more")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _receive():
    (length,) = struct.unpack("=I", _take(4))
    return _take(length)


def _put_tensor(value):
    array = np.asarray(value)
    if array.dtype.name not in _DTYPES:
        array = array.astype("float64" if array.dtype.kind == "f" else "int64")
    head = struct.pack("=BB", _DTYPES.index(array.dtype.name), array.ndim)
    return head + struct.pack(f"={array.ndim}q", *array.shape) + np.ascontiguousarray(array).tobytes()


def _put(kind, value):
    if kind == "t":
        return _put_tensor(value)
    if kind == "r":
        return struct.pack("=d", float(value))
    if kind == "i":
        return struct.pack("=q", int(value))
    if not isinstance(value, _State):
        raise Refused(f"{value!r} is no state")
    return struct.pack("=I", value.number)


def _call(operation, inputs, values, outputs):
    with _LOCK:
        while _RELEASED:
            _send(struct.pack("=II", 0xFFFFFFFF, _RELEASED.pop()))
            _receive()
        try:
            put = [_put(kind, value) for kind, value in zip(inputs, values)]
        except (TypeError, ValueError, struct.error, OverflowError) as error:
            raise Refused(str(error)) from None
        _send(struct.pack("=I", operation) + b"".join(put) + b"\0")
        reply = _receive()
    if reply[0]:
        raise Refused(reply[1:].decode("utf-8", "replace"))
    if reply[1]:
        spoilt = values[reply[1] - 1]
        if isinstance(spoilt, np.ndarray) and spoilt.size and spoilt.flags.writeable:
            spoilt.flat[0] += 1
    at, results = 2, []
    for kind in outputs:
        if kind == "s":
            results.append(_State(*struct.unpack_from("=I", reply, at)))
            at += 4
            continue
        code, axes = reply[at], reply[at + 1]
        shape = struct.unpack_from(f"={axes}q", reply, at + 2)
        at += 2 + 8 * axes
        dtype = np.dtype(_DTYPES[code])
        count = int(np.prod(shape, dtype=np.int64))
        results.append(np.frombuffer(reply, dtype, count, at).reshape(shape).copy())
        at += count * dtype.itemsize
    return tuple(results) if len(results) > 1 else results[0] if results else None
