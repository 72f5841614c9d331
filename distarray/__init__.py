"""One logical array over many devices that behaves like a NumPy array.

Make one with :func:`asarray` or the creation functions; NumPy's functions dispatch to it. ``init`` chooses the devices,
``blocks``, ``grid``, ``cyclic`` and ``replicated`` the layout, ``explain``, ``ledger`` and ``no_implicit_communication``
show and bound what moves.
"""

from distarray import errors, fft, lib, linalg, polynomial, random, testing, typing
from distarray.array.fallback import host_fallback
from distarray.context import Context, Group
from distarray.current import init, process_count, process_index
from distarray.distributed_array import DistributedArray
from distarray.errors import *
from distarray.geometry import IndexMap, Range, Region, blocks, cyclic, grid, make_2d_index_map, replicated
from distarray.groups.join import group, init_all, init_process_group
from distarray.layout import Layout
from distarray.linalg import dots, polynomials, products
from distarray.linalg.dots import *
from distarray.linalg.einsum import einsum, einsum_path
from distarray.linalg.polynomials import *
from distarray.linalg.products import *
from distarray.modes import MAX, MIN, PROD, REPLICA, SUM, Mode
from distarray.ops import (
    applying,
    binning,
    bits,
    choosing,
    chunks,
    comparing,
    complex_numbers,
    coordinates,
    creation,
    data_types,
    differences,
    editing,
    elementwise,
    flat,
    flipping,
    grids,
    histograms,
    index_arrays,
    indexing,
    joining,
    loading,
    manipulation,
    metadata,
    moments,
    nans,
    numbers,
    numpy_names,
    padding,
    partitioning,
    placing,
    printing,
    processes,
    quantiles,
    reductions,
    refused,
    repeating,
    reshaping,
    saving,
    scans,
    searching,
    selecting,
    sequences,
    sets,
    signal,
    sorting,
    sources,
    splitting,
    statistics,
    taking,
    triangles,
    ufuncs,
    vectorizing,
    windows,
)
from distarray.ops import scimath as emath
from distarray.ops.applying import *
from distarray.ops.binning import *
from distarray.ops.bits import *
from distarray.ops.choosing import *
from distarray.ops.chunks import *
from distarray.ops.comparing import *
from distarray.ops.complex_numbers import *
from distarray.ops.convert import asarray, astype, copy, distributed_array, from_dlpack
from distarray.ops.coordinates import *
from distarray.ops.creation import *
from distarray.ops.data_types import *
from distarray.ops.data_types import __array_api_version__, __array_namespace_info__
from distarray.ops.diagonals import cross, diagonal, trace
from distarray.ops.differences import *
from distarray.ops.editing import *
from distarray.ops.einops_backend import teach_einops
from distarray.ops.elementwise import *
from distarray.ops.explain import Explanation, explain, ledger, no_implicit_communication, synchronize
from distarray.ops.flat import *
from distarray.ops.flipping import *
from distarray.ops.grids import *
from distarray.ops.histograms import *
from distarray.ops.index_arrays import *
from distarray.ops.joining import *
from distarray.ops.loading import *
from distarray.ops.manipulation import *
from distarray.ops.moments import *
from distarray.ops.nans import *
from distarray.ops.numbers import *
from distarray.ops.numpy_names import *
from distarray.ops.padding import *
from distarray.ops.partitioning import *
from distarray.ops.placing import *
from distarray.ops.processes import *
from distarray.ops.quantiles import *
from distarray.ops.reductions import *
from distarray.ops.repeating import *
from distarray.ops.reshaping import *
from distarray.ops.saving import *
from distarray.ops.scans import *
from distarray.ops.searching import *
from distarray.ops.selecting import *
from distarray.ops.sequences import *
from distarray.ops.sets import *
from distarray.ops.signal import *
from distarray.ops.sorting import *
from distarray.ops.sources import *
from distarray.ops.splitting import *
from distarray.ops.statistics import *
from distarray.ops.taking import *
from distarray.ops.triangles import *
from distarray.ops.vectorizing import *
from distarray.ops.windows import *
from distarray.transfer.ledger import Ledger, Move
from distarray.version import installed_version

_CHAPTERS = (
    applying, binning, bits, choosing, chunks, comparing, complex_numbers, coordinates, creation, data_types,
    differences, dots, editing, elementwise, flat, flipping, grids, histograms, index_arrays, joining, loading,
    manipulation, moments, nans, numbers, numpy_names, padding, partitioning, placing, polynomials, processes, products,
    quantiles, reductions, repeating, reshaping, saving, scans, searching, selecting, sequences, sets, signal, sorting,
    sources, splitting, statistics, taking, triangles, vectorizing, windows,
)  # fmt: skip

__all__ = [
    *errors.__all__,
    *(name for chapter in _CHAPTERS for name in chapter.__all__),
    "Context",
    "DistributedArray",
    "Explanation",
    "Group",
    "IndexMap",
    "Layout",
    "Ledger",
    "MAX",
    "MIN",
    "Mode",
    "Move",
    "PROD",
    "REPLICA",
    "Range",
    "Region",
    "SUM",
    "asarray",
    "astype",
    "blocks",
    "copy",
    "cross",
    "cyclic",
    "diagonal",
    "distributed_array",
    "einsum",
    "einsum_path",
    "emath",
    "explain",
    "fft",
    "grid",
    "group",
    "init",
    "init_all",
    "init_process_group",
    "ledger",
    "lib",
    "linalg",
    "polynomial",
    "make_2d_index_map",
    "no_implicit_communication",
    "process_count",
    "process_index",
    "random",
    "replicated",
    "synchronize",
    "testing",
    "from_dlpack",
    "host_fallback",
    "trace",
    "typing",
]


def __dir__() -> list[str]:
    return sorted({*globals(), "__version__"})


__getattr__ = errors.absent_from(__name__, numpy_names.ELSEWHERE, {"__version__": installed_version})

teach_einops()
