"""The namespace's ``linalg`` extension: what is there of the array API's."""

from distarray.linalg.norms import matrix_norm, matrix_transpose, norm, vector_norm
from distarray.linalg.products import matmul, outer, tensordot, vecdot

__all__ = ["matmul", "matrix_norm", "matrix_transpose", "norm", "outer", "tensordot", "vecdot", "vector_norm"]
