"""NumPy's distributions as methods, which ``Generator`` and ``RandomState`` share: each hands on what its arguments are."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike, LayoutLike, Out, ShapeLike
from distarray.array.state import DistributedArray
from distarray.random.parameters import docstring

__all__ = ["Draws", "draws"]

F = TypeVar("F", bound=Callable[..., Any])


def draws(what: str) -> Callable[[F], F]:
    """Describe a method of NumPy's that draws from a distribution, `what`."""

    def describe(method: F) -> F:
        summary = f"Draw from {what}; arguments as for ``numpy.random.Generator.{method.__name__}``."
        method.__doc__ = docstring(summary, list(inspect.signature(method).parameters)[1:])
        method.__qualname__ = method.__name__  # errors about arguments name it, and not the class that holds it
        return method

    return describe


class Draws(abc.ABC):
    """The distributions that both the generator and NumPy's older calls have."""

    @abc.abstractmethod
    def _draw(self, name: str, given: dict[str, Any], layout: LayoutLike, device: DeviceLike) -> DistributedArray:
        """One call of NumPy's method `name`."""

    @draws("a beta distribution")
    def beta(
        self,
        a: ArrayLike,
        b: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("beta", {"a": a, "b": b, "size": size}, layout, device)

    @draws("a binomial distribution")
    def binomial(
        self,
        n: ArrayLike,
        p: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("binomial", {"n": n, "p": p, "size": size}, layout, device)

    @draws("a chi-square distribution")
    def chisquare(
        self, df: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("chisquare", {"df": df, "size": size}, layout, device)

    @draws("a Dirichlet distribution, a row of values at a time")
    def dirichlet(
        self, alpha: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("dirichlet", {"alpha": alpha, "size": size}, layout, device)

    @draws("an exponential distribution")
    def exponential(
        self,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("exponential", {"scale": scale, "size": size}, layout, device)

    @draws("an F distribution")
    def f(
        self,
        dfnum: ArrayLike,
        dfden: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("f", {"dfnum": dfnum, "dfden": dfden, "size": size}, layout, device)

    @draws("a gamma distribution")
    def gamma(
        self,
        shape: ArrayLike,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("gamma", {"shape": shape, "scale": scale, "size": size}, layout, device)

    @draws("a geometric distribution")
    def geometric(
        self, p: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("geometric", {"p": p, "size": size}, layout, device)

    @draws("a Gumbel distribution")
    def gumbel(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("gumbel", {"loc": loc, "scale": scale, "size": size}, layout, device)

    @draws("a hypergeometric distribution")
    def hypergeometric(
        self,
        ngood: ArrayLike,
        nbad: ArrayLike,
        nsample: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw(
            "hypergeometric", {"ngood": ngood, "nbad": nbad, "nsample": nsample, "size": size}, layout, device
        )

    @draws("a Laplace distribution")
    def laplace(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("laplace", {"loc": loc, "scale": scale, "size": size}, layout, device)

    @draws("a logistic distribution")
    def logistic(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("logistic", {"loc": loc, "scale": scale, "size": size}, layout, device)

    @draws("a log-normal distribution")
    def lognormal(
        self,
        mean: ArrayLike = 0.0,
        sigma: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("lognormal", {"mean": mean, "sigma": sigma, "size": size}, layout, device)

    @draws("a logarithmic series distribution")
    def logseries(
        self, p: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("logseries", {"p": p, "size": size}, layout, device)

    @draws("a multinomial distribution, a row of counts at a time")
    def multinomial(
        self,
        n: ArrayLike,
        pvals: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("multinomial", {"n": n, "pvals": pvals, "size": size}, layout, device)

    @draws("a multivariate hypergeometric distribution, a row at a time")
    def multivariate_hypergeometric(
        self,
        colors: ArrayLike,
        nsample: ArrayLike,
        size: ShapeLike | None = None,
        method: str = "marginals",
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw(
            "multivariate_hypergeometric",
            {"colors": colors, "nsample": nsample, "size": size, "method": method},
            layout,
            device,
        )

    @draws("a multivariate normal distribution, a row of values at a time")
    def multivariate_normal(
        self,
        mean: ArrayLike,
        cov: ArrayLike,
        size: ShapeLike | None = None,
        check_valid: str = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw(
            "multivariate_normal",
            {"mean": mean, "cov": cov, "size": size, "check_valid": check_valid, "tol": tol, "method": method},
            layout,
            device,
        )

    @draws("a negative binomial distribution")
    def negative_binomial(
        self,
        n: ArrayLike,
        p: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("negative_binomial", {"n": n, "p": p, "size": size}, layout, device)

    @draws("a noncentral chi-square distribution")
    def noncentral_chisquare(
        self,
        df: ArrayLike,
        nonc: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("noncentral_chisquare", {"df": df, "nonc": nonc, "size": size}, layout, device)

    @draws("a noncentral F distribution")
    def noncentral_f(
        self,
        dfnum: ArrayLike,
        dfden: ArrayLike,
        nonc: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("noncentral_f", {"dfnum": dfnum, "dfden": dfden, "nonc": nonc, "size": size}, layout, device)

    @draws("a normal distribution")
    def normal(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("normal", {"loc": loc, "scale": scale, "size": size}, layout, device)

    @draws("a Pareto II (Lomax) distribution")
    def pareto(
        self, a: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("pareto", {"a": a, "size": size}, layout, device)

    @draws("a Poisson distribution")
    def poisson(
        self,
        lam: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("poisson", {"lam": lam, "size": size}, layout, device)

    @draws("a power distribution on [0, 1]")
    def power(
        self, a: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("power", {"a": a, "size": size}, layout, device)

    @draws("a Rayleigh distribution")
    def rayleigh(
        self,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("rayleigh", {"scale": scale, "size": size}, layout, device)

    @draws("a standard Cauchy distribution")
    def standard_cauchy(
        self, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("standard_cauchy", {"size": size}, layout, device)

    @draws("a standard exponential distribution")
    def standard_exponential(
        self,
        size: ShapeLike | None = None,
        dtype: DTypeLike = np.float64,
        method: str = "zig",
        out: Out = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> Any:
        return self._draw(
            "standard_exponential", {"size": size, "dtype": dtype, "method": method, "out": out}, layout, device
        )

    @draws("a standard gamma distribution")
    def standard_gamma(
        self,
        shape: ArrayLike,
        size: ShapeLike | None = None,
        dtype: DTypeLike = np.float64,
        out: Out = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> Any:
        return self._draw("standard_gamma", {"shape": shape, "size": size, "dtype": dtype, "out": out}, layout, device)

    @draws("a standard normal distribution")
    def standard_normal(
        self,
        size: ShapeLike | None = None,
        dtype: DTypeLike = np.float64,
        out: Out = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> Any:
        return self._draw("standard_normal", {"size": size, "dtype": dtype, "out": out}, layout, device)

    @draws("Student's t distribution")
    def standard_t(
        self, df: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("standard_t", {"df": df, "size": size}, layout, device)

    @draws("a triangular distribution")
    def triangular(
        self,
        left: ArrayLike,
        mode: ArrayLike,
        right: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("triangular", {"left": left, "mode": mode, "right": right, "size": size}, layout, device)

    @draws("a uniform distribution")
    def uniform(
        self,
        low: ArrayLike = 0.0,
        high: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("uniform", {"low": low, "high": high, "size": size}, layout, device)

    @draws("a von Mises distribution")
    def vonmises(
        self,
        mu: ArrayLike,
        kappa: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("vonmises", {"mu": mu, "kappa": kappa, "size": size}, layout, device)

    @draws("a Wald (inverse Gaussian) distribution")
    def wald(
        self,
        mean: ArrayLike,
        scale: ArrayLike,
        size: ShapeLike | None = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw("wald", {"mean": mean, "scale": scale, "size": size}, layout, device)

    @draws("a Weibull distribution")
    def weibull(
        self, a: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("weibull", {"a": a, "size": size}, layout, device)

    @draws("a Zipf distribution")
    def zipf(
        self, a: ArrayLike, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> DistributedArray:
        return self._draw("zipf", {"a": a, "size": size}, layout, device)
