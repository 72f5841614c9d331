"""Principal components and clusters of the handwritten digits, by one function that knows only NumPy.

`analyse` is an ordinary NumPy program. It runs twice, unchanged: on a NumPy array, and on the same data spread over
several devices. The script prints both times, what moved between devices, and the largest difference of the results,
and exits with 1 if that is more than 1e-10.

    python examples/digits_pca.py --devices 4
    mpiexec -n 4 python examples/digits_pca.py      # one device a process: the same layout, the same numbers, to the bit
"""

from __future__ import annotations

import argparse
import sys
import time
from hashlib import blake2b
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import distarray as da
from distarray.cluster import detect

COMPONENTS = 10
CLUSTERS = 10
TOLERANCE = 1e-10


def principal_components(z: Any, k: int, iterations: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues of the covariance of the rows of z, and their eigenvectors, by subspace iteration.

    The tall products run where z lives. The basis is small (features × k): NumPy orthonormalises it on the host.
    """
    covariance = np.matmul(z.T, z) / z.shape[0]
    features = z.shape[1]
    width = min(k + 6, features)  # a few more vectors than are wanted: they converge sooner
    basis = np.cos(np.arange(features * width) ** 2.0).reshape(features, width)  # any start of full rank will do
    for _ in range(iterations):
        basis, _ = np.linalg.qr(np.asarray(np.matmul(covariance, basis)))
    # Rayleigh-Ritz: the eigenvectors within the subspace found
    small = basis.T @ np.asarray(np.matmul(covariance, basis))
    values, rotation = np.linalg.eigh((small + small.T) / 2)
    values, vectors = values[::-1][:k], (basis @ rotation)[:, ::-1][:, :k]
    # an eigenvector's sign is arbitrary: make its largest entry positive
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(k)]
    return values, vectors * np.sign(largest)


def k_means(points: Any, clusters: int, iterations: int = 20) -> tuple[Any, Any, Any]:
    """Lloyd's iteration from evenly spaced points: the label of each point, the centres, the sum of squared distances.

    ``np.argmin`` gives a tie to the first centre, on one device or many; a centre that loses all its points stays.
    """
    centres = points[:: points.shape[0] // clusters][:clusters].copy()
    for step in range(iterations + 1):
        distances = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        labels = np.argmin(distances, axis=1)
        if step == iterations:
            break
        members = np.equal(labels[:, None], np.arange(clusters)).astype(points.dtype)
        counts = np.sum(members, axis=0)[:, None]
        centres = np.where(counts > 0, np.matmul(members.T, points) / np.maximum(counts, 1), centres)
    return labels, centres, np.sum(np.min(distances, axis=1))


def analyse(x: Any) -> dict[str, np.ndarray]:
    """Standardise, find the principal components, project, cluster. `x` is anything that NumPy's functions take."""
    mean, deviation = np.mean(x, axis=0), np.std(x, axis=0)
    z = (x - mean) / np.where(deviation > 0, deviation, 1.0)  # some pixels are blank in every digit
    values, vectors = principal_components(z, COMPONENTS)
    scores = np.matmul(z, vectors)
    labels, centres, inertia = k_means(scores, CLUSTERS)
    total = np.sum(z * z) / z.shape[0]
    results = {
        "explained variance": values / np.asarray(total),
        "components": vectors,
        "scores": scores,
        "labels": labels,
        "centres": centres,
        "inertia": inertia,
    }
    return {name: np.asarray(value) for name, value in results.items()}


def difference(ours: np.ndarray, ref: np.ndarray) -> float:
    """The largest difference, relative to the largest value where that is above 1."""
    return float(np.max(np.abs(ours - ref)) / max(1.0, float(np.max(np.abs(ref)))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--devices", type=int, help="devices (default 4; under mpiexec one a process)")
    parser.add_argument("--kind", choices=("host", "cuda"), default="host", help="kind of the devices (default host)")
    arguments = parser.parse_args()

    images, digits = load_digits(return_X_y=True)
    start = time.perf_counter()
    ref = analyse(images)
    numpy_time = time.perf_counter() - start

    alone = detect().size == 1
    context = da.init(devices=4 if alone and arguments.devices is None else arguments.devices, kind=arguments.kind)
    x = da.asarray(images, layout=da.blocks(0))
    start = time.perf_counter()
    with da.ledger() as log:
        ours = analyse(x)
    our_time = time.perf_counter() - start

    worst = max(difference(ours[name], ref[name]) for name in ref)
    variance = ours["explained variance"]
    counts = np.bincount(ours["labels"] * 10 + digits, minlength=100).reshape(CLUSTERS, 10)
    bits = blake2b(b"".join(np.asarray(ours[name]).tobytes() for name in sorted(ours)), digest_size=8).hexdigest()
    if da.process_index() > 0:
        return 0 if worst <= TOLERANCE else 1
    print(f"data                 {x.shape[0]} digits x {x.shape[1]} pixels, {x.dtype}, {x.nbytes:,} bytes")
    print(f"layout               {x.layout}")
    print("explained variance  ", " ".join(f"{v:.4f}" for v in variance), f"= {variance.sum():.4f}")
    print(f"k-means              inertia {float(ours['inertia']):.2f}; {counts.max(axis=1).sum() / len(digits):.1%} of")
    print("                     the digits are in a cluster where theirs is the most frequent")
    print(f"moved                {log.bytes_moved:,} bytes between devices")
    print(f"difference           {worst:.1e} from plain NumPy (at most {TOLERANCE:.0e})")
    print(f"time                 {numpy_time:.3f} s in NumPy, {our_time:.3f} s on {context}")
    print(f"bits                 {bits} (equal on any number of processes with this layout)")
    if not worst <= TOLERANCE:
        print("the results differ from NumPy's", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
