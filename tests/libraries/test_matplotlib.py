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


MORE: dict[str, Any] = {
    "imshow": lambda ax, x: ax.imshow(x).get_array(),
    "pcolormesh": lambda ax, x: ax.pcolormesh(x).get_array(),
    "contourf": lambda ax, x: ax.contourf(x).levels,
    "scatter": lambda ax, x: ax.scatter(x[:, 0], x[:, 1], c=x[:, 2], s=abs(x[:, 2])).get_offsets(),
    "errorbar": lambda ax, x: ax.errorbar(x[:, 0], x[:, 1], yerr=abs(x[:, 2]))[0].get_xydata(),
    "errorbar, two sides": lambda ax, x: [
        line.get_xydata()
        for line in ax.errorbar(x[:, 0], x[:, 1], yerr=[abs(x[:, 1]), abs(x[:, 2])], uplims=x[:, 0] > 0)[1]
    ],
    "fill_between": lambda ax, x: ax.fill_between(np.arange(20), x[:, 0], x[:, 1]).get_paths()[0].vertices,
    "bar": lambda ax, x: [bar.get_height() for bar in ax.bar(np.arange(20), x[:, 0])],
    "bar, positions too": lambda ax, x: [bar.get_x() for bar in ax.bar(x[:, 1], x[:, 0])],
    "barh": lambda ax, x: [bar.get_width() for bar in ax.barh(x[:, 1], x[:, 0])],
    "hist2d": lambda ax, x: ax.hist2d(x[:, 0], x[:, 1])[0],
    "hexbin": lambda ax, x: ax.hexbin(x[:, 0], x[:, 1], gridsize=5).get_array(),
    "quiver": lambda ax, x: ax.quiver(x, x).U,
    "limits": lambda ax, x: ax.set_xlim(x.min(), x.max()),
}


@pytest.mark.parametrize("name", MORE)
def test_other_plots(name: str, axes: Any, four: Any) -> None:
    found, wanted = MORE[name](axes[0], da.asarray(HOST, layout=da.blocks(0))), MORE[name](axes[1], HOST)
    np.testing.assert_array_equal(np.ma.asarray(np.asarray(found)), np.ma.asarray(np.asarray(wanted)))


def test_a_figure_is_drawn(axes: Any, four: Any) -> None:
    x = da.asarray(HOST, layout=da.blocks(0))
    axes[0].plot(x[:, 0], x[:, 1], label="a")
    axes[1].imshow(x)
    axes[0].figure.canvas.draw()


@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1)])
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
