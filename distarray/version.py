"""The version of the package, looked up when it is asked for: the look-up costs as much as all of the package's files."""

__all__ = ["installed_version"]


def installed_version() -> str:
    """What pip installed; ``"0.0.0"`` where the package is used from a source tree that was not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("distarray")
    except PackageNotFoundError:
        return "0.0.0"
