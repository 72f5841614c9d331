"""The namespace's ``linalg`` extension: what is there of the array API's."""

from distarray.ops.linalg import matmul, outer, tensordot, vecdot
from distarray.ops.norms import matrix_norm, matrix_transpose, norm, vector_norm

__all__ = ["matmul", "matrix_norm", "matrix_transpose", "norm", "outer", "tensordot", "vecdot", "vector_norm"]
