"""What statistics, neighbours along an axis, random numbers and files take beside NumPy's, on four host devices, in turns
within one run.

    python benchmarks/surface.py [NAME ...]      # rows whose names contain one of these; default: all

Prints one row a function: seconds here and there, the ratio of the best of each, the bar, and whether it is met. Every figure
includes evaluation. The last column is processor time, what all threads took: on a loaded machine it says more.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import distarray as da

sys.path.insert(0, str(Path(__file__).parent))
from standard import DEVICES, measured

N = 1 << 22
Call = Callable[[], Any]


class Row(NamedTuple):
    """A function and the times of NumPy's that it may take, None for what only shows a bound; `make` gives our call and NumPy's."""

    name: str
    bar: float | None
    make: Callable[[Any], tuple[Call, Call]]


def same(call: Callable[[Any], Any], make: Callable[[Any], np.ndarray]) -> Callable[[Any], tuple[Call, Call]]:
    """One call of NumPy's, of an array in blocks and of the host's."""

    def both(rng: Any) -> tuple[Call, Call]:
        a = make(rng)
        x = da.asarray(a, layout=da.blocks(0))

        def ours() -> Any:
            found = call(x)
            for part in found if isinstance(found, tuple) else (found,):
                if isinstance(part, da.DistributedArray):
                    part.evaluate()
            return found

        return ours, lambda: call(a)

    return both


def uniform(rng: Any) -> np.ndarray:
    return rng.random(N)  # type: ignore[no-any-return]


def with_nan(rng: Any) -> np.ndarray:
    a = rng.random(N)
    a[rng.integers(0, N, N // 100)] = np.nan
    return a  # type: ignore[no-any-return]


def integers(rng: Any) -> np.ndarray:
    return rng.integers(0, 1000, N)  # type: ignore[no-any-return]


def square(rng: Any) -> np.ndarray:
    return rng.random((2048, 2048))  # type: ignore[no-any-return]


def tall(rng: Any) -> np.ndarray:
    return rng.random((100_000, 100))  # type: ignore[no-any-return]


def normal(rng: Any) -> tuple[Call, Call]:
    mine = da.random.default_rng(0)
    return lambda: mine.normal(size=N, layout=da.blocks(0)).evaluate(), lambda: rng.normal(size=N)


def random(rng: Any) -> tuple[Call, Call]:
    mine = da.random.default_rng(0)
    return lambda: mine.random(size=N, layout=da.blocks(0)).evaluate(), lambda: rng.random(size=N)


def random_integers(rng: Any) -> tuple[Call, Call]:
    mine = da.random.default_rng(0)
    return lambda: mine.integers(0, 1000, size=N, layout=da.blocks(0)).evaluate(), lambda: rng.integers(0, 1000, size=N)


def bare_normal(rng: Any) -> tuple[Call, Call]:
    """What two cores can do: a thread for each half, and an SFC64 of NumPy's own in each, which is faster than NumPy's default."""
    out = np.empty(N)
    halves = [(np.random.Generator(np.random.SFC64(i)), part) for i, part in enumerate((out[: N // 2], out[N // 2 :]))]

    def filled() -> None:
        threads = [threading.Thread(target=own.standard_normal, kwargs={"out": part}) for own, part in halves]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return filled, lambda: rng.normal(size=N)


FOLDER = tempfile.TemporaryDirectory()


def saving(rng: Any) -> tuple[Call, Call]:
    """Both write aside and rename: file systems begin to write out what takes another file's name."""
    a = rng.random(1 << 25)
    x = da.asarray(a, layout=da.blocks(0))
    path = Path(FOLDER.name)

    def numpys() -> None:
        np.save(path / "aside.npy", a)
        (path / "aside.npy").replace(path / "a.npy")

    return lambda: np.save(path / "x.npy", x), numpys


WEIGHTS = np.hanning(101)

ROWS = [
    Row("median, 2²²", 1.0, same(np.median, uniform)),
    Row("percentile of three, 2²²", 1.0, same(lambda x: np.percentile(x, [5, 50, 95]), uniform)),
    Row("histogram of 100 bins, 2²²", 0.8, same(lambda x: np.histogram(x, 100), uniform)),
    Row("bincount, 2²²", 0.8, same(np.bincount, integers)),
    Row("nanmean, 2²²", 0.6, same(np.nanmean, with_nan)),
    Row("nanstd, 2²²", 0.6, same(np.nanstd, with_nan)),
    Row("convolve 2²² with 101", 0.7, same(lambda x: np.convolve(x, WEIGHTS, "same"), uniform)),
    Row("gradient, 2²²", 0.6, same(np.gradient, uniform)),
    Row("gradient along the split axis, 2048²", 0.6, same(lambda x: np.gradient(x, axis=0), square)),
    Row("diff, 2²²", 0.6, same(np.diff, uniform)),
    Row("cov, 10⁵ × 100", 1.1, same(lambda x: np.cov(x, rowvar=False), tall)),
    Row("random normal, 2²²", 0.6, normal),
    Row("random numbers, 2²²", 0.6, random),
    Row("random integers, 2²²", 0.6, random_integers),
    Row("random normal: two bare threads of NumPy's SFC64", None, bare_normal),
    Row("save aside and rename, 256 MB", 1.2, saving),
]


def memory_of_saving() -> None:
    """Print the most memory that a save takes, beside the array."""
    x = da.zeros(1 << 25, layout=da.blocks(0))
    tracemalloc.start()
    np.save(Path(FOLDER.name) / "x.npy", x)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found = 1 + most / x.nbytes
    print(
        f"memory of save, 256 MB | {found:.2f} × the array | | | ≤ 1.1 | {'yes' if found <= 1.1 else 'NO'} |",
        flush=True,
    )


def main() -> None:
    chosen = [row for row in ROWS if not sys.argv[1:] or any(word in row.name for word in sys.argv[1:])]
    print("function | here | NumPy | ratio | bar | met | processor time, ratio")
    with da.init(devices=DEVICES, kind="host"):
        for row in chosen:
            (ours, numpys), (cores, theirs) = measured(*row.make(np.random.default_rng(0)), turns=5)
            ratio = ours / numpys
            print(
                f"{row.name} | {ours * 1e3:.1f} ms | {numpys * 1e3:.1f} ms | {ratio:.2f} | "
                f"{'|' if row.bar is None else f'≤ {row.bar} | ' + ('yes' if ratio <= row.bar else 'NO')} | {cores / theirs:.2f}",
                flush=True,
            )
        if not sys.argv[1:] or "save" in sys.argv[1:]:
            memory_of_saving()
    FOLDER.cleanup()


if __name__ == "__main__":
    main()
