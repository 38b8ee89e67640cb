"""The class that PyTorch's tests derive from: what they compare, and how closely."""

from __future__ import annotations

import contextlib
import unittest

# (relative, absolute), as torch.testing has them.
TOLERANCES = {
    "float32": (1.3e-6, 1e-5), "complex64": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
}  # fmt: skip


def test_case(torch, numpy):
    """The class that tests derive from."""

    sequences = list, tuple, torch.utils.data.Subset, torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ParameterList

    class TestCase(unittest.TestCase):
        precision = 1e-5
        device = device_type = "cpu"

        def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, **options):
            """Compare what tests compare: tensors, numbers, and nests of them."""
            if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
                if isinstance(x, (torch.Tensor, numpy.ndarray)) and isinstance(y, (torch.Tensor, numpy.ndarray)):
                    if options.get("exact_dtype", True):
                        names = [str(v.dtype).rpartition(".")[2] for v in (x, y)]
                        super().assertEqual(*names)
                x, y = (v if isinstance(v, torch.Tensor) else tensor_of(v) for v in (of_one(x, y), of_one(y, x)))
                self.compare(x, y, rtol, atol)
            elif isinstance(x, numpy.ndarray) and isinstance(y, numpy.ndarray) and x.dtype.kind in "SUO":
                super().assertEqual(x.tolist(), y.tolist())
            elif isinstance(x, sequences) and isinstance(y, sequences):
                super().assertEqual(len(x), len(y))
                for a, b in zip(x, y, strict=True):
                    self.assertEqual(a, b, atol=atol, rtol=rtol)
            elif isinstance(x, dict) and isinstance(y, dict):
                super().assertEqual(set(x), set(y))
                for key in x:
                    self.assertEqual(x[key], y[key], atol=atol, rtol=rtol)
            elif isinstance(x, (float, complex)) or isinstance(y, (float, complex)):
                numpy.testing.assert_allclose(x, y, rtol=1.3e-6 if rtol is None else rtol, atol=atol or 1e-5)
            else:
                super().assertEqual(x, y)

        def compare(self, x, y, rtol, atol):
            """Two tensors, by the tolerances of the coarser dtype."""
            names = {str(t.dtype).rpartition(".")[2] for t in (x, y)}
            a, b = (numbers(t) for t in (x, y))
            super().assertEqual(a.shape, b.shape)
            known = [TOLERANCES[n] for n in names if n in TOLERANCES] or [(1e-7, 1e-7)]
            rtol, atol = max(known)[0] if rtol is None else rtol, max(known)[1] if atol is None else atol
            numpy.testing.assert_allclose(a, b, rtol=rtol, atol=atol)

        def compare_with_numpy(self, torch_fn, np_fn, tensor_like, device=None, dtype=None, **options):
            """A function's result on a tensor, or on what is made one, and that of NumPy's on the same numbers."""
            x = tensor_like if isinstance(tensor_like, torch.Tensor) else torch.tensor(tensor_like, dtype=dtype)
            self.assertEqual(torch_fn(x), np_fn(numbers(x)), **{"exact_dtype": False, **options})

        def assertNotEqual(self, x, y, msg=None, **options):
            """The reverse."""
            with self.assertRaises(AssertionError):
                self.assertEqual(x, y, **options)

        def assertExpectedInline(self, found, expected, skip=0):
            """Texts but for the space around them."""
            super().assertEqual(str(found).strip(), expected.strip())

        @contextlib.contextmanager
        def assertWarnsOnceRegex(self, category, regex=""):
            """A warning that PyTorch gives once."""
            with self.assertWarnsRegex(category, regex):
                yield

        @contextlib.contextmanager
        def assertNotWarn(self, *args):
            """Not looked at."""
            yield

    def of_one(value, other):
        """A tensor of one element without dims, where the other is a number."""
        alone = isinstance(value, torch.Tensor) and isinstance(other, (int, float, complex)) and value.numel() == 1
        return value.reshape(()) if alone else value

    def numbers(tensor):
        tensor = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
        plain = tensor.resolve_conj().resolve_neg().cpu()
        return (plain.float() if str(plain.dtype).endswith("bfloat16") else plain).numpy()

    def tensor_of(value):
        if isinstance(value, (numpy.ndarray, numpy.generic)):
            return torch.from_numpy(numpy.array(value))
        nested = isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], torch.Tensor)
        return torch.stack(list(value)) if nested else torch.tensor(value)

    return TestCase
