"""Functions that choose among the ops of the elementwise table, and what else goes element by element.

An op that is one formula of its operands is a row of the table (kernels/elementwise), which publishes it by itself:
nothing is to be written here. Here are the functions whose arguments decide which row is applied (arithmetic.py, which
is what to read first; where_clamp.py, activation.py), complex tensors and their parts, and comparisons in place.

To add a function, write it with ``apply(table.NAME, ...)`` under ``published``, which makes the in-place method, too.
Where a rule of the table uses a word that on tensors is such a function, name it in words_on_tensors.py.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.pointwise.inplace_comparisons",
              methods="eq_ ge_ greater_ greater_equal_ gt_ le_ less_ less_equal_ lt_ ne_ not_equal_")  # fmt: skip
publish_later("jitgrad.kernels.elementwise.bessel", "i0", methods="i0_",
              special="i0e i1 i1e modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 "
                      "scaled_modified_bessel_k0 scaled_modified_bessel_k1 bessel_j0 bessel_j1 bessel_y0 bessel_y1 "
                      "spherical_bessel_j0 airy_ai")  # fmt: skip
publish_later("jitgrad.kernels.elementwise.orthogonal_polynomials",
              special="chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
                      "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
                      "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
                      "laguerre_polynomial_l legendre_polynomial_p")  # fmt: skip
publish_later("jitgrad.kernels.elementwise.probability", special="erfcx ndtr log_ndtr ndtri entr")
publish_later("jitgrad.kernels.elementwise.parts", "gcd lcm ldexp nextafter",
              methods="gcd_ lcm_ ldexp_ nextafter_")  # fmt: skip
publish_later("jitgrad.ops.pointwise.special", "igamma igammac mvlgamma", functions="i0_",
              methods="igamma_ igammac_ mvlgamma_", special="xlog1py zeta")  # fmt: skip
publish_later("jitgrad.ops.pointwise.parts", "frexp heaviside", functions="fill gcd_ lcm_ ldexp_",
              methods="heaviside_")  # fmt: skip
publish_later("jitgrad.ops.pointwise.element_functions", methods="apply_ map_ map2_")
