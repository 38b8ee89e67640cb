"""The profiler: what it notes, and that nothing of it is left when it is off."""

import gzip
import json
import sys
import threading

import pytest

import jitgrad
import jitgrad.autograd.profiler
import jitgrad.func
import jitgrad.nn
import jitgrad.optim
from jitgrad.core.tensor import Tensor
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.dispatch.registry import FUNCTIONS, OPS
from jitgrad.engine import engine
from jitgrad.kernels import launch
from jitgrad.profiler import ProfilerAction, profile, record_function, recording, schedule

# A node's class, the pool of threads: they are made when they are first needed, with a profiler or without.
MADE_AT_FIRST_USE = {"__warningregistry__", "node_type", "_pool", "_threads"}


def state():
    """All that a profiler puts something into."""
    modules = [n for n in sys.modules if n.split(".")[0] == "jitgrad" and not n.startswith("jitgrad.profiler")]
    spaces = {"functions": dict(FUNCTIONS)}
    spaces |= {kind: dict(vars(kind)) for kind in (Tensor, engine.Task, jitgrad.optim.Optimizer)}
    spaces |= {("op", n): dict(vars(op)) for n, op in OPS.items()}
    spaces |= {("operation", n): dict(vars(op)) for n, op in OPERATIONS.items()}
    spaces |= {n: dict(vars(sys.modules[n])) for n in modules}
    lists = list(launch.observers), list(engine.observers), list(tensor_observers)
    return spaces, lists


def unchanged(before):
    after = state()
    for name, old in before[0].items():
        new = after[0][name]
        assert not [k for k in old if old[k] is not new.get(k) and k not in MADE_AT_FIRST_USE]
    assert before[1] == after[1]


@pytest.fixture(autouse=True)
def leaves_nothing_behind():
    before = state()
    yield
    unchanged(before)


def names(prof):
    return [e.name for e in prof.events()]


def test_ops_kernels_and_nodes():
    x = jitgrad.ones(3, requires_grad=True)
    with profile(record_shapes=True) as prof:
        (x * x).sum().backward()
    events = {e.name: e for e in prof.events()}
    assert events["mul_forward"].cpu_parent is events["aten::mul"]
    assert events["MulBackward0"].cpu_parent.name == "autograd::engine::evaluate_function: MulBackward0"
    assert events["mul_backward"].cpu_parent is events["MulBackward0"]
    assert "torch::autograd::AccumulateGrad" in events
    assert events["aten::mul"].input_shapes == [[3], [3]] and events["mul_forward"].sequence_nr == -1
    assert events["aten::mul"].sequence_nr == events["MulBackward0"].sequence_nr >= 0
    assert x.grad.tolist() == [2, 2, 2]


def test_nothing_is_kept_after_the_last_profiler():
    class Odd:
        @property
        def shape(self):
            raise RuntimeError("not asked for")

    with profile(record_shapes=True), pytest.raises(TypeError):
        jitgrad.ones(2).add(Odd())
    assert not recording._records and not recording._windows


def test_times_are_nested():
    with profile() as prof, record_function("outer"):
        jitgrad.ones(3).exp()
    for event in prof.events():
        assert 0 <= event.self_cpu_time_total <= event.cpu_time_total
        inner = [c.time_range for c in event.cpu_children]
        assert all(event.time_range.start <= r.start <= r.end <= event.time_range.end for r in inner)
    averages = {e.key: e for e in prof.key_averages()}
    assert averages["outer"].count == 1 and averages["outer"].is_user_annotation
    assert prof.key_averages().self_cpu_time_total == pytest.approx(averages["outer"].cpu_time_total)


def test_averages_by_shape():
    with profile(record_shapes=True) as prof:
        for n in (2, 2, 3):
            jitgrad.ones(n) * 2
    muls = [e for e in prof.key_averages(group_by_input_shape=True) if e.key == "aten::mul"]
    assert [(e.count, e.input_shapes) for e in muls] == [(2, [[2], []]), (1, [[3], []])]
    assert next(e for e in prof.key_averages() if e.key == "aten::mul").count == 3


def test_memory_is_charged_to_who_allocates_it():
    there = jitgrad.ones(1000)
    with profile(profile_memory=True) as prof:
        made = there * 2
        there.detach(), there[1:], there.view(10, 100)
        del made
        with record_function("block"):
            there + 1
    by_name = {e.key: e for e in prof.key_averages()}
    assert by_name["aten::mul"].self_cpu_memory_usage == 4000 and by_name["[memory]"].self_cpu_memory_usage == -4000
    assert by_name["block"].cpu_memory_usage == 0 and by_name["aten::add"].cpu_memory_usage == 4000
    assert "4.00 KB" not in prof.key_averages().table() and "3.91 KB" in prof.key_averages().table()


def test_stacks(tmp_path):
    def here():
        return jitgrad.ones(200, 200) @ jitgrad.ones(200, 200)

    with profile(with_stack=True) as prof:
        here()
    event = next(e for e in prof.events() if e.name == "aten::matmul")
    assert event.stack[0].startswith(__file__) and event.stack[0].endswith(": here")
    prof.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert lines and all(line.rpartition(" ")[2].isdigit() for line in lines)
    assert "Source Location" in prof.key_averages(group_by_stack_n=2).table()


def test_chrome_trace(tmp_path):
    with profile(record_shapes=True) as prof:
        prof.add_metadata("who", "a test")
        prof.add_metadata_json("numbers", "[1, 2]")
        with record_function('"quoted"'):
            jitgrad.ones(2) * 2
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    packed = gzip.decompress((tmp_path / "trace.json.gz").read_bytes())
    assert json.loads(packed)["traceEvents"] == trace["traceEvents"]
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == len(prof.events()) and {e["ph"] for e in trace["traceEvents"]} == {"X", "M"}
    assert {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= set(complete[0]) and complete[0]["name"] == '"quoted"'
    assert trace["who"] == "a test" and trace["numbers"] == [1, 2] and trace["record_shapes"] == 1


def test_tensorboard_handler(tmp_path):
    handler = jitgrad.profiler.tensorboard_trace_handler(str(tmp_path / "log"), "me")
    with profile(schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=handler) as prof:
        for _ in range(4):
            jitgrad.ones(2) + 1
            prof.step()
    files = sorted((tmp_path / "log").iterdir())
    assert len(files) == 2 and all(f.name.startswith("me.") and f.name.endswith(".pt.trace.json") for f in files)
    found = [e["name"] for e in json.loads(files[0].read_text())["traceEvents"]]
    assert "ProfilerStep#1" in found and "aten::add" in found


def test_only_scheduled_steps_cost_anything():
    seen = []
    before = state()
    with profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=1)) as prof:
        for _ in range(5):
            seen.append(jitgrad.add is FUNCTIONS["add"] and not launch.observers)
            jitgrad.ones(2) + 1
            if prof.current_action is not ProfilerAction.RECORD_AND_SAVE:
                unchanged(before)
            prof.step()
    assert seen == [True, True, False, True, True] and names(prof).count("ProfilerStep*") == 1


def test_an_error_inside_leaves_no_trace_behind():
    x = jitgrad.ones(2, requires_grad=True)
    with profile() as prof:
        with pytest.raises(RuntimeError):
            jitgrad.ones(2) @ jitgrad.ones(3)
        y = (x * x).sum()
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.backward()
        x * 2
    assert prof.events()[-2].name == "aten::mul" and prof.events()[-2].cpu_parent is None
    with pytest.raises(KeyError), profile(profile_memory=True):
        raise KeyError


def test_a_node_that_raises_is_closed():
    class Fail(jitgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no gradient")

    x = jitgrad.ones(2, requires_grad=True)
    with profile() as prof:
        with pytest.raises(ValueError, match="no gradient"):
            Fail.apply(x).sum().backward()
        x + 1
    assert next(e for e in reversed(prof.events()) if e.name == "aten::add").cpu_parent is None


def test_profilers_within_profilers():
    with profile() as outer:
        jitgrad.ones(2) + 1
        with record_function("block"), profile(record_shapes=True) as inner:
            jitgrad.ones(2) * 2
        jitgrad.ones(2) - 1
    assert names(inner)[0] == "aten::ones" and inner.events()[0].cpu_parent is None
    assert {"aten::add", "block", "aten::mul", "aten::sub"} <= set(names(outer))


def test_threads_are_told_apart():
    with profile() as prof, record_function("main"):
        thread = threading.Thread(target=lambda: jitgrad.ones(2).exp())
        thread.start()
        thread.join()
    events = {e.name: e for e in prof.events()}
    assert events["aten::exp"].thread != events["main"].thread and events["aten::exp"].cpu_parent is None


def test_functions_taken_out_while_profiling_work_afterwards():
    with profile() as prof:
        exp = jitgrad.exp
    assert exp(jitgrad.zeros(1)).item() == 1 and not names(prof)
    with profile() as prof:
        FUNCTIONS["exp"](jitgrad.zeros(1))
    assert "aten::exp" in names(prof)


def test_record_function_decorates_and_needs_no_profiler():
    @record_function("named")
    def double(x):
        """Twice."""
        return double(x - 1) if x else 0

    assert double(2) == 0 and double.__doc__ == "Twice."
    with profile() as prof:
        double(2)
    assert names(prof) == ["named"] * 3


def test_optimizer_steps_have_names():
    w = jitgrad.ones(2, requires_grad=True)
    optimizer = jitgrad.optim.Adam([w])
    (w * w).sum().backward()
    with profile() as prof:
        optimizer.step()
        optimizer.zero_grad()
    assert [e.name for e in prof.events() if e.cpu_parent is None] == [
        "Optimizer.step#Adam.step", "Optimizer.zero_grad#Adam.zero_grad",
    ]  # fmt: skip


def test_results_under_the_profiler_are_the_same():
    def train():
        jitgrad.manual_seed(3)
        nn = jitgrad.nn
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 2))
        optimizer = jitgrad.optim.Adam(net.parameters())
        for _ in range(3):
            loss = jitgrad.nn.functional.cross_entropy(net(jitgrad.rand(5, 4)), jitgrad.randint(0, 2, (5,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    plain = train()
    with profile(record_shapes=True, profile_memory=True, with_stack=True):
        assert train() == plain


def test_the_older_names():
    with jitgrad.autograd.profiler.profile(record_shapes=True) as prof:
        jitgrad.ones(2) * 2
    assert "aten::mul" in str(prof) and prof.total_average().key == "Total"
    assert prof.self_cpu_time_total > 0 and [e.count for e in prof.key_averages()]
    with jitgrad.autograd.profiler.profile(enabled=False) as prof:
        assert prof is None


def test_accumulated_events():
    for keep in (True, False):
        with profile(schedule=schedule(wait=0, warmup=1, active=1), acc_events=keep) as prof:
            for _ in range(4):
                jitgrad.ones(1)
                prof.step()
        assert names(prof).count("aten::ones") == (2 if keep else 0)


def test_steps_of_a_users_optimizer():
    class Halving(jitgrad.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self):
            for group in self.param_groups:
                for param in group["params"]:
                    param.data.mul_(0.5)

        def zero_grad(self):
            super().zero_grad()

    optimizer = Halving([jitgrad.ones(2, requires_grad=True)])
    with profile() as prof:
        optimizer.zero_grad()
        optimizer.step()
    optimizer.step()
    found = [(e.name, e.cpu_parent and e.cpu_parent.name) for e in prof.events() if e.name.startswith("Optimizer")]
    zero = "Optimizer.zero_grad#Halving.zero_grad"
    assert found == [(zero, None), ("Optimizer.step#Halving.step", None)]
    inner = [e.cpu_parent.name for e in prof.events() if e.name == "aten::mul_"]
    assert inner == ["Optimizer.step#Halving.step"]
