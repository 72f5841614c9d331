"""LLVM: from the text of a kernel to a function of this machine, kept on disk.

A kernel is called with the address of its packed arguments and returns the floating-point conditions that it met. While it
runs, the interpreter is free for other threads.

What has been compiled is kept in the user's cache folder (``DISTARRAY_CACHE``, by default ``~/.cache/distarray``) as object
code, under a name made of the text, the processor and LLVM's version, with a checksum. The folder must belong to the user and
be closed to writes of others: what lies there is run.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import platform
import stat
import tempfile
import threading
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from distarray.devices.arrays import Library

__all__ = ["CONDITIONS", "Machine", "is_loaded", "is_offered", "machine"]

CONDITIONS = {"invalid": 1, "divide": 4, "over": 8, "under": 16}
"""Bits of x86's MXCSR register."""

FILES = 2000
"""Kernels that the folder holds; the oldest half makes room."""


class Function:
    """A loaded kernel, and the engine that its code belongs to."""

    __slots__ = ("_engine", "call")

    def __init__(self, engine: object, address: int) -> None:
        self._engine = engine
        self.call: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(address)


class Machine:
    """A compiler for the processor of this process."""

    def __init__(self, llvm: Library) -> None:
        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._lock = threading.Lock()
        self._options = {
            "cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten(), "opt": 2, "jit": True,
        }  # fmt: skip
        self._target = self._targeted()
        self._kind = f"3 {llvm.llvm_version_info} {self._target.triple} {self._options}".encode()
        self._folder = _folder()

    def _targeted(self) -> Any:
        return self._llvm.Target.from_default_triple().create_target_machine(**self._options)

    def kept(self, text: str) -> Function | None:
        """The function of a text that has been compiled before."""
        path = self._path(text)
        if path is None:
            return None
        try:
            data = path.read_bytes()
        except OSError:
            return None
        code = data[32:]
        if blake2b(code, digest_size=32).digest() != data[:32]:
            return None
        return self._loaded(code)

    def compiled(self, text: str) -> Function:
        """The function of a text, compiled and kept on disk.

        LLVM's optimizer is left out: texts are written as they should run.
        """
        with self._lock:
            module = self._llvm.parse_assembly(text)
            module.verify()
            code = self._target.emit_object(module)
        path = self._path(text)
        if path is not None:
            _write(path, blake2b(code, digest_size=32).digest() + code)
        return self._loaded(code)

    def _path(self, text: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{blake2b(text.encode() + self._kind, digest_size=20).hexdigest()}.o"

    def _loaded(self, code: bytes) -> Function:
        llvm = self._llvm
        with self._lock:
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._targeted())  # which it takes over
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
            return Function(engine, engine.get_function_address("kernel"))


def _folder() -> Path | None:
    """Where kernels are kept; None where there is no such place that is the user's alone."""
    given = os.environ.get("DISTARRAY_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        path = Path(given) if given else (Path(base) if base else Path.home() / ".cache") / "distarray"
        path = path / "kernels"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except (OSError, RuntimeError):
        return None
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return None
    return path


def _write(path: Path, data: bytes) -> None:
    """All or nothing, since several processes may compile the same."""
    with contextlib.suppress(OSError):
        files = list(path.parent.glob("*.o"))
        if len(files) >= FILES:
            ages = sorted([(file.stat().st_mtime, file) for file in files])
            for _, file in ages[: FILES // 2]:
                file.unlink(missing_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)


@cache
def is_offered() -> bool:
    """Whether there may be a compiler here. Nothing is loaded."""
    if os.environ.get("DISTARRAY_COMPILED", "1") == "0" or platform.machine() != "x86_64" or os.name != "posix":
        return False
    return importlib.util.find_spec("llvmlite") is not None


@cache
def machine() -> Machine | None:
    """The compiler, loaded when it is first asked for: that takes a tenth of a second or more. None where there is none, or
    ``DISTARRAY_COMPILED=0`` says so."""
    if not is_offered():
        return None
    try:
        import llvmlite.binding as llvm

        return Machine(llvm)
    except (ImportError, OSError, RuntimeError, AttributeError):
        return None


def is_loaded() -> bool:
    return machine.cache_info().currsize > 0
