"""Fourier transforms, and what is made of them.

Three declared ops (transforms.py: complex to complex, real to complex, complex to real) are all that launches kernels.
The functions of ``jitgrad.fft`` parse arguments and call them (fft.py).
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.fft.fft", fft="fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift "
              "ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn")  # fmt: skip
