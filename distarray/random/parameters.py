"""What the parameters of the distributions mean, in one table: the docstrings of the methods that draw are made of it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["docstring"]

_REAL = "float or array_like of floats"
_COUNT = "int or array_like of ints"

_PARAMETERS: dict[str, tuple[str, str]] = {
    "a": (_REAL, "The shape of the distribution, positive; greater than 1 for ``zipf``."),
    "b": (_REAL, "The second shape of the distribution, positive."),
    "check_valid": ('{"warn", "raise", "ignore"}', "What happens where `cov` is not positive semidefinite."),
    "colors": ("sequence of int", "How many elements of each colour there are."),
    "cov": ("array_like, of shape (k, k)", "The covariance matrix, symmetric and positive semidefinite."),
    "df": (_REAL, "Degrees of freedom, positive."),
    "dfden": (_REAL, "Degrees of freedom of the denominator, positive."),
    "dfnum": (_REAL, "Degrees of freedom of the numerator, positive."),
    "dtype": ("dtype_like, optional", "The dtype of the values: float32 or float64, or of ``integers`` an integer or boolean one."),
    "endpoint": ("bool", "Whether `high` may be drawn."),
    "high": (_REAL, "The upper end, which is excluded; of ``integers`` the ints go from 0 to `low` where it is None."),
    "kappa": (_REAL, "The concentration of the distribution, not negative."),
    "lam": (_REAL, "The expected number of events, not negative."),
    "left": (_REAL, "The lower end."),
    "loc": (_REAL, "The centre of the distribution; its mean, and of ``gumbel`` its mode."),
    "low": (_REAL, "The lower end, which may be drawn."),
    "mean": (_REAL, "The mean; of ``lognormal`` that of the logarithms."),
    "method": ("str", "NumPy's name of the algorithm."),
    "mode": (_REAL, "The value where the density is highest, from `left` to `right`."),
    "mu": (_REAL, "The angle about which the values lie, in radians."),
    "n": (_COUNT, "The number of trials, or of ``negative_binomial`` of successes that end them."),
    "nbad": (_COUNT, "How many elements are not of the kind that is counted."),
    "ngood": (_COUNT, "How many elements are of the kind that is counted."),
    "nonc": (_REAL, "The noncentrality, not negative."),
    "nsample": (_COUNT, "How many elements are drawn at a time."),
    "out": ("DistributedArray or numpy.ndarray, optional", "Where the values go; of their shape and dtype."),
    "p": (_REAL, "The probability of success, from 0 to 1."),
    "pvals": ("array_like", "The probabilities of the outcomes along the last axis, which add up to 1."),
    "right": (_REAL, "The upper end, greater than `left`."),
    "scale": (_REAL, "The width of the distribution, not negative: the unit of the values, or their standard deviation."),
    "shape": (_REAL, "The shape of the distribution, not negative."),
    "sigma": (_REAL, "The standard deviation of the logarithms, not negative."),
    "size": ("int or tuple of int, optional", "The shape of the result; by default that to which the parameters broadcast."),
    "tol": ("float", "How far `cov` may be from positive semidefinite."),
    "alpha": ("sequence of float", "The parameters of the distribution, positive, one for each value of a row."),
    "layout": ("layout_like, optional", "As for :func:`distarray.zeros`; the values do not depend on it."),
    "device": ("device, optional", "As for :func:`distarray.zeros`; the values do not depend on it."),
}  # fmt: skip


def docstring(summary: str, parameters: Iterable[str]) -> str:
    """The docstring of a method that draws.

    Parameters
    ----------
    summary : str
        Its first line.
    parameters : iterable of str
        The names of the parameters, in their order.

    Returns
    -------
    str
        In numpydoc's sections.
    """
    entries = [f"{name} : {_PARAMETERS[name][0]}\n    {_PARAMETERS[name][1]}" for name in parameters]
    sections = {
        "Parameters": "\n".join(entries),
        "Returns": "DistributedArray\n    New values, of shape `size`; an item is a row where the distribution gives rows.",
        "Raises": "ValueError, TypeError\n    A parameter is outside its range, or the shapes do not broadcast, as NumPy says it.",
        "Notes": "Communication: as the class says: none for block rows and replicated layouts.",
    }
    return "\n\n".join([summary, *[f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items()]])
