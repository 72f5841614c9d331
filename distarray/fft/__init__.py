"""Discrete Fourier transforms: the array API's ``fft`` extension, and the rest of ``numpy.fft``."""

from distarray.errors import absent_from
from distarray.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from distarray.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

__getattr__ = absent_from(__name__)
