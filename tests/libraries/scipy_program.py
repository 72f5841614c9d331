"""SciPy's functions of the array API on distributed arrays, beside the same calls on NumPy's. Run by ``test_scipy.py`` in a process
of its own: SciPy looks at ``SCIPY_ARRAY_API`` when it is imported."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.cluster.hierarchy as hierarchy
import scipy.cluster.vq as vq
import scipy.constants as constants
import scipy.differentiate as differentiate
import scipy.fft as fft
import scipy.integrate as integrate
import scipy.interpolate as interpolate
import scipy.linalg as linalg
import scipy.ndimage as ndimage
import scipy.optimize as optimize
import scipy.optimize.elementwise as elementwise
import scipy.signal as signal
import scipy.special as special
import scipy.stats as stats
from scipy.spatial.transform import RigidTransform, Rotation

import distarray as da

rng = np.random.default_rng(0)
A, B = rng.random(60), rng.random(60)
M, N = rng.random((12, 10)), rng.standard_normal((12, 10))
X = np.linspace(0, 1, 60)
IMAGE, LABELS = rng.random((16, 12)), rng.integers(0, 4, (16, 12))
LINKS = hierarchy.linkage(M)
WAVE = rng.standard_normal(128)
Q = rng.standard_normal((5, 4))
NUMERATOR, DENOMINATOR = signal.butter(3, 0.3)
SECTIONS = signal.butter(3, 0.3, output="sos")

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
CASES: dict[str, Case] = {
    "differentiate.derivative": (lambda x: differentiate.derivative(lambda t: t * t * t, x).df, (A,)),
    "differentiate.jacobian": (lambda x: differentiate.jacobian(lambda t: t * t, x).df, (A[:4],)),
    "integrate.tanhsinh": (lambda a, b: integrate.tanhsinh(lambda x: x * x, a, b).integral, (A, A + 1)),
    "integrate.trapezoid": (lambda y, x: integrate.trapezoid(y, x=x), (A, X)),
    "integrate.cumulative_simpson": (lambda y, x: integrate.cumulative_simpson(y, x=x), (A, X)),
    "integrate.cumulative_trapezoid": (lambda y: integrate.cumulative_trapezoid(y, axis=0, initial=0), (M,)),
    "elementwise.find_root": (
        lambda a, b: elementwise.find_root(lambda x: x * x - 0.5, (a, b)).x, (np.zeros(5), np.ones(5))),
    "optimize.rosen_hess": (optimize.rosen_hess, (A[:6],)),
    "linalg.block_diag": (linalg.block_diag, (M, N)),
    "linalg.orthogonal_procrustes": (linalg.orthogonal_procrustes, (M, N)),
    "constants.convert_temperature": (lambda x: constants.convert_temperature(x, "C", "K"), (A,)),
    "fft.dct": (fft.dct, (M,)),
    "fft.fht": (lambda x: fft.fht(x, 0.1, 1.0), (A[:16],)),
    "interpolate.CubicSpline": (lambda x, y: interpolate.CubicSpline(x, y)(x * 0.9), (X, A)),
    "interpolate.make_interp_spline": (lambda x, y: interpolate.make_interp_spline(x, y)(x), (X, A)),
    "interpolate.RBFInterpolator": (
        lambda x, y: interpolate.RBFInterpolator(x, y)(x * 0.9), (M[:, :2].copy(), M[:, 2].copy())),
    "ndimage.gaussian_filter": (lambda x: ndimage.gaussian_filter(x, 1.0), (IMAGE,)),
    "ndimage.mean": (ndimage.mean, (IMAGE, LABELS, np.arange(1, 4))),
    "ndimage.label": (lambda x: ndimage.label(x > 0.5), (IMAGE,)),
    "ndimage.rotate": (lambda x: ndimage.rotate(x, 30.0), (IMAGE,)),
    "signal.convolve": (lambda x, w: signal.convolve(x, w, mode="same"), (WAVE, A)),
    "signal.fftconvolve": (signal.fftconvolve, (WAVE, A)),
    "signal.convolve2d": (signal.convolve2d, (IMAGE, M[:3, :3].copy())),
    "signal.detrend": (signal.detrend, (WAVE,)),
    "signal.hilbert": (signal.hilbert, (WAVE,)),
    "signal.filtfilt": (signal.filtfilt, (NUMERATOR, DENOMINATOR, WAVE)),
    "signal.sosfilt": (signal.sosfilt, (SECTIONS, WAVE)),
    "signal.resample": (lambda x: signal.resample(x, 100), (WAVE,)),
    "signal.tf2zpk": (signal.tf2zpk, (NUMERATOR, DENOMINATOR)),
    "vq.whiten": (vq.whiten, (M,)),
    "vq.kmeans2": (lambda x: vq.kmeans2(x, x[:3, :], minit="matrix"), (M,)),
    "hierarchy.linkage": (hierarchy.linkage, (M,)),
    "hierarchy.fcluster": (lambda z: hierarchy.fcluster(z, 1.0), (LINKS,)),
    "stats.pearsonr": (lambda x, y: stats.pearsonr(x, y, axis=0), (M, N)),
    "stats.quantile": (lambda x: stats.quantile(x, 0.3, axis=0), (M,)),
    "stats.directional_stats": (lambda x: stats.directional_stats(x).mean_direction, (N,)),
    "stats.false_discovery_control": (stats.false_discovery_control, (A[:20] / 3,)),
    "Rotation.apply": (lambda q, v: Rotation.from_quat(q).apply(v), (Q, N[:5, :3].copy())),
    "Rotation.mean": (lambda q: Rotation.from_quat(q).mean().as_quat(), (Q,)),
    "RigidTransform.apply": (
        lambda q, v: RigidTransform.from_components(v, Rotation.from_quat(q)).apply(v), (Q, N[:5, :3].copy())),
}  # fmt: skip


def along(call: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: call(x, axis=0)


for _name in "erf expit gammaln i0 log_ndtr logit ndtri entr j0 softmax log_softmax logsumexp".split():
    CASES[f"special.{_name}"] = (getattr(special, _name), (A + 1,))
for _name in "xlogy betaln gammainc zeta stdtr rel_entr kl_div".split():
    CASES[f"special.{_name}"] = (getattr(special, _name), (A + 1, B))
for (
    _name
) in "skew kurtosis zscore gmean hmean moment entropy rankdata variation sem mode describe iqr kstat tvar".split():
    CASES[f"stats.{_name}"] = (along(getattr(stats, _name)), (M,))
for _name in "ttest_ind ttest_rel wilcoxon mannwhitneyu ks_2samp bartlett levene kruskal f_oneway linregress".split():
    CASES[f"stats.{_name}"] = (getattr(stats, _name), (A, B + 0.1))

SCIPYS_OWN: dict[str, Case] = {
    "stats.trim1": (lambda x: stats.trim1(x, 0.1), (A,)),
    "linalg.inv": (linalg.inv, (M.T @ M,)),
    "interpolate.AAA": (lambda x, y: interpolate.AAA(x, y)(x), (X[:20], A[:20])),
    "signal.welch": (lambda x: signal.welch(x, nperseg=32), (WAVE,)),
    "signal.czt": (signal.czt, (A,)),
}
"""What SciPy itself computes with NumPy, whatever it was given: the result is NumPy's, of array-api-strict's arrays too."""


def parts(found: Any) -> list[Any]:
    """The arrays and numbers in a result."""
    if isinstance(found, (tuple, list)):
        return [part for item in found for part in parts(item)]
    if hasattr(found, "__dict__") and not hasattr(found, "shape"):
        return [part for key, item in sorted(vars(found).items()) if key[0] != "_" for part in parts(item)]
    return [] if found is None or isinstance(found, str) else [found]


def main() -> None:
    warnings.simplefilter("ignore")
    with da.init(devices=4, kind="host", minimum_chunk=1):
        for name, (call, given) in CASES.items():
            found = parts(call(*[da.asarray(a, layout=da.blocks(0)) for a in given]))
            wanted = parts(call(*[a.copy() for a in given]))
            assert len(found) == len(wanted), name
            for one, other in zip(found, wanted, strict=True):
                assert isinstance(one, da.DistributedArray) or not isinstance(other, np.ndarray), (name, type(one))
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-7, atol=1e-9, err_msg=name)
        for name, (call, given) in SCIPYS_OWN.items():
            assert not isinstance(parts(call(*map(da.asarray, given)))[0], da.DistributedArray), name
    print("whole")


if __name__ == "__main__":
    main()
