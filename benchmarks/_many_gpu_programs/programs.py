"""Array programs of several processes, a GPU each, against NumPy. ``--kind host`` runs them on CPUs.

Every process compares the whole result, which it gets by ``np.asarray``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import distarray as da

H = np.random.default_rng(1).integers(-40, 40, (96, 70)).astype("f4") / 8
K = np.random.default_rng(2).integers(-40, 40, (96, 70)).astype("f4") / 8
UNEVEN = {0: slice(0, 31), 1: slice(31, 96)}
STRIDED = {0: slice(0, 96, 2), 1: slice(1, 96, 2)}
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def program(name: str, distributed: Callable[..., Any], plain: Callable[..., Any] | None = None) -> None:
    """A program of two arrays in rows; `plain` does the same to NumPy arrays, by default the very same."""
    PROGRAMS[name] = (distributed, distributed if plain is None else plain)


def wrote(change: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, y: Any) -> Any:
        z = x.copy()
        change(z, y)
        return z

    return run


def on(layout: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: function(x, da.asarray(K, layout=layout))


program("elementwise, aligned", lambda x, y: (x * y + x) * 0.5 - y)
program("elementwise, uneven", on(UNEVEN, lambda x, y: x * 2 - y), lambda x, y: x * 2 - y)
program("elementwise, strided", on(STRIDED, lambda x, y: x + y), lambda x, y: x + y)
program("elementwise, columns", on(da.blocks(1), lambda x, y: x + y), lambda x, y: x + y)
program("elementwise, host operand", lambda x, y: x + K, lambda x, y: x + K)
program("broadcast", lambda x, y: x - x[:, :1] + y[3])
program("comparison", lambda x, y: (x > y) & (x != 0))
program("float64 and int32", lambda x, y: x.astype("f8") / 3 + y.astype("i4"))
program("complex", lambda x, y: (x + 1j * y).conj())
program("stencil", lambda x, y: x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1])
program("transposed", lambda x, y: x.T[:, ::-1] + y.T)
program("rows to columns", lambda x, y: x.reshard(da.blocks(1)), lambda x, y: x)
program("rows to cyclic", lambda x, y: x.reshard(da.cyclic(0, 5)), lambda x, y: x)
program("rows to replicas", lambda x, y: x.reshard(da.replicated()), lambda x, y: x)
program("uneven to columns", lambda x, y: x.reshard(UNEVEN).reshard(da.blocks(1)), lambda x, y: x)
program("sum axis 0 to replicas", lambda x, y: x.sum(axis=0).change_mode("replica"), lambda x, y: x.sum(axis=0))
program("sum left partial, used", lambda x, y: x.sum(axis=0) * 2 + y[0])
program("sum of all", lambda x, y: x.sum())
program("max, argmax", lambda x, y: np.stack([x.max(axis=0), x.argmax(axis=0).astype("f4")]))
program("mean, var", lambda x, y: x.mean(axis=0) + x.var(axis=0))
program("cumsum along the split axis", lambda x, y: np.cumsum(x, axis=0))
program("matmul, rows @ replicas", lambda x, y: x @ y.T.reshard(da.replicated()), lambda x, y: x @ y.T)
program("matmul, rows @ rows", lambda x, y: x @ y.T.copy())
program("matmul, partial", lambda x, y: x.T @ y)
program("matmul, float16", lambda x, y: x.astype("f2") @ y.T.astype("f2"), lambda x, y: x @ y.T)
program("mask", lambda x, y: x[x > y])
program("row mask", lambda x, y: x[x[:, 0] > 0])
program("where", lambda x, y: np.where(x > y, x, -y))
program("nonzero", lambda x, y: np.stack(np.nonzero(x > 2)))
program("fancy rows", lambda x, y: x[[5, 90, 5, -1, 0]])
program("fancy pairs", lambda x, y: x[np.array([3, 77, 3]), np.array([0, 69, 1])])
program("take", lambda x, y: np.take(x, [69, 0, 69], axis=1))
program("concatenate", lambda x, y: np.concatenate([x, y[::3]]))
program("reshape", lambda x, y: x.reshape(48, 140) + 1)
program("roll", lambda x, y: np.roll(x, 7, axis=0))
program("set, scalar", wrote(lambda z, y: z.__setitem__((slice(30, 70), slice(None, None, 3)), 9)))
program("set, shift", wrote(lambda z, y: z.__setitem__(slice(1, None), z[:-1].copy())))
program("set, mask", wrote(lambda z, y: z.__setitem__(z > 1, 0)))
program("set, mask values", wrote(lambda z, y: z.__setitem__(z > 3, -z[z > 3])))
program("set, rows", wrote(lambda z, y: z.__setitem__([2, 95, 50], y[:3])))
program("in place", wrote(lambda z, y: z.__iadd__(y)))
program("get", lambda x, y: x.get(), lambda x, y: x)
program("item", lambda x, y: np.asarray(x[95, 69].item()))


def same(got: Any, want: Any, loose: bool) -> str:
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if not loose and got.dtype != want.dtype:
        return f"dtype {got.dtype} instead of {want.dtype}"
    exact = want.dtype.kind in "biu"
    tolerance = 0.0 if exact else (2e-2 if loose else 2e-5)
    if exact and not np.array_equal(got, want):
        return f"{int((got != want).sum())} of {want.size} elements differ"
    if not exact:
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        off = np.abs(got.astype("c16") - want.astype("c16"))
        if not float(off.max(initial=0)) <= tolerance * scale:
            return f"off by {float(off.max()):.3g} where values reach {scale:.3g}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    kind = parser.parse_args().kind
    context = da.init(kind=kind)
    if context.process_count < 2:
        raise SystemExit("start this under mpirun, with at least two processes")
    team = common.Team.mpi()
    report = common.Report("programs", team)
    for name, (distributed, plain) in PROGRAMS.items():

        def measured(
            distributed: Any = distributed, plain: Any = plain, loose: bool = "float16" in name
        ) -> dict[str, Any]:
            x, y = (da.asarray(h, layout=da.blocks(0)) for h in (H, K))
            with np.errstate(all="ignore"):
                found = same(distributed(x, y), plain(H.copy(), K.copy()), loose)
            wrong = [text for text in team.share(found) if text]
            return {"ok": not wrong, "note": wrong[0] if wrong else ""}

        report.row(name, measured, "program")


if __name__ == "__main__":
    main()
