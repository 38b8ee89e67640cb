"""Fourier transforms, and what is made of them.

Three declared ops (transforms.py: complex to complex, real to complex, complex to real) are all that launches
transforms. The functions of ``jitgrad.fft`` parse arguments and call them (fft.py), as do ``stft`` and its inverse
(stft.py). Windows are in windows.py, those of ``jitgrad.signal`` too.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.fft.fft", fft="fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift "
              "ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn")  # fmt: skip
publish_later("jitgrad.ops.fft.stft", "istft stft")
publish_later(
    "jitgrad.ops.fft.windows",
    functions="bartlett_window blackman_window hamming_window hann_window kaiser_window",
    **{"signal.windows": "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann "
                         "kaiser nuttall"},
)  # fmt: skip
