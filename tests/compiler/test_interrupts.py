"""What an interrupt leaves behind: Python raises it once compiled code has returned, so that all of that was done."""

import signal

import pytest

import jitgrad as torch


def interrupted(function, done):
    """The same, but that KeyboardInterrupt is raised when it has been done, which it says by returning ``done``."""

    def run(*args):
        status = function(*args)
        if status == done:
            raise KeyboardInterrupt
        return status

    return run


def interrupt_next(replay):
    """Let the next run of the program be interrupted; returns what lets it run again."""
    program, scope = replay.program, replay.__globals__
    if program.brief:
        begin, scope["begin"] = scope["begin"], interrupted(scope["begin"], 0)
        return lambda: scope.update(begin=begin)
    rows, program._run_rows = program._run_rows, interrupted(program._run_rows, -1)
    return lambda: setattr(program, "_run_rows", rows)


@pytest.mark.parametrize("size", [3, 1 << 17], ids=["brief", "long"])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("moves", [False, True], ids=["own", "argument"])
def test_writes_are_counted_that_were_done(size, timed, moves):
    table = torch.arange(3.0)
    own = torch.zeros(size)

    def step(i, given):
        total = given if moves else own
        total.add_(1)
        return table[i] * 2

    compiled = torch.compile(step, options={"trace.times": timed})
    where = torch.tensor([0])
    for _ in range(3):
        compiled(where, own)
    assert compiled._variants[0].program.brief is (size == 3 and not timed)
    for failed_before in (False, True):
        if failed_before:
            with pytest.raises(IndexError):
                compiled(torch.tensor([7]), own)
        before = own._version, float(own[0])
        resume = interrupt_next(compiled._variants[0])
        with pytest.raises(KeyboardInterrupt):
            compiled(where, own)
        resume()
        assert own._version - before[0] == float(own[0]) - before[1]
        compiled(where, own)
        assert own._version == float(own[-1])
    assert len(compiled._variants) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_a_signal_in_the_middle_of_a_run():
    own, by = torch.zeros(500, 500), torch.rand(500, 500)

    @torch.compile
    def step(x):
        own.add_(1)
        for _ in range(30):
            x = (x @ by) * 1e-3
        own.add_(1)
        return x.sum()

    def interrupt(*_):
        raise KeyboardInterrupt

    for _ in range(3):
        step(by)
    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(1000):
                step(by)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
    assert own._version == float(own[0, 0])
    step(by)
    assert own._version == float(own[0, 0])
