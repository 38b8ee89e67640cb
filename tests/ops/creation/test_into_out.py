"""``out=`` of creation functions; tensors among the elements of data."""

import warnings

import pytest

import jitgrad as torch


def test_shapes_change_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (torch.zeros(3, out=torch.ones(2)), torch.full((3,), 0.0, out=torch.ones(2)),
                     torch.linspace(0, 0, 3, out=torch.ones(5))):  # fmt: skip
            assert made.tolist() == [0, 0, 0]
        assert torch.eye(2, out=torch.ones(3)).tolist() == [[1, 0], [0, 1]]
        assert torch.randperm(3, out=torch.ones(2, dtype=torch.int64)).sum() == 3
    with pytest.warns(UserWarning, match=r"of shape \[1, 4\] is 4 which does not match the computed number.* 3"):
        assert torch.arange(3, out=torch.ones(1, 4)).tolist() == [0, 1, 2]


def test_ranges_that_no_tensor_holds():
    with pytest.raises(RuntimeError, match="invalid size, possible overflow"):
        torch.arange(1e-38, 3.4e38)
    with pytest.raises(RuntimeError, match="invalid size, possible overflow"):
        torch.arange(-1.7e308, 1.7e308)


def test_other_places_are_refused():
    with pytest.raises(RuntimeError, match=r"layout Sparse does not match layout of out parameter \(Strided\)"):
        torch.zeros(3, layout=torch.sparse_coo, out=torch.ones(3))
    with pytest.raises(RuntimeError, match=r"device type meta does not match device type of out parameter \(cpu\)"):
        torch.zeros(3, device="meta", out=torch.ones(3))
    assert torch.zeros(2, device="cpu", layout=torch.strided, out=torch.ones(2)).tolist() == [0, 0]


def test_tensors_in_lists_are_elements():
    one, two = torch.tensor([1]), torch.tensor(2)
    assert torch.tensor([one, two]).tolist() == [1, 2] == torch.tensor([two, one]).sort()[0].tolist()
    assert torch.tensor([[one], [two]]).shape == (2, 1)
    assert torch.tensor([torch.tensor([[0.5]]), 3]).tolist() == [0.5, 3]
    assert torch.tensor([[1, 2], torch.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]  # where rows are expected
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        torch.tensor([torch.ones(2), torch.ones(2)])
    for wrong in ([torch.tensor([1, 2])], [torch.tensor([])]):
        with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
            torch.tensor(wrong, dtype=torch.int64)
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        torch.tensor([torch.tensor(1.5)], dtype=torch.int32)


def test_grids_of_one_device():
    with pytest.raises(RuntimeError, match="expects all tensors to have the same device"):
        torch.meshgrid(torch.ones(2), torch.ones(2, device="meta"), indexing="ij")
    with pytest.raises(TypeError, match="expected Tensor as element 0 in argument 0, but got list"):
        torch.cartesian_prod([torch.ones(2)])


def test_dtypes_of_histograms():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="hist tensor should have the same dtype, but got input float and hist int"):
        torch.histogram(x, 3, out=(torch.empty(0, dtype=torch.int32), torch.empty(0)))
    with pytest.raises(RuntimeError, match="but got input float and bin_edges double for dimension 0"):
        torch.histogram(x, 3, out=(torch.empty(0), torch.empty(0, dtype=torch.float64)))
