"""einops knows arrays by backends, of which it looks for the subclasses: this makes one when einops is imported.

einops has no registry to write to, and importing it here would make everybody pay for it. So where it is not imported yet, a
finder waits for the module of its backends, lets it be loaded as it always is, and then goes away.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from distarray.array.aliases import ArrayLike
from distarray.array.state import DistributedArray

__all__ = ["teach_einops"]

_BACKENDS = "einops._backends"


def _define(module: Any) -> None:
    """The backend: einops' own for NumPy, whose functions dispatch to this package."""

    class DistarrayBackend(module.NumpyBackend):  # type: ignore[misc]
        framework_name = "distarray"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, DistributedArray)

        def from_numpy(self, x: ArrayLike) -> Any:
            raise NotImplementedError("call distarray.asarray(x)")

        def to_numpy(self, x: DistributedArray) -> Any:
            return x.get()

    module.DistarrayBackend = (
        DistarrayBackend  # einops looks for subclasses, which live as long as something holds them
    )


class _Loaded(Loader):
    """Loads the module as its own loader does, and adds the backend."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _define(module)


class _Waiting(MetaPathFinder):
    """Finds nothing but the module of the backends, and that one once."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _BACKENDS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loaded(spec.loader)
        return spec


def teach_einops() -> None:
    """Have einops know distributed arrays, now or when it is imported."""
    if _BACKENDS in sys.modules:
        _define(sys.modules[_BACKENDS])
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())
