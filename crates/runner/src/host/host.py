"""Runs a submission written in Python: the other end of the judge's socket (descriptor 3).

Everything in this process belongs to the submission as soon as it is loaded, this file too. So nothing said
here is believed by the judge: it looks at its own clock, at the outputs, and at the kernel's books.
"""

import json
import sys

sys.path.extend(json.loads(sys.argv[1]))

import _socket
import collections
import ctypes
import gc
import importlib.util
import math
import mmap
import os
import struct

import numpy as np

PROTOCOL = 2
PACKET_BYTES = 64 << 10
MESSAGE_CHARS = 2000
HELD_RESULTS = 64
HELD_BYTES = 16 << 20
JUDGE = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, 3)
DONE = struct.Struct("=4s12sII")


class WrongResult(Exception):
    pass


class Failure(Exception):
    def __init__(self, kind, message):
        self.problem = {"kind": kind, "message": message[:MESSAGE_CHARS]}


def describe(error):
    try:
        text = str(error)
    except BaseException:
        text = "(its message cannot be read)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def problem_of(error, kind):
    if isinstance(error, Failure):
        return error.problem
    if isinstance(error, WrongResult):
        return {"kind": "wrong_result", "message": str(error)[:MESSAGE_CHARS]}
    if isinstance(error, MemoryError):
        kind = "memory"
    return {"kind": kind, "message": describe(error)[:MESSAGE_CHARS]}


def leave(asked):
    """Ends the process as `sys.exit` would, without waiting for threads that may never end."""
    code = asked.code
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit((code or 0) & 255)


def say(kind, **fields):
    JUDGE.send(json.dumps({"t": kind, **fields}).encode())


def load(message):
    entry, folder = message["entry"], message["folder"]
    for path in (folder, os.path.dirname(entry)):
        if path in sys.path:
            sys.path.remove(path)
        sys.path.insert(0, path)
    name = os.path.splitext(os.path.basename(entry))[0]
    if name in sys.modules:
        name = "submission"
    spec = importlib.util.spec_from_file_location(name, entry)
    if spec is None:
        raise ImportError(f"{os.path.basename(entry)} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
LIBC.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
NO_ADDRESS = ctypes.c_void_p(-1).value


class Area:
    """Memory that the judge shares, mapped for as long as an array looks at it. Python's own `mmap` would keep a descriptor as well."""

    def __init__(self, fd, start, length):
        # Populated at once: no call pays for the first touch of a page.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self.length = max(length, 1)
        self.address = LIBC.mmap(None, self.length, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, start)
        if self.address == NO_ADDRESS:
            self.length = 0
            raise MemoryError("no memory for inputs or outputs")
        self.__array_interface__ = {"version": 3, "data": (self.address, False), "shape": (self.length,), "typestr": "|u1"}

    def __del__(self, unmap=LIBC.munmap):
        if self.length:
            unmap(self.address, self.length)

    def view(self, tensor, offset=0):
        return np.ndarray(tuple(tensor["shape"]), tensor["dtype"], np.asarray(self), offset)


def input_of(fd, tensor):
    """An input on pages of its own: a state that holds on to it holds on to no other."""
    size = np.dtype(tensor["dtype"]).itemsize * math.prod(tensor["shape"])
    return Area(fd, tensor["offset"], size).view(tensor)


def received_fd(ancillary):
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            return struct.unpack("i", data[:4])[0]
    raise OSError("no descriptor came with the message")


def of_shape(shape):
    return "(" + ", ".join(map(str, shape)) + ")"


def as_array(value, name, expected):
    """The result as an array of the dtype and shape that are due."""
    if not isinstance(value, np.ndarray):
        if isinstance(value, (bool, int, float)) and expected.shape == ():
            exact = isinstance(value, int) == (expected.dtype.kind == "i") and not isinstance(value, bool)
            if not exact:
                raise WrongResult(f"{name}: expected {expected.dtype}(), got {type(value).__name__}")
            value = np.array(value, expected.dtype)
        elif hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value)
        elif hasattr(value, "__array__"):
            value = np.asarray(value)
        else:
            due = f"{expected.dtype}{of_shape(expected.shape)}"
            raise WrongResult(f"{name}: expected {due}, got {type(value).__name__}")
    # A narrower integer loses nothing when it is copied into a wider one.
    narrower = value.dtype.kind == expected.dtype.kind == "i" and value.dtype.itemsize <= expected.dtype.itemsize
    if value.dtype != expected.dtype and not narrower or value.shape != expected.shape:
        due = f"{expected.dtype}{of_shape(expected.shape)}"
        raise WrongResult(f"{name}: expected {due}, got {value.dtype}{of_shape(value.shape)}")
    return value


class Call:
    """One call, prepared: everything that need not be timed is done here."""

    def __init__(self, module, states, inputs, outputs, message):
        self.operation = message["operation"]
        self.function = getattr(module, self.operation, None)
        if not callable(self.function):
            raise Failure("load", f"`{self.operation}` is missing")
        self.arguments = []
        for argument in message["inputs"]:
            ((kind, value),) = argument.items()
            if kind == "tensor":
                value = input_of(inputs, value)
            elif kind == "real":
                (value,) = struct.unpack("=d", struct.pack("=Q", value))
            elif kind == "state":
                value = states[value]
            self.arguments.append(value)
        self.results = []
        self.makes = None
        for position, result in enumerate(message["results"]):
            ((kind, value),) = result["place"].items()
            if kind == "state":
                self.makes = (position, value)
                self.results.append((result["name"], None))
            else:
                self.results.append((result["name"], outputs.view(value, value["offset"])))

    def run(self):
        self.value = self.function(*self.arguments)
        results = self.results
        value = self.value
        if not results and value is None:
            value = ()
        if len(results) == 1 and not isinstance(value, tuple):
            value = (value,)
        if not isinstance(value, (tuple, list)):
            raise WrongResult(f"expected {len(results)} results, got {type(value).__name__}")
        if len(value) != len(results):
            raise WrongResult(f"expected {len(results)} results, got {len(value)}")
        for (name, place), result in zip(results, value):
            if place is not None:
                np.copyto(place, as_array(result, name, place))
        self.value = value


class Held:
    """Results of the last calls where the submission returned them, as a caller may still hold them, each with the bytes it came with."""

    def __init__(self):
        self.let_go()

    def let_go(self):
        self.results = collections.deque()
        self.bytes = 0

    def after(self, call):
        """Which results the call changed; its own are held from now on."""
        told = []
        try:
            told = self.disturbed()
            self.take(call)
        except Exception:
            # There is no memory left for it, or a result cannot be looked at twice: no fault of the call.
            self.let_go()
        return told

    def disturbed(self):
        """Which are no longer what they were. Each is told once."""
        told, still = [], collections.deque()
        for operation, name, result, was in self.results:
            if result.tobytes() == was:
                still.append((operation, name, result, was))
                continue
            self.bytes -= len(was)
            if {"operation": operation, "result": name} not in told:
                told.append({"operation": operation, "result": name})
        self.results = still
        return told

    def take(self, call):
        inputs = [argument for argument in call.arguments if isinstance(argument, np.ndarray)]
        for (name, place), value in zip(call.results, call.value):
            if place is None or place.nbytes > HELD_BYTES:
                continue
            result = as_array(value, name, place)
            # Part of an input is its caller's, who may write to it.
            if not any(np.may_share_memory(result, one) for one in inputs):
                self.results.append((call.operation, name, result, result.tobytes()))
                self.bytes += result.nbytes
        while len(self.results) > HELD_RESULTS or self.bytes > HELD_BYTES:
            self.bytes -= len(self.results.popleft()[3])


def answer(call, states, held):
    """From GO to the end of the call."""
    # Bound now: between GO and DONE every look-up counts.
    read, write, run, pack = os.read, os.write, call.run, DONE.pack
    problem = None
    go = read(3, 64)
    if len(go) != 16 or go[:4] != b"TGO1":
        os._exit(0)
    try:
        run()
    except SystemExit as error:
        leave(error)
    except BaseException as error:
        problem = problem_of(error, "refused")
    write(3, pack(b"TDN1", go[4:], problem is not None, 0))
    if read(3, 64)[:4] != b"TST1":
        os._exit(0)
    if problem is None and call.makes is not None:
        position, state = call.makes
        states[state] = call.value[position]
    disturbed = []
    if held is not None and problem is None:
        disturbed = held.after(call)
    # Gone before the judge hears of it: it may look at our memory next, and only states are to be in it.
    call.__dict__.clear()
    say("settled", problem=problem, disturbed=disturbed)


def serve():
    module, outputs, states, held = None, None, {}, None
    say("hello", protocol=PROTOCOL, runtime=f"CPython {sys.version.split()[0]}, numpy {np.__version__}")
    while True:
        packet, ancillary, _, _ = JUDGE.recvmsg(PACKET_BYTES, _socket.CMSG_SPACE(4))
        if not packet:
            os._exit(0)
        message = json.loads(packet)
        kind = message["t"]
        try:
            if kind == "load":
                module = load(message)
                held = Held() if message["holds_results"] else None
                say("loaded", operations=[name for name in message["operations"] if callable(getattr(module, name, None))])
            elif kind == "arena":
                outputs = None
                fd = received_fd(ancillary)
                outputs = Area(fd, 0, message["outputs_bytes"])
                os.close(fd)
                say("mapped")
            elif kind == "prepare":
                inputs = received_fd(ancillary)
                try:
                    call = Call(module, states, inputs, outputs, message)
                finally:
                    os.close(inputs)
                if held is not None and message["lets_go"]:
                    held.let_go()
                say("ready")
                answer(call, states, held)
                call = None
            elif kind == "release":
                del states[message["id"]]
                # A state may hold itself in a circle; what is released must be gone when memory is looked at.
                gc.collect()
                say("released")
            else:
                os._exit(0)
        except SystemExit as error:
            leave(error)
        except BaseException as error:
            say("failed", problem=problem_of(error, "load" if kind == "load" else "refused"))


serve()
