"""A product that lacks what its family needs is refused where it is declared."""

import pytest

from jitgrad.ops.linalg.added_products import AddedProduct
from jitgrad.ops.linalg.matrix_products import MatrixProduct


def forward(x, y):
    return x


@pytest.mark.parametrize(
    ("base", "words", "remedy"),
    [(MatrixProduct, "the ranks of its factors", "set ndims"), (AddedProduct, "no product is named", "set product")],
)
def test_refused_with_class_place_and_remedy(base, words, remedy):
    with pytest.raises(TypeError, match=f"MyProduct .*{words}; {remedy}") as caught:
        type("MyProduct", (base,), {"__doc__": "My op.", "forward": forward}, listed=False)
    assert f"{__file__}:" in str(caught.value)


def test_a_product_is_linear_in_both_factors():
    body = {"__doc__": "My op.", "forward": forward, "ndims": (2, 2)}
    assert type("MyProduct", (MatrixProduct,), body, listed=False).linear == ("x", "y")
