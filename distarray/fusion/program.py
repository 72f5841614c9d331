"""A program: what an expression is compiled to, before anyone evaluates it.

It is apart from the evaluators so that those that generate kernels from it need not know the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distarray.sites import Site

__all__ = ["Program", "Instruction"]


class Instruction(NamedTuple):
    """One ufunc call of a program. `args` are ("leaf" | "step" | "const", value). `loud`: its errors ask for more than a
    warning, so that it is called as NumPy's own would be. `node`: the recorded call, which knows what is kept of it."""

    ufunc: Any
    args: tuple[tuple[str, Any], ...]
    kwargs: dict[str, Any]
    dtype: Any
    errors: dict[str, Any]
    site: Site
    masked: bool
    loud: bool
    node: Any = None


class Program(NamedTuple):
    """An expression in order of evaluation. `result` is an argument like those of steps."""

    steps: tuple[Instruction, ...]
    result: tuple[str, Any]
    dtype: Any
    shape: tuple[int, ...]
    name: str
