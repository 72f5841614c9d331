"""matplotlib takes distributed arrays as it takes NumPy's: by columns, where it looks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is in the extra 'test'")


@pytest.fixture
def axes() -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    return figure.subplots(1, 2)


HOST = np.random.default_rng(0).normal(size=(20, 3))


def boxes(ax: Any, x: Any) -> Any:
    return [line.get_ydata().tolist() for line in ax.boxplot(x)["medians"]]


def violins(ax: Any, x: Any) -> Any:
    return [body.get_paths()[0].vertices.tolist() for body in ax.violinplot(x)["bodies"]]


def bars(ax: Any, x: Any) -> Any:
    counts, edges, _ = ax.hist(x)
    return np.asarray(counts).tolist(), edges.tolist()


def lines(ax: Any, x: Any) -> Any:
    return [line.get_xydata().tolist() for line in ax.plot(x)]


@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.replicated()])
@pytest.mark.parametrize("plot", [boxes, violins, bars, lines])
def test_plots_are_those_of_the_numpy_array(plot: Any, layout: Any, axes: Any, four: Any) -> None:
    x = da.asarray(HOST, layout=layout)
    for ours, host in ((x, HOST), (x[:, 1], HOST[:, 1]), (x.T, HOST.T)):
        assert plot(axes[0], ours) == plot(axes[1], host)


def test_to_numpy(four: Any) -> None:
    x = da.asarray(HOST, layout=da.blocks(0))
    host = x.to_numpy()
    assert type(host) is np.ndarray
    np.testing.assert_array_equal(host, HOST)
    assert x.to_numpy("f4").dtype == np.float32
    host[0] = 0
    np.testing.assert_array_equal(x.get(), HOST)
