"""An exception of one process, said in words, and raised by the others as one of the same type: programs catch by type."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Any

from distarray.errors import RemoteError, RemoteFileError

__all__ = ["alike", "remote", "told"]


def told(error: Exception) -> str:
    """An exception in words, for :func:`alike`: the names of its types, nearest first, what made it, and its text."""
    kinds = [f"{kind.__module__}:{kind.__qualname__}" for kind in type(error).__mro__ if issubclass(kind, Exception)]
    args = list(error.args)
    if isinstance(error, OSError) and error.filename is not None:
        args.append(error.filename)  # which its `args` leave out
    plain = all(type(arg) in (str, int, float) for arg in args)
    return json.dumps([kinds, args if plain else None, str(error)])


def alike(words: str) -> Exception:
    """What another process raised: of its type, where this process has that under its name, else of the nearest that it has."""
    kinds, args, text = json.loads(words)
    for name in kinds:
        kind = _named(name)
        for given in ([] if args is None else [args]) + [[text]]:
            made = None if kind is None else _made(kind, given, text)
            if made is not None:
                return made
    return Exception(text)


def remote(words: str, rank: int, operation: str) -> RemoteError:
    """What another process raised, as a ``RemoteError`` that is of its type too, where there can be such a one."""
    kinds, _, text = json.loads(words)
    text = f"process {rank} raised {kinds[0].rpartition(':')[2]} in {operation}: {text}"
    for name in kinds:
        kind: Any = _named(name)  # mypy takes no type of exceptions for hashable
        made = None if kind is None else _made(_remote_kind(kind), [text], text)
        if isinstance(made, RemoteError):
            return made
    return RemoteError(text)


def _named(name: str) -> type[Exception] | None:
    """An exception type of a module that this process has imported; None where there is none of the name."""
    place, _, path = name.partition(":")
    found: object = sys.modules.get(place)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _made(kind: type[Exception] | None, args: list[object], text: str) -> Exception | None:
    """An exception that says the text; None where the type is made of something else, which words cannot bring."""
    try:
        made = kind(*args) if kind is not None else None
        return made if str(made) == text else None
    except Exception:  # types of libraries and programs may want anything
        return None


@lru_cache(maxsize=64)
def _remote_kind(kind: type[Exception]) -> type[Exception] | None:
    """The type of a failure elsewhere that is caught as `kind` too; None where Python can't make one of both."""
    base = RemoteFileError if issubclass(kind, OSError) else RemoteError
    if issubclass(base, kind):
        return base
    try:
        return type(base.__name__, (base, kind), {"__module__": base.__module__, "__str__": Exception.__str__})
    except TypeError:
        return None
