"""The namespace's ``linalg`` extension: the array API's functions of linear algebra, and NumPy's others."""

from numpy.linalg import LinAlgError

from distarray.errors import absent_from
from distarray.linalg.decompositions import cholesky, qr, svd, svdvals
from distarray.linalg.dots import tensordot
from distarray.linalg.eigen import eig, eigh, eigvals, eigvalsh
from distarray.linalg.einsum import multi_dot
from distarray.linalg.least_squares import cond, lstsq, matrix_rank, pinv
from distarray.linalg.norms import _outer as outer
from distarray.linalg.norms import matrix_norm, matrix_transpose, norm, vector_norm
from distarray.linalg.products import matmul, vecdot
from distarray.linalg.solving import det, inv, matrix_power, slogdet, solve, tensorinv, tensorsolve
from distarray.ops.diagonals import _cross as cross
from distarray.ops.diagonals import _diagonal as diagonal
from distarray.ops.diagonals import _trace as trace

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

__getattr__ = absent_from(__name__)
