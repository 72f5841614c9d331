"""Rows of `host.py` for large arrays and whole programs: each written once, for NumPy, for us, and for peers that run it."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

import distarray as da


class Work(NamedTuple):
    """A program `run(np, *arrays)` of the arrays that `make` gives, and the ratio to NumPy's time that it must reach.

    `numexpr`: the same as an expression of a, b, c, … . `traced`: whether JAX and Dask run it, as one jitted or lazy function;
    `jax`: what JAX runs alone, which writes to no array. `share`: what a thread for each core calls of its share of the rows, with
    nothing around it: the least that memory and NumPy's loops allow. `bare`: a program written for such threads by hand, with
    NumPy's calls into memory that is used again; `each(f)` calls f of every core's number and gives what they return.
    """

    name: str
    make: Callable[[], tuple[Any, ...]]
    run: Callable[..., Any]
    bar: float
    numexpr: str | None = None
    traced: bool = False
    jax: Callable[..., Any] | None = None
    share: Callable[[Any], Any] | None = None
    bare: Callable[..., Any] | None = None


def randoms(*shapes: Any, dtype: str = "float64", seed: int = 0) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        return tuple(rng.random(shape).astype(dtype) for shape in shapes)

    return make


def black_scholes(xp: Any, s: Any, k: Any, t: Any) -> Any:
    """24 steps, a logistic function in the place of the normal distribution's."""
    r, v = 0.02, 0.3
    root = xp.sqrt(t + 0.1) * v
    d1 = (xp.log((s + 0.5) / (k + 0.5)) + (r + 0.5 * v * v) * (t + 0.1)) / root
    d2 = d1 - root
    n1 = 1 / (1 + xp.exp(d1 * -1.702))
    n2 = 1 / (1 + xp.exp(d2 * -1.702))
    return (s + 0.5) * n1 - (k + 0.5) * xp.exp((t + 0.1) * -r) * n2


def masked(xp: Any, x: Any, m: Any, v: Any) -> Any:
    x[m] = v
    return x


def masks(share: float, values: bool = False, n: int = 1 << 22) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        rng = np.random.default_rng(1)
        x, m = rng.random(n), rng.random(n) < share
        return (x, m, rng.random(int(m.sum()))) if values else (x, m)

    return make


def rows_taken() -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    return rng.random((1 << 16, 64)), rng.integers(0, 1 << 16, 1 << 16)


def stencil(xp: Any, u: Any) -> Any:
    u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def stencil_of(jnp: Any, u: Any) -> Any:
    return u.at[1:-1, 1:-1].set(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))


def runge_kutta(xp: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        return 3.0 * x * (1 - x) - x / (1 + x * x)

    h = 0.01
    for _ in range(10):
        k1 = f(x)
        k2 = f(x + h / 2 * k1)
        k3 = f(x + h / 2 * k2)
        k4 = f(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        finish(x)
    return x


def mandelbrot(xp: Any, c: Any) -> Any:
    z = xp.zeros_like(c)
    count = xp.zeros(c.shape, dtype="int32")
    for _ in range(20):
        alive = z.real * z.real + z.imag * z.imag < 4
        z = xp.where(alive, z * z + c, z)
        count = count + alive
        finish(count)
    return count


def plane() -> tuple[Any, ...]:
    y, x = np.mgrid[-1.5:1.5:500j, -2:1:500j]  # type: ignore[misc]
    return (x + 1j * y,)


def k_means(xp: Any, points: Any, centres: Any) -> Any:
    for _ in range(4):
        squares = [((points - centres[k]) ** 2).sum(axis=1) for k in range(centres.shape[0])]
        near = xp.argmin(xp.stack(squares), axis=0)
        centres = xp.stack(
            [(points * (near == k)[:, None]).sum(axis=0) / (near == k).sum() for k in range(centres.shape[0])]
        )
    return centres


def logistic_regression(xp: Any, a: Any, y: Any) -> Any:
    w = xp.zeros(a.shape[1])
    for _ in range(10):
        p = 1 / (1 + xp.exp(-(a @ w)))
        w = w - 0.1 * (a.T @ (p - y)) / y.shape[0]
    return w


def conjugate_gradients(xp: Any, b: Any) -> Any:
    """Of the three-point Laplacian with 0.1 on its diagonal."""

    def times(p: Any) -> Any:
        q = 2.1 * p
        q[1:] -= p[:-1]
        q[:-1] -= p[1:]
        return q

    x = xp.zeros_like(b)
    r = b.copy()
    p = r.copy()
    rr = float(r @ r)
    for _ in range(15):
        q = times(p)
        alpha = rr / float(p @ q)
        x = x + alpha * p
        r = r - alpha * q
        old, rr = rr, float(r @ r)
        p = r + rr / old * p
    finish(x)
    return x


STEP = 1 << 15
"""Elements that bare threads work on at a time, so that what is between two calls stays in a core's cache."""


def _cut(size: int, parts: int) -> list[tuple[int, int]]:
    return [(size * i // parts, size * (i + 1) // parts) for i in range(parts)]


def _steps(low: int, high: int, step: int) -> list[slice]:
    return [slice(at, min(at + step, high)) for at in range(low, high, step)]


def bare_chain(each: Any, a: Any, b: Any, c: Any) -> Any:
    out, halves = np.empty_like(a), _cut(a.size, CORES)

    def run(i: int) -> None:
        s, t = np.empty(STEP, a.dtype), np.empty(STEP, a.dtype)
        for k in _steps(*halves[i], STEP):
            x, u, v = out[k], s[: k.stop - k.start], t[: k.stop - k.start]
            np.add(np.multiply(a[k], b[k], out=u), c[k], out=u)
            np.multiply(u, 0.5, out=u)
            np.subtract(u, np.divide(a[k], np.add(b[k], 1, out=v), out=v), out=x)

    each(run)
    return out


def bare_black_scholes(each: Any, s: Any, k: Any, t: Any) -> Any:
    out, halves, r, v = np.empty_like(s), _cut(s.size, CORES), 0.02, 0.3

    def run(i: int) -> None:
        rows = np.empty((5, STEP))
        for at in _steps(*halves[i], STEP):
            price, strike, time, root, d = rows[:, : at.stop - at.start]
            np.add(s[at], 0.5, out=price)
            np.add(k[at], 0.5, out=strike)
            np.add(t[at], 0.1, out=time)
            np.multiply(np.sqrt(time, out=root), v, out=root)
            np.log(np.divide(price, strike, out=d), out=d)
            x = np.multiply(time, r + 0.5 * v * v, out=out[at])
            np.divide(np.add(d, x, out=d), root, out=d)
            np.subtract(d, root, out=root)
            np.multiply(strike, np.exp(np.multiply(time, -r, out=time), out=time), out=strike)
            for y, scale in ((d, price), (root, strike)):
                np.add(np.exp(np.multiply(y, -1.702, out=y), out=y), 1, out=y)
                np.multiply(np.divide(1, y, out=y), scale, out=scale)
            np.subtract(price, strike, out=x)

    each(run)
    return out


def bare_std(each: Any, a: Any) -> Any:
    halves = _cut(a.size, CORES)
    mean = sum(each(lambda i: np.add.reduce(a[slice(*halves[i])]))) / a.size

    def squares(i: int) -> Any:
        s, total = np.empty(STEP), 0.0
        for k in _steps(*halves[i], STEP):
            x = np.subtract(a[k], mean, out=s[: k.stop - k.start])
            total += np.add.reduce(np.multiply(x, x, out=x))
        return total

    return np.sqrt(sum(each(squares)) / a.size)


def bare_where(each: Any, a: Any, b: Any) -> Any:
    halves = _cut(a.size, CORES)

    def run(i: int) -> Any:
        m, s, total = np.empty(STEP, bool), np.empty(STEP, a.dtype), a.dtype.type(0)
        for k in _steps(*halves[i], STEP):
            n = k.stop - k.start
            mask, x = np.greater(a[k], b[k], out=m[:n]), s[:n]
            np.copyto(x, b[k])
            np.copyto(x, a[k], where=mask)
            total += np.add.reduce(x)
        return total

    return sum(each(run))


def bare_any(each: Any, a: Any, b: Any) -> Any:
    halves = _cut(a.size, CORES)

    def run(i: int) -> Any:
        m, s, found = np.empty(STEP, bool), np.empty(STEP), False
        for k in _steps(*halves[i], STEP):
            n = k.stop - k.start
            found = bool(np.greater(a[k], np.add(b[k], 1, out=s[:n]), out=m[:n]).any())
            if found:
                break
        return found

    return any(each(run))


def bare_k_means(each: Any, points: Any, centres: Any) -> Any:
    halves, n, width = _cut(points.shape[0], CORES), *centres.shape
    rows = STEP // width
    for _ in range(4):

        def run(i: int, centres: Any = centres) -> Any:
            s, squares, flag = np.empty((rows, width)), np.empty((n, rows)), np.empty(rows, bool)
            sums, counts = np.zeros((n, width)), np.zeros(n)
            for at in _steps(*halves[i], rows):
                p, m = points[at], at.stop - at.start
                for k in range(n):
                    x = np.subtract(p, centres[k], out=s[:m])
                    np.add.reduce(np.multiply(x, x, out=x), axis=1, out=squares[k, :m])
                near = squares[:, :m].argmin(axis=0)
                for k in range(n):
                    mine = np.equal(near, k, out=flag[:m])
                    sums[k] += np.add.reduce(np.multiply(p, mine[:, None], out=s[:m]), axis=0)
                    counts[k] += np.count_nonzero(mine)
            return sums, counts

        found = each(run)
        centres = sum(sums for sums, _ in found) / sum(counts for _, counts in found)[:, None]
    return centres


def bare_logistic_regression(each: Any, a: Any, y: Any) -> Any:
    halves, w, scratch = _cut(a.shape[0], CORES), np.zeros(a.shape[1]), np.empty(a.shape[0])

    def run(i: int) -> Any:
        rows = slice(*halves[i])
        z = np.dot(a[rows], w, out=scratch[rows])
        np.exp(np.negative(z, out=z), out=z)
        np.divide(1, np.add(z, 1, out=z), out=z)
        return np.dot(a[rows].T, np.subtract(z, y[rows], out=z))

    for _ in range(10):
        w = w - 0.1 * sum(each(run)) / y.shape[0]
    return w


def bare_conjugate_gradients(each: Any, b: Any) -> Any:
    size, halves = b.size, _cut(b.size, CORES)
    x, r, p, q = np.zeros_like(b), b.copy(), b.copy(), np.empty_like(b)

    def times(i: int) -> Any:
        low, high = halves[i]
        for k in _steps(low, high, STEP):
            np.multiply(p[k], 2.1, out=q[k])
            first, last = max(k.start, 1), min(k.stop, size - 1)
            np.subtract(q[first : k.stop], p[first - 1 : k.stop - 1], out=q[first : k.stop])
            np.subtract(q[k.start : last], p[k.start + 1 : last + 1], out=q[k.start : last])
        return np.dot(p[low:high], q[low:high])

    def step(i: int, alpha: float) -> Any:
        low, high = halves[i]
        s = np.empty(STEP)
        for k in _steps(low, high, STEP):
            t = s[: k.stop - k.start]
            np.add(x[k], np.multiply(p[k], alpha, out=t), out=x[k])
            np.subtract(r[k], np.multiply(q[k], alpha, out=t), out=r[k])
        return np.dot(r[low:high], r[low:high])

    def turn(i: int, beta: float) -> None:
        for k in _steps(*halves[i], STEP):
            np.add(r[k], np.multiply(p[k], beta, out=p[k]), out=p[k])

    rr = float(r @ r)
    for _ in range(15):
        alpha = rr / float(sum(each(times)))
        old, rr = rr, float(sum(each(partial(step, alpha=alpha))))
        each(partial(turn, beta=rr / old))
    return x


REST = 0.15
"""Seconds after which another program begins: threads of BLAS spin for a tenth of a second after a product, and would have a core
of the next one's."""

CORES = len(os.sched_getaffinity(0))
BIG = 1 << 24
ROWS = [
    Work("chain of 6, 2²⁴ float32", randoms(BIG, BIG, BIG, dtype="float32"),
         lambda xp, a, b, c: (a * b + c) * 0.5 - a / (b + 1), 0.25, "(a * b + c) * 0.5 - a / (b + 1)", True, bare=bare_chain),
    Work("Black–Scholes, 2²² float64", randoms(*[1 << 22] * 3), black_scholes, 0.30, None, True, bare=bare_black_scholes),
    Work("a + b, 2²⁵ float32", randoms(1 << 25, 1 << 25, dtype="float32"), lambda xp, a, b: a + b, 0.5, "a + b", True),
    Work("sum, 2²⁴", randoms(BIG), lambda xp, a: a.sum(), 0.6, "sum(a)", True, share=np.sum),
    Work("std, 2²⁴", randoms(BIG), lambda xp, a: a.std(), 0.4, None, True, bare=bare_std),
    Work("sum over axis 0, 4096²", randoms((4096, 4096)), lambda xp, a: a.sum(axis=0), 0.6, None, True,
         share=lambda a: a.sum(axis=0)),
    Work("sum over axis 1, 4096²", randoms((4096, 4096)), lambda xp, a: a.sum(axis=1), 0.6, None, True,
         share=lambda a: a.sum(axis=1)),
    Work("where, compare, sum, 2²² float32", randoms(1 << 22, 1 << 22, dtype="float32"),
         lambda xp, a, b: xp.where(a > b, a, b).sum(), 0.4, "sum(where(a > b, a, b))", True, bare=bare_where),
    Work("(a * b).sum(), 2²²", randoms(1 << 22, 1 << 22), lambda xp, a, b: (a * b).sum(), 0.4, "sum(a * b)", True),
    Work("(a > b).any(), 2²²", randoms(1 << 22, 1 << 22), lambda xp, a, b: (a > b + 1).any(), 0.6, None, True, bare=bare_any),
    Work("cumsum, 2²⁴", randoms(BIG), lambda xp, a: a.cumsum(), 0.8, None, True),
    Work("x[m], half", masks(0.5), lambda xp, x, m: x[m], 0.8),
    Work("x[m], 99 %", masks(0.99), lambda xp, x, m: x[m], 0.8),
    Work("x[m] = values, half", masks(0.5, True), masked, 1.0),
    Work("x[m] = values, 99 %", masks(0.99, True), masked, 1.0),
    Work("rows x[i], 2¹⁶ × 64", rows_taken, lambda xp, x, i: x[i], 0.8),
    Work("argmax, 2²⁴ float32", randoms(BIG, dtype="float32"), lambda xp, a: a.argmax(), 0.6, None, True,
         share=np.argmax),
    Work("transpose copy, 4096²", randoms((4096, 4096)), lambda xp, a: a.T.copy(), 0.6),
    Work("5-point stencil in place, 4096²", randoms((4096, 4096)), stencil, 0.30, jax=stencil_of),
    Work("RK4, 400,000", randoms(400_000), runge_kutta, 0.8, jax=runge_kutta),
    Work("Mandelbrot with masks, 500²", plane, mandelbrot, 0.8, jax=mandelbrot),
    Work("k-means, 200,000 × 8, 5 centres", randoms((200_000, 8), (5, 8)), k_means, 0.8, bare=bare_k_means),
    Work("logistic regression, 200,000 × 20", randoms((200_000, 20), 200_000), logistic_regression, 0.8,
         bare=bare_logistic_regression),
    Work("conjugate gradients, 1,000,000", randoms(1_000_000), conjugate_gradients, 0.8, bare=bare_conjugate_gradients),
]  # fmt: skip


def finish(value: Any) -> Any:
    """Wait for a value, whoever computes it."""
    if isinstance(value, da.DistributedArray):
        value.evaluate()
    return value


def seconds(call: Callable[[], Any], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        finish(call())
    return (time.perf_counter() - start) / number


def peers(row: Work, hosts: tuple[Any, ...], skip: frozenset[str]) -> dict[str, Callable[[], Any]]:
    """The calls of the peers that are installed and run a row."""
    found: dict[str, Callable[[], Any]] = {}
    if row.numexpr is not None and "numexpr" not in skip and (numexpr := _module("numexpr")) is not None:
        names = dict(zip("abc", hosts, strict=False))
        found["numexpr"] = lambda: numexpr.evaluate(row.numexpr, local_dict=names)
    if row.traced and "dask" not in skip and (dask := _module("dask.array")) is not None:
        blocks = [dask.from_array(h, chunks=(-(-h.shape[0] // 4), *h.shape[1:])) for h in hosts]
        found["dask"] = lambda: row.run(dask, *blocks).compute()
    if (row.traced or row.jax) and "jax" not in skip and (jax := _module("jax")) is not None:
        jax.config.update("jax_enable_x64", True)
        arrays = [jax.numpy.asarray(h) for h in hosts]
        jitted = jax.jit(lambda *a: (row.jax or row.run)(jax.numpy, *a))
        found["jax"] = lambda: jitted(*arrays).block_until_ready()
    if row.share is not None and "threads" not in skip:
        share = row.share
        pool, shares = ThreadPoolExecutor(CORES), np.array_split(hosts[0], CORES)
        found["threads"] = lambda: list(pool.map(share, shares))
    if row.bare is not None and "threads" not in skip:
        found["threads"] = partial(_bare, row.bare, ThreadPoolExecutor(CORES), ThreadpoolController(), hosts)
    return found


def _bare(
    program: Callable[..., Any], pool: ThreadPoolExecutor, blas: ThreadpoolController, hosts: tuple[Any, ...]
) -> Any:
    with blas.limit(limits=1):
        return program(lambda call: list(pool.map(call, range(CORES))), *hosts)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def measure(row: Work, rounds: int, skip: frozenset[str]) -> dict[str, float]:
    """The least seconds of NumPy, of us and of each peer, of alternating rounds."""
    hosts = row.make()
    ours = tuple(da.asarray(h) for h in hosts)
    calls: dict[str, Callable[[], Any]] = {"numpy": lambda: row.run(np, *hosts), "ours": lambda: row.run(np, *ours)}
    calls.update(peers(row, hosts, skip))
    once = {name: seconds(call, 1) for name, call in calls.items()}
    number = max(1, int(0.05 / max(once["numpy"], 1e-6)))
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(REST)
            best[name] = min(best[name], seconds(call, number))
    return best


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """Bars of the ratios to NumPy's time, on a logarithmic axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.38 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    names = [
        name for name in ("ours", "numexpr", "dask", "jax", "threads") if any(name in row["seconds"] for row in rows)
    ]
    height = 0.8 / len(names)
    for turn, name in enumerate(names):
        places = [i for i, row in enumerate(rows) if name in row["seconds"]]
        ratios = [rows[i]["seconds"][name] / rows[i]["seconds"]["numpy"] for i in places]
        label = "distarray" if name == "ours" else name
        axes.barh([i + (turn - (len(names) - 1) / 2) * height for i in places], ratios, height, label=label)
    axes.plot([row["bar"] for row in rows], range(len(rows)), "k|", markersize=12, label="bar")
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("time beside NumPy's")
    axes.legend(fontsize="small")
    figure.savefig(path)
