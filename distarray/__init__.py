"""One logical array over many devices that behaves like a NumPy array."""

from distarray.array import DistributedArray
from distarray.context import Context, Group, init, ledger, no_implicit_communication
from distarray.errors import *
from distarray.geometry import IndexMap, Range, Region, blocks, cyclic, grid, make_2d_index_map, replicated
from distarray.layout import Layout
from distarray.modes import MAX, MIN, PROD, REPLICA, SUM, Mode
from distarray.ops import elementwise as _elementwise
from distarray.ops import printing as _printing
from distarray.ops import ufuncs as _ufuncs
from distarray.ops.convert import asarray, distributed_array
from distarray.ops.elementwise import *
from distarray.ops.explain import Explanation, explain, synchronize
from distarray.ops.info import *
