"""Where the secret comes from by which the processes of a job know each other.

An explicit secret belongs to one job. Without one, processes of one user on one machine share a file that only this user
can read, so that a group on loopback needs no configuration; that file never serves other machines.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from distarray.errors import RendezvousError

__all__ = ["FILE", "MAKE", "VARIABLE", "Secret", "default_path", "describe", "find_secret"]

VARIABLE = "DISTARRAY_SECRET"
FILE = "DISTARRAY_SECRET_FILE"
#: A shorter secret could be guessed from a recorded handshake.
SHORTEST = 16
LONGEST = 4096
MAKE = f'export {VARIABLE}=$(python -c "import secrets; print(secrets.token_hex(32))")'


class Secret(NamedTuple):
    """The bytes, and in words where they came from. Printing one never shows the bytes."""

    key: bytes
    source: str

    def __repr__(self) -> str:
        return f"<secret from {self.source}>"


def find_secret(
    given: bytes | str | None, *, loopback: bool, where: str, environ: Mapping[str, str] | None = None
) -> Secret:
    """The job's secret: the argument, else DISTARRAY_SECRET, else DISTARRAY_SECRET_FILE, else the user's own on loopback.

    Parameters
    ----------
    given : bytes or str or None
        What the caller passed.
    loopback : bool
        Whether only this machine can reach the address.
    where : str
        The address, for messages.

    Raises
    ------
    RendezvousError
        Without a secret for an address that other machines reach; for one that is too short; for a file that others
        could read or that is not this user's.
    """
    environ = os.environ if environ is None else environ
    if given is not None:
        return _checked(given.encode() if isinstance(given, str) else bytes(given), "the argument secret")
    if environ.get(VARIABLE):
        return _checked(os.fsencode(environ[VARIABLE]), VARIABLE)
    if environ.get(FILE):
        return _read(Path(environ[FILE]), f"the file {environ[FILE]} ({FILE})")
    if not loopback:
        raise RendezvousError(
            f"{where} can be reached from other machines, and there is no secret by which this job's processes know each "
            f"other; set the same one for all of them before launching: {MAKE}, or name a file with mode 0600 in {FILE}"
        )
    return _own(environ)


def describe(environ: Mapping[str, str] | None = None) -> str:
    """Where the secret would come from, or what is wrong with it; never the secret, and makes no file."""
    environ = os.environ if environ is None else environ
    path = default_path(environ)
    if not environ.get(VARIABLE) and not environ.get(FILE) and not path.exists():
        return f"none set; on loopback {path} is made at first use, other addresses are refused"
    try:
        found = find_secret(None, loopback=True, where="", environ=environ).source
    except RendezvousError as error:
        return f"unusable: {error}"
    return found


def default_path(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own secret: in XDG_RUNTIME_DIR where that is this user's directory, else in the temporary directory."""
    environ = os.environ if environ is None else environ
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime:
        with contextlib.suppress(OSError):
            if os.stat(runtime).st_uid == os.geteuid() and os.access(runtime, os.W_OK):
                return Path(runtime) / "distarray" / "secret"
    return Path(tempfile.gettempdir()) / f"distarray-{os.geteuid()}" / "secret"


def _checked(key: bytes, source: str) -> Secret:
    if not SHORTEST <= len(key) <= LONGEST:
        raise RendezvousError(
            f"the secret from {source} has {len(key)} bytes, but {SHORTEST} to {LONGEST} are needed; make one with {MAKE}"
        )
    return Secret(key, source)


def _read(path: Path, source: str) -> Secret:
    """Read a secret from a file that is this user's alone. Checks what was opened, not what the name meant before."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise RendezvousError(
            f"{source} cannot be read ({error.strerror}); make a regular file there with mode 0600, or set {VARIABLE}"
        ) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise RendezvousError(f"{source} is not a regular file; make one there with mode 0600, or set {VARIABLE}")
        if status.st_uid != os.geteuid():
            raise RendezvousError(
                f"{source} belongs to user {status.st_uid}, but this process is user {os.geteuid()}; "
                f"use a file of this user, or set {VARIABLE}"
            )
        if status.st_mode & 0o077:
            raise RendezvousError(
                f"{source} has mode {stat.S_IMODE(status.st_mode):04o}, which lets others use it, but 0600 is needed; "
                f"chmod 600 {path}, and replace the secret if others may have read it"
            )
        return _checked(os.read(handle, LONGEST + 2).rstrip(b"\r\n"), source)
    finally:
        os.close(handle)


def _own(environ: Mapping[str, str]) -> Secret:
    """The user's own secret, made by whichever process comes first: a link appears whole or not at all."""
    path = default_path(environ)
    source = f"{path} (this user's own; loopback only)"
    folder = path.parent
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise RendezvousError(
            f"{folder} is not a directory that this user alone can write to, so the secret in it cannot be trusted; "
            f"remove it, or set {VARIABLE}"
        )
    if not path.exists():
        draft = folder / f".{os.getpid()}-{secrets.token_hex(8)}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(secrets.token_hex(32).encode())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
    return _read(path, source)
