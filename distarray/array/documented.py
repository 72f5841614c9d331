"""Docstrings that say once what several functions share: a function takes from its model the sections that its own
docstring lacks, so that ``help`` shows every parameter and no text stands in two places."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["described_as", "join_sections", "split_sections"]

F = TypeVar("F", bound=Callable[..., Any])

ORDER = (
    "Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes", "References", "Examples",
)  # fmt: skip
"""The sections of a docstring, in numpydoc's order."""

_SHARED = ("Returns", "Raises", "Warns", "Notes")


def split_sections(text: str) -> dict[str, list[str]]:
    """The lines of each section of a docstring by its title; those before the first title under ``""``."""
    lines = inspect.cleandoc(text).splitlines()
    found: dict[str, list[str]] = {"": []}
    title = ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line in ORDER and below == "-" * len(line):
            title = line
            found[title] = []
        elif not (line == "-" * len(title) and not found[title] and title):
            found[title].append(line)
    return {name: _stripped(own) for name, own in found.items()}


def _stripped(lines: list[str]) -> list[str]:
    """The lines without empty ones at either end."""
    filled = [i for i, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def join_sections(sections: dict[str, list[str]]) -> str:
    """A docstring made of sections, the reverse of :func:`split_sections`."""
    parts = ["\n".join(sections[""])]
    for title in ORDER:
        if sections.get(title):
            parts.append("\n".join([title, "-" * len(title), *sections[title]]))
    return "\n\n".join(parts)


def _entries(lines: list[str]) -> list[tuple[list[str], str, list[str]]]:
    """The entries of a Parameters section: names, type, and the lines that describe them."""
    found: list[tuple[list[str], str, list[str]]] = []
    for line in lines:
        if line and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            found.append(([name.strip() for name in names.split(",")], kind, []))
        elif found:
            found[-1][2].append(line)
    return found


def _names(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters as docstrings write them, without that of the method's array."""
    code = function.__code__  # signature() would be slow at the import
    names = list(code.co_varnames)
    count = code.co_argcount
    found = names[:count]
    rest = names[count + code.co_kwonlyargcount :]
    if code.co_flags & inspect.CO_VARARGS:
        found.append(f"*{rest.pop(0)}")
    found += names[count : count + code.co_kwonlyargcount]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found.append(f"**{rest.pop(0)}")
    return found[1:] if found[:1] == ["self"] else found


def _returns_nothing(function: Callable[..., Any]) -> bool:
    return function.__annotations__.get("return") in (None, "None")


def _parameters(names: list[str], own: list[str], model: list[str]) -> list[str]:
    """The entries of a function's parameters in its order: its own, and of others the model's."""
    mine = _entries(own)
    taken = {name for entry in mine for name in entry[0]}
    entries = [*mine]
    for theirs, kind, lines in _entries(model):
        kept = [name for name in theirs if name in names and name not in taken]
        if kept:
            entries.append((kept, kind, lines))
    entries.sort(key=lambda entry: names.index(entry[0][0]) if entry[0][0] in names else len(names))
    found = []
    for kept, kind, lines in entries:
        found += [", ".join(kept) + (f" : {kind}" if kind else ""), *_stripped(lines)]
    return found


def described_as(model: Callable[..., Any]) -> Callable[[F], F]:
    """Complete the docstring of the decorated function by that of a model, which takes the same parameters.

    Parameters
    ----------
    model : callable
        Of its docstring come the entries of parameters that the function has and does not describe, and the sections
        Returns (of a function that returns something), Raises, Warns and Notes where it has none. For a method, the one
        parameter of the model that it lacks is the array.

    Returns
    -------
    callable
        A decorator, which returns the function itself.
    """

    def completed(function: F) -> F:
        if function.__doc__ is None or model.__doc__ is None:  # under python -OO
            return function
        own, text, names = split_sections(function.__doc__), model.__doc__, _names(function)
        lacking = [name for name in _names(inspect.unwrap(model)) if name not in names]
        if len(lacking) == 1 and function.__code__.co_varnames[:1] == ("self",):
            text = re.sub(f"(?<!`)`{lacking[0]}`(?!`)", "the array", text)
        shared = split_sections(text)
        own["Parameters"] = _parameters(names, own.get("Parameters", []), shared.get("Parameters", []))
        for title in _SHARED:
            if title not in own and title in shared and not (title == "Returns" and _returns_nothing(function)):
                own[title] = shared[title]
        function.__doc__ = join_sections(own)
        return function

    return completed
