"""Estimators and metrics that scikit-learn's documentation lists as supporting the array API, on distributed arrays beside NumPy's.
Run by ``test_scipy.py`` in a process of its own: scikit-learn asks for ``SCIPY_ARRAY_API``, which SciPy reads when imported."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.metrics as metrics
import sklearn.metrics.pairwise as pairwise
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KernelCenterer,
    LabelBinarizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)

import distarray as da

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 5))
CLASSES = (X[:, 0] + 0.3 * rng.standard_normal(60) > 0).astype(np.int64)
VALUES = X @ np.arange(5.0) + 0.1 * rng.standard_normal(60)

Case = Callable[[Any, Any, Any], Any]


def fitted(model: Any, *names: str, target: int | None = None) -> Case:
    """A model's attributes after a fit, and what its methods make of the samples."""

    def call(x: Any, y: Any, r: Any) -> Any:
        made = model.fit(x, *(() if target is None else ((y, r)[target],)))
        return [getattr(made, name) if name.endswith("_") else getattr(made, name)(x) for name in names]

    return call


CASES: dict[str, Case] = {
    "PCA, full": fitted(PCA(2, svd_solver="full"), "transform", "explained_variance_"),
    "PCA, covariance": fitted(PCA(2, svd_solver="covariance_eigh"), "explained_variance_", "mean_"),
    "PCA, randomized": fitted(
        PCA(2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0), "explained_variance_"),
    "PCA, whiten": fitted(PCA(2, whiten=True, svd_solver="full"), "explained_variance_ratio_"),
    "Ridge": fitted(Ridge(solver="svd"), "coef_", "intercept_", "predict", target=1),
    "RidgeCV": fitted(RidgeCV(), "coef_", "predict", target=1),
    "RidgeClassifier": fitted(RidgeClassifier(solver="svd"), "predict", "decision_function", target=0),
    "RidgeClassifierCV": fitted(RidgeClassifierCV(), "predict", target=0),
    "LogisticRegression": fitted(LogisticRegression(), "predict", "predict_proba", target=0),
    "LinearDiscriminantAnalysis": fitted(
        LinearDiscriminantAnalysis(solver="svd"), "predict", "predict_proba", "transform", target=0),
    "GaussianMixture": fitted(
        GaussianMixture(2, init_params="random_from_data", random_state=0), "means_", "predict"),
    "GaussianNB": fitted(GaussianNB(), "theta_", "predict", "predict_proba", target=0),
    "Nystroem": fitted(Nystroem(n_components=10, random_state=0), "transform"),
    "StandardScaler": fitted(StandardScaler(), "mean_", "var_", "transform"),
    "MinMaxScaler": fitted(MinMaxScaler(), "transform"),
    "MaxAbsScaler": fitted(MaxAbsScaler(), "transform"),
    "Normalizer": fitted(Normalizer(), "transform"),
    "Binarizer": fitted(Binarizer(threshold=0.1), "transform"),
    "PolynomialFeatures": fitted(PolynomialFeatures(2), "transform"),
    "KernelCenterer": lambda x, y, r: KernelCenterer().fit_transform(x @ x.T),
    "LabelEncoder": lambda x, y, r: LabelEncoder().fit_transform(y),
    "LabelBinarizer": lambda x, y, r: LabelBinarizer().fit_transform(y),
    "train_test_split": lambda x, y, r: train_test_split(x, y, random_state=0),
    "cross_val_predict": lambda x, y, r: cross_val_predict(Ridge(solver="svd"), x, r, cv=3),
    "pipeline": fitted(
        make_pipeline(StandardScaler(), PCA(3, svd_solver="full"), Ridge(solver="svd")), "predict", target=1),
    "GridSearchCV": fitted(GridSearchCV(Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, cv=3), "predict", target=1),
    "pairwise_distances": lambda x, y, r: metrics.pairwise_distances(x),
}  # fmt: skip


def labels(call: Callable[[Any, Any], Any]) -> Case:
    return lambda x, y, r: call(y, (y + (r > 1)) % 2)


def values(call: Callable[[Any, Any], Any]) -> Case:
    return lambda x, y, r: call(abs(r) + 0.5, abs(r) * 1.1 + 0.5)


def scores(call: Callable[[Any, Any], Any]) -> Case:
    return lambda x, y, r: call(y, abs(r) / 30 + 0.01)


def samples(call: Callable[[Any, Any], Any]) -> Case:
    return lambda x, y, r: call(abs(x), abs(x) * 2)


_KINDS: list[tuple[Any, Any, str]] = [
    (labels, metrics, "accuracy_score balanced_accuracy_score f1_score jaccard_score precision_score recall_score"),
    (labels, metrics, "confusion_matrix cohen_kappa_score matthews_corrcoef"),
    (values, metrics, "mean_absolute_error mean_squared_error root_mean_squared_error mean_squared_log_error r2_score"),
    (
        values,
        metrics,
        "max_error explained_variance_score mean_absolute_percentage_error mean_pinball_loss d2_tweedie_score",
    ),
    (
        scores,
        metrics,
        "log_loss brier_score_loss roc_auc_score roc_curve precision_recall_curve average_precision_score",
    ),
    (
        samples,
        pairwise,
        "cosine_similarity euclidean_distances linear_kernel polynomial_kernel rbf_kernel sigmoid_kernel",
    ),
    (samples, pairwise, "chi2_kernel additive_chi2_kernel paired_cosine_distances paired_euclidean_distances"),
]
for _kind, _module, _names in _KINDS:
    CASES.update({_name: _kind(getattr(_module, _name)) for _name in _names.split()})


def parts(found: Any) -> list[Any]:
    """The arrays and numbers in a result."""
    return [part for item in found for part in parts(item)] if isinstance(found, (tuple, list)) else [found]


def main() -> None:
    warnings.simplefilter("ignore")
    with da.init(devices=4, kind="host", minimum_chunk=1), config_context(array_api_dispatch=True):
        for name, call in CASES.items():
            given = [da.asarray(a, layout=da.blocks(0)) for a in (X, CLASSES, VALUES)]
            found, wanted = parts(call(*given)), parts(call(X.copy(), CLASSES.copy(), VALUES.copy()))
            assert len(found) == len(wanted), name
            for one, other in zip(found, wanted, strict=True):
                assert isinstance(one, da.DistributedArray) or not isinstance(other, np.ndarray), (name, type(one))
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-7, atol=1e-8, err_msg=name)
    print("whole")


if __name__ == "__main__":
    main()
