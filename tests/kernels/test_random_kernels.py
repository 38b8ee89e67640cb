"""PyTorch's random numbers, pinned: the literals were printed by PyTorch 2.13 on an x86 CPU."""

import numpy as np
import pytest

from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import random

F32, F64, I64 = np.float32, np.float64, np.int64
LAST_DIGITS = {"rtol": 4e-7, "atol": 1e-7}  # CPUs without FMA round differently


def seeded(seed):
    state = np.zeros(random.STATE_WORDS, np.uint32)
    launch(random.seed, state, seed)
    return state


def take(kernel, state, n, dtype, *scalars):
    out = np.empty(n, dtype)
    launch(kernel, out, state, *scalars)
    return out


def ints(state, n, dtype="int64", low=None, high=None):
    first, span, wide = random.integer_range(dtype, low, high)
    return take(random.wide_integers if wide else random.integers, state, n, dtype, first, span)


def test_uniform():
    state = seeded(0)
    expected = [
        0.49625658988952637,
        0.7682217955589294,
        0.08847743272781372,
        0.13203048706054688,
        0.30742281675338745,
    ]
    assert take(random.uniform32, state, 5, F32, 0.0, 1.0).tolist() == expected
    expected = [0.07262971157225484, 0.17155810530414428, 0.0584505300016952]
    assert take(random.uniform64, state, 3, F64, 0.0, 1.0).tolist() == expected


@pytest.mark.parametrize("seed, same", [(3, 2**32 + 3), (-1, 2**32 - 1), (-(2**63), 0)])
def test_the_low_32_bits_of_a_seed_decide(seed, same):
    one, other = seeded(seed), seeded(same)
    np.testing.assert_array_equal(one[:624], other[:624])
    assert one[628:630].view(I64)[0] == seed


def test_a_negative_seed():
    expected = [0.9937993884086609, 0.5713063478469849]
    assert take(random.uniform32, seeded(-1), 2, F32, 0.0, 1.0).tolist() == expected


def test_uniforms_are_numpys_words():
    generator = np.random.RandomState(7)
    words = np.frombuffer(generator.bytes(4 * 5000), np.uint32)
    expected = (words & 0xFFFFFF).astype(F32) * F32(2**-24)
    state = seeded(7)
    parts = [take(random.uniform32, state, n, F32, 0.0, 1.0) for n in (1, 623, 1, 624, 2000, 1751)]
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_words_in_pieces_are_those_at_once():
    sizes = [1, 2, 15, 16, 17, 226, 227, 228, 400, 623, 624, 625, 1, 1300]
    state, whole = seeded(7), np.random.RandomState(7).randint(0, 1 << 32, sum(sizes), np.uint32)
    found = [take(random.integers, state, n, I64, 0, 1 << 32) for n in sizes]
    assert np.concatenate(found).tolist() == whole.tolist()


def test_few_normals_keep_the_odd_one():
    state = seeded(0)
    first = take(random.normal_few, state, 3, F32, 0.0, 1.0)
    then = take(random.normal_few, state, 2, F32, 0.0, 1.0)
    np.testing.assert_allclose(
        first, [1.5409960746765137, -0.293428897857666, -2.1787893772125244], **LAST_DIGITS
    )
    np.testing.assert_allclose(then, [0.5684312582015991, -1.0845223665237427], **LAST_DIGITS)


NORMALS_20 = """
    -1.12583983 -1.1523602 -0.250578582 -0.433878809 0.598839462 -1.55509508 -0.34136039
    1.85300612 0.468096405 -0.157712445 1.44366014 0.266049415 1.38936615 1.58633423
    0.946298361 -0.843676746 0.931826591 1.25900924 2.00498056 0.0537369028"""


def test_normals_redraw_the_last_sixteen():
    state = seeded(0)
    got = take(random.normal32, state, 20, F32, 0.0, 1.0)
    np.testing.assert_allclose(got, np.array(NORMALS_20.split(), float), **LAST_DIGITS)
    then = take(random.uniform32, state, 2, F32, 0.0, 1.0)
    np.testing.assert_allclose(then, [0.208129764, 0.92979902], **LAST_DIGITS)


NORMALS_17 = [
    -0.31128955419003207, 0.3739858166762804, 0.5739008402091161, 1.5697184649359581,
    0.8734455849426772, -3.704663800207429, -1.8141539905872015, -1.8425712793844078,
    0.09412786590968454, 0.5462183247259068, 1.052307808929565, -0.15636439667930063,
    -2.1010054062092243, 1.5797411191469026, 1.0833573008638342, 0.8896745158287568,
    -1.928583354008078,
]  # fmt: skip


def test_float64_normals():
    np.testing.assert_allclose(
        take(random.normal64, seeded(1), 17, F64, 0.0, 1.0), NORMALS_17, rtol=1e-14
    )


@pytest.mark.parametrize("n", [16, 17, 511, 512, 513, 1000, 2048 + 5])
@pytest.mark.parametrize("bits", [32, 64])
def test_normals_of_every_length_are_box_and_mullers(n, bits):
    dtype = F32 if bits == 32 else F64
    normal, uniform = (getattr(random, f"{name}{bits}") for name in ("normal", "uniform"))
    state = seeded(5)
    u = take(uniform, state, n + (16 if n % 16 else 0), dtype, 0.0, 1.0).astype(F64)
    blocks = [u[k : k + 16] for k in range(0, n - n % 16, 16)]
    radius = [np.sqrt(-2 * np.log1p(-b[:8])) for b in [*blocks, u[-16:]]]
    angle = [2 * np.pi * b[8:] for b in [*blocks, u[-16:]]]
    pairs = [
        np.concatenate([r * np.cos(a), r * np.sin(a)]) for r, a in zip(radius, angle, strict=True)
    ]
    expected = np.empty(n)
    expected[: n - n % 16] = np.concatenate(pairs[:-1])
    expected[n - 16 :] = pairs[-1]
    got = take(normal, seeded(5), n, dtype, 0.0, 1.0)
    np.testing.assert_allclose(got, expected, atol=2e-6 if bits == 32 else 1e-14)


def test_mean_and_std():
    z = take(random.normal32, seeded(2), 100, F32, 0.0, 1.0)
    np.testing.assert_allclose(
        take(random.normal32, seeded(2), 100, F32, 1.5, 0.25), 1.5 + 0.25 * z, rtol=1e-6
    )


def test_integers():
    state = seeded(42)
    assert ints(state, 10, low=0, high=10).tolist() == [2, 7, 6, 4, 6, 5, 0, 4, 0, 3]
    assert ints(state, 3, low=-5, high=2**40).tolist() == [902359435404, 319795166448, 375022762199]
    expected = [1865242737500154727, 3838261603483033730, 379716980844854580, 8668306688712173911]
    assert ints(state, 4).tolist() == expected
    assert ints(state, 3, "float32").tolist() == [1766678.0, 4521133.0, 6019823.0]


@pytest.mark.parametrize("span", [1, 2, 3, 7, 10, 641, 2**16, 2**27 + 1, 2**28 - 1])
def test_remainders_are_exact(span):
    words = np.frombuffer(np.random.RandomState(9).bytes(4 * 20000), np.uint32)
    got = ints(seeded(9), 20000, low=0, high=span)
    np.testing.assert_array_equal(got, words % span)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (("int64",), (0, -(2**63), True)),
        (("int32",), (0, 2**31, False)),
        (("uint8",), (0, 256, False)),
        (("bool",), (0, 2, False)),
        (("float32",), (0, 2**24 + 1, False)),
        (("float64",), (0, 2**53 + 1, True)),
        (("bfloat16",), (0, 257, False)),
        (("int64", -5), (-5, -(2**63) + 5, True)),
        (("int64", -(2**63)), (0, 0, True)),
        (("float32", -5), (-5, 2**24 + 6, False)),
        (("int64", 3, 3 + 2**28), (3, 2**28, True)),
        (("int64", 3, 2 + 2**28), (3, 2**28 - 1, False)),
    ],
)
def test_integer_ranges(arguments, expected):
    assert random.integer_range(*arguments) == expected


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("int64", 5, 5), "random_ expects 'from' to be less than 'to', but got from=5 >= to=5"),
        (("int8", 0, 200), "to - 1 is out of bounds for signed char"),
        (("uint8", -1, 5), "from is out of bounds for unsigned char"),
        (("bool", 0, 3), "to - 1 is out of bounds for bool"),
        (("float16", 0, 70000), "to - 1 is out of bounds for c10::Half"),
        (
            ("float32", 2**25 + 1, 2**25 + 3),
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, "
            "but got from=33554436 >= to=33554435",
        ),
        (
            ("float32", 2**24 + 5),
            "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to "
            "dtype, but got from=16777221 > to_inc=16777216",
        ),
    ],
)
def test_ranges_that_a_dtype_cannot_hold(arguments, text):
    with pytest.raises(RuntimeError) as raised:
        random.integer_range(*arguments)
    assert str(raised.value) == text


def test_float_bounds_move_inwards():
    with pytest.warns(
        UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]. Due to precision"
    ):
        assert random.integer_range("float32", 0, 2**30) == (0, 2**30 - 64, True)


def test_permutation():
    assert take(random.permutation, seeded(42), 10, I64).tolist() == [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]
    assert take(random.permutation, seeded(42), 0, I64).size == 0
    many = take(random.permutation, seeded(42), 5000, np.int32)
    np.testing.assert_array_equal(np.sort(many), np.arange(5000))


def test_bernoulli():
    state = seeded(42)
    assert take(random.bernoulli, state, 8, F32, 0.4).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    out = np.empty(8, F32)
    launch(random.bernoulli_each32, np.full(8, 0.4, F32), out, state, np.zeros(1, np.int64))
    assert out.tolist() == [0, 0, 1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64"])
def test_bernoulli_is_the_same_in_every_dtype(dtype):
    u = take(random.uniform64, seeded(3), 700, F64, 0.0, 1.0)
    got = take(random.bernoulli, seeded(3), 700, dtype, 0.3)
    np.testing.assert_array_equal(got, u < 0.3)
    p, out = np.linspace(0, 1, 700), np.empty(700, dtype)
    launch(random.bernoulli_each64, p, out, seeded(3), np.zeros(1, np.int64))
    np.testing.assert_array_equal(out, u < p)


def test_dropout_mask():
    kept = take(random.bernoulli, seeded(3), 700, F32, 0.7)
    np.testing.assert_array_equal(
        take(random.dropout_mask, seeded(3), 700, F32, 0.7), kept / F32(0.7)
    )


def test_other_distributions():
    state = seeded(42)
    got = take(random.exponential, state, 3, F32, 2.0)
    np.testing.assert_allclose(
        got, [0.029957007616758347, 0.03248806297779083, 0.06595838814973831], **LAST_DIGITS
    )
    assert take(random.geometric, state, 5, I64, 0.3).tolist() == [9, 2, 3, 1, 1]
    got = take(random.cauchy, state, 3, F32, 0.0, 1.0)
    np.testing.assert_allclose(
        got, [-3.722224712371826, -2.2592549324035645, -1.8595622777938843], **LAST_DIGITS
    )
    got = take(random.log_normal, state, 3, F32, 1.0, 2.0)
    np.testing.assert_allclose(
        got, [0.17809796333312988, 40.97163772583008, 10.356101989746094], **LAST_DIGITS
    )


def test_log_normals_wait_in_pairs_too():
    parts, state = [], seeded(6)
    for n in (1, 255, 256, 3, 300):
        parts.append(take(random.log_normal, state, n, F64, 0.0, 1.0))
    np.testing.assert_array_equal(
        np.concatenate(parts), take(random.log_normal, seeded(6), 815, F64, 0.0, 1.0)
    )


def test_multinomial():
    weights, out = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], F32), np.empty((2, 6), I64)
    launch(random.multinomial, weights, out, seeded(42))
    assert out.tolist() == [[0, 0, 1, 0, 2, 2], [2, 2, 0, 0, 0, 0]]


def packed_state(state):
    packed = np.empty(random.PACKED_BYTES, np.uint8)
    launch(random.pack_state, state, packed)
    return packed


def test_state_round_trip():
    state = seeded(-5)
    fresh = packed_state(state)
    assert fresh[:24].view(np.int32).tolist() == [-5, -1, 1, 1, 0, 0]
    take(random.normal_few, state, 3, F32, 0.0, 1.0)
    packed = packed_state(state)
    assert packed[:24].view(np.int32).tolist() == [-5, -1, 617, 1, 8, 0]
    restored = np.zeros_like(state)
    launch(random.unpack_state, packed, restored)
    np.testing.assert_array_equal(restored, state)


def test_bytes_that_are_no_state():
    state = seeded(0)
    with pytest.raises(
        RuntimeError, match="of size 5056 but found the input RNG state size to be 100"
    ):
        launch(random.unpack_state, np.zeros(100, np.uint8), state)
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        launch(random.unpack_state, np.zeros(5056, np.uint8), state)


OF_STATE = "seed", "pack_state", "unpack_state"


def test_kernels_declare_that_they_write_the_state():
    kernels = {name: getattr(random, name) for name in random.__all__ if name not in OF_STATE}
    writes = {
        name: len(kernel.writes) for name, kernel in kernels.items() if hasattr(kernel, "writes")
    }
    assert all(len(getattr(random, name).writes) == 1 for name in OF_STATE)
    assert writes and set(writes.values()) == {2, 3}, "out and state, and whether a probability is wrong"
