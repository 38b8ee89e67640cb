"""CUDA: what runs on a GPU in place of the CPU's kernels.

`emit` writes the text of elementwise kernels and device words from the same rules. `loops`, `matmul` and `optimizer`
are the device's forms of hand-written loops (in `device_array.LOOPS`, by the CPU loop's name); products are by `blas`
where they can be. `provider` is the only file that compiles for the device; `grid` launches, or notes launches for
programs, by `driver` where a kernel has run before. CUDA's packages are imported on first use: without a GPU these
files cost an import and nothing else. Ops and rules have no place here: none knows its device.

Floor: above ``launch``, below the table. Read `provider` first. Anything that has no device form raises PyTorch's
error for a missing kernel. Under ``NUMBA_ENABLE_CUDASIM=1`` Numba's simulator runs the same texts, which is how the
tests check them where there is no GPU; `simulator` puts right what it does otherwise than a GPU.
"""
