"""Streams, events, properties and random states of CUDA devices; and what programs may ask where there are none."""

import pytest

import jitgrad as torch

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="neither a GPU nor the simulator is there")
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU or the simulator")


@on_cuda
@pytest.mark.filterwarnings("ignore:Simulator timings")
def test_events_follow_the_launches():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    assert start.query() and "uninitialized" in repr(start)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    x = torch.ones(8, device="cuda") * 2
    end.record(torch.cuda.current_stream())
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    assert x.sum().item() == 16
    plain = torch.cuda.Event()
    plain.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(plain)


@on_cuda
def test_every_stream_is_the_default_one():
    own, current = torch.cuda.Stream(), torch.cuda.current_stream()
    assert own == current == torch.cuda.default_stream() and hash(own) == hash(current)
    assert own.device == torch.device("cuda", 0) and repr(own).startswith("<torch.cuda.Stream device=cuda:0")
    own.wait_stream(current)
    with torch.cuda.stream(own), own:
        x = torch.arange(3.0, device="cuda") + 1
    current.wait_event(own.record_event())
    torch.cuda.set_stream(own)
    own.synchronize()
    assert own.query() and x.tolist() == [1, 2, 3]


@on_cuda
def test_properties():
    found = torch.cuda.get_device_properties("cuda")
    assert found.name == torch.cuda.get_device_name() and found.total_memory > 0 and found.multi_processor_count > 0
    assert torch.cuda.get_device_capability(0) == (found.major, found.minor)
    assert torch.cuda.get_arch_list() == [f"sm_{found.major}{found.minor}"]
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == found.total_memory
    assert torch.cuda.is_bf16_supported() and isinstance(torch.cuda.is_tf32_supported(), bool)
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(7)
    with torch.cuda.device(0), torch.cuda.device_of(torch.ones(2, device="cuda")), torch.cuda.device_of(torch.ones(2)):
        assert torch.cuda.current_device() == 0


@on_cuda
def test_random_states_are_those_of_the_generator():
    states = torch.cuda.get_rng_state_all()
    first = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="cuda").cpu(), first.cpu())
    torch.cuda.set_rng_state(states[0])
    assert torch.equal(torch.rand(3), first.cpu())


@on_cuda
@pytest.mark.parametrize(
    "drawn",
    [
        lambda device: torch.rand(3, device=device),
        lambda device: torch.randn(5, 4, device=device, dtype=torch.float64),
        lambda device: torch.randint(9, (7,), device=device),
        lambda device: torch.randperm(6, device=device),
        lambda device: torch.nn.functional.dropout(torch.ones(9).to(device)),
        lambda device: torch.empty(4, 3).to(device).t().uniform_(-1, 1),
        lambda device: torch.nn.Linear(4, 3, device=device).weight.detach(),
    ],
)
def test_random_numbers_are_those_of_the_cpu(drawn):
    torch.manual_seed(3)
    expected = drawn("cpu")
    torch.manual_seed(3)
    found = drawn("cuda")
    assert found.device == torch.device("cuda", 0) and torch.equal(found.cpu(), expected)


@without_cuda
def test_questions_that_have_answers_without_a_gpu():
    cuda = torch.cuda
    assert not cuda.is_bf16_supported() and not cuda.is_tf32_supported()
    assert cuda.get_rng_state_all() == [] == cuda.get_arch_list()
    assert cuda.set_rng_state_all([]) is None and cuda.seed_all() is None and cuda.set_stream(None) is None
    with cuda.stream(None), cuda.device(None), cuda.device(-1), cuda.device_of(torch.ones(2)):
        pass


@without_cuda
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: torch.cuda.Stream(), RuntimeError),
        (lambda: torch.cuda.Event(), RuntimeError),
        (lambda: torch.cuda.current_stream(), AssertionError),
        (lambda: torch.cuda.default_stream(), AssertionError),
        (lambda: torch.cuda.get_device_properties(0), AssertionError),
        (lambda: torch.cuda.get_device_capability(), AssertionError),
        (lambda: torch.cuda.mem_get_info(), AssertionError),
        (lambda: torch.cuda.get_rng_state(), AssertionError),
    ],
)
def test_what_needs_a_gpu_says_so(call, error):
    with pytest.raises(error, match=r"CUDA|dummy base class Event"):
        call()
