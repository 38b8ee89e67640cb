"""The profiler against PyTorch's: names, tables, schedules, errors."""

import warnings
from importlib import import_module

import pytest
import torch

import jitgrad
from jitgrad.profiler.event_table import build_table
from jitgrad.profiler.events import EventList

LIBRARIES = (jitgrad, torch)


def told(call):
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = call()
        return value, [(w.category, str(w.message)) for w in caught]
    except BaseException as error:
        return type(error), str(error)


def profiled(lib, **options):
    x, layer = lib.ones(4, 8, requires_grad=True), lib.nn.Linear(8, 3)
    optimizer = lib.optim.SGD(layer.parameters(), 0.1)
    activities = [lib.profiler.ProfilerActivity.CPU]
    with lib.profiler.profile(activities=activities, **options) as prof:
        with lib.profiler.record_function("forward"):
            y = (layer(x) * 2).relu().sum()
        y.backward()
        optimizer.step()
        optimizer.zero_grad()
    return prof


# What libraries call inside an op is their own affair; these are PyTorch's own steps on the way.
_INNER = ("aten::to", "aten::detach", "[memory]")


def test_top_level_names():
    names = []
    for lib in LIBRARIES:
        events = profiled(lib).events()
        names.append([e.name for e in events if e.cpu_parent is None and not e.name.startswith(_INNER)])
    assert names[0] == names[1]


def test_ops_within_a_block_and_nodes_within_the_engine():
    found = []
    for lib in LIBRARIES:
        events = profiled(lib, record_shapes=True).events()
        block = next(e for e in events if e.name == "forward")
        engine = [e for e in events if e.name.startswith("autograd::engine::evaluate_function: ")]
        nodes = [(e.name, e.cpu_children[0].name, e.cpu_children[0].input_shapes) for e in engine]
        found.append(([(e.name, e.input_shapes[:1]) for e in block.cpu_children], nodes))
    assert found[0] == found[1]


OPS = [
    lambda lib, x: x * x, lambda lib, x: 2 * x, lambda lib, x: -x, lambda lib, x: x.exp(), lambda lib, x: lib.exp(x),
    lambda lib, x: x.add_(1), lambda lib, x: x @ x, lambda lib, x: x.sum(0), lambda lib, x: x.t(),
    lambda lib, x: lib.cat([x, x]), lambda lib, x: x > 1, lambda lib, x: x.softmax(0), lambda lib, x: x.clone(),
    lambda lib, x: lib.nn.functional.relu(x), lambda lib, x: lib.where(x > 0, x, x), lambda lib, x: x**2,
    lambda lib, x: lib.ones(3), lambda lib, x: lib.zeros_like(x), lambda lib, x: x.max(), lambda lib, x: x.mean(),
    lambda lib, x: x.reshape(-1), lambda lib, x: x.view(-1), lambda lib, x: x.sort(), lambda lib, x: x.mul_(x),
    lambda lib, x: 1 - x, lambda lib, x: x == x, lambda lib, x: x.unsqueeze(0), lambda lib, x: x.permute(1, 0),
    lambda lib, x: x.size(), lambda lib, x: x.dim(), lambda lib, x: x.numel(), lambda lib, x: x.is_floating_point(),
    lambda lib, x: lib.rand(2), lambda lib, x: lib.arange(3), lambda lib, x: lib.matmul(x, x), lambda lib, x: abs(x),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(OPS)))
def test_names_of_ops(index):
    names = []
    for lib in LIBRARIES:
        x = lib.ones(2, 2)
        with lib.profiler.profile(activities=[lib.profiler.ProfilerActivity.CPU]) as prof:
            OPS[index](lib, x)
        names.append([e.name for e in prof.events() if e.cpu_parent is None])
    assert names[0] == names[1]


# -- tables -------------------------------------------------------------------------------------------

TABLES = [
    {}, {"sort_by": "cpu_time_total"}, {"sort_by": "count", "row_limit": 3}, {"row_limit": -1}, {"row_limit": 0},
    {"header": "A header"}, {"top_level_events_only": True}, {"max_name_column_width": 20}, {"time_unit": "ms"},
    {"time_unit": "s", "max_shapes_column_width": 10}, {"max_name_column_width": None},
    {"sort_by": "self_cuda_time_total"},
    {"max_shapes_column_width": None, "sort_by": "self_cpu_memory_usage"}, {"max_src_column_width": 12},
]  # fmt: skip


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("grouped", [{}, {"group_by_input_shape": True}, {"group_by_stack_n": 2}, None])
def test_tables_of_the_same_events_are_the_same(memory, grouped):
    theirs = profiled(torch, record_shapes=True, profile_memory=memory, with_stack=grouped == {"group_by_stack_n": 2})
    events = theirs.events() if grouped is None else theirs.key_averages(**grouped)
    ours = EventList(events, memory)
    for options in TABLES:
        assert ours.table(**options) == events.table(**options)
    assert str(ours) == str(events)
    assert build_table([], 100, (1, 1, 1), None, False, False, None) == torch.autograd.profiler_util.EventList().table()


@pytest.mark.parametrize("size", [2, 100, 400])
@pytest.mark.parametrize("stacks", [False, True])
def test_operations_are_counted(size, stacks):
    found = []
    for lib in LIBRARIES:
        x = lib.ones(size, size)
        activities = [lib.profiler.ProfilerActivity.CPU]
        with lib.profiler.profile(activities=activities, with_flops=True, with_stack=stacks) as prof:
            x @ x, x * x, x + 1, lib.bmm(x[None], x[None]), lib.addmm(x[0], x, x), x[None] @ x, x - x, x.exp()
        found.append({e.key: e.flops for e in prof.key_averages() if e.flops})
        events = prof.key_averages()
    assert found[0] == found[1]
    for options in TABLES:
        assert EventList(events, False, True).table(**options) == events.table(**options)


def test_averages_of_the_same_events_are_the_same():
    events = profiled(torch, record_shapes=True, profile_memory=True).events()
    for event in events:
        event.flops = event.flops or 0
    for options in ({}, {"group_by_input_shapes": True}):
        ours, theirs = EventList(events, True).key_averages(**options), events.key_averages(**options)
        assert ours.table() == theirs.table()
        assert repr(ours[0]) == repr(theirs[0])
    assert repr(EventList(events).total_average()) == repr(events.total_average())
    assert EventList(events).self_cpu_time_total == events.self_cpu_time_total


def test_averages_of_events_made_by_hand():
    averages = []
    for kind in (jitgrad.profiler, torch.autograd.profiler_util):
        average = kind.FunctionEventAvg()
        average.add(kind.FunctionEvent(id=0, name="foo", thread=0, start_us=10, end_us=15))
        average.add(kind.FunctionEvent(id=1, name="foo", thread=0, start_us=20, end_us=30))
        average.add(average)
        averages.append((repr(average), average.key, average.count, average.cpu_time_total, average.cpu_time))
    assert averages[0] == averages[1]


def test_ops_have_the_numbers_of_their_nodes():
    links = []
    for lib in LIBRARIES:
        x = lib.ones(3, requires_grad=True)
        with lib.profiler.profile(activities=[lib.profiler.ProfilerActivity.CPU]) as prof:
            ((x * 2).exp() + x.sin()).sum().backward()
        nodes = {e.sequence_nr: e.name for e in prof.events() if e.scope == 1 and e.sequence_nr >= 0}
        ops = [e for e in prof.events() if e.sequence_nr in nodes and e.cpu_parent is None and "engine" not in e.name]
        links.append([(e.name, nodes[e.sequence_nr]) for e in ops])
    assert links[0] == links[1]


# -- schedules ----------------------------------------------------------------------------------------

SCHEDULES = [
    {"wait": 1, "warmup": 1, "active": 2}, {"wait": 1, "warmup": 1, "active": 2, "repeat": 2},
    {"wait": 0, "warmup": 0, "active": 1}, {"wait": 2, "warmup": 1, "active": 1, "repeat": 1, "skip_first": 3},
    {"wait": 3, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 1, "skip_first_wait": 1},
    {"wait": -1, "warmup": 0, "active": 1}, {"wait": 1, "warmup": 1, "active": 0},
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(SCHEDULES)))
def test_schedules(index):
    def ask(lib):
        action = lib.profiler.schedule(**SCHEDULES[index])
        return [action(step).name for step in range(25)], told(lambda: action(-1))

    assert told(lambda: ask(jitgrad)) == told(lambda: ask(torch))


@pytest.mark.parametrize("index", range(5))
def test_steps(index):
    def ask(lib):
        ready = []

        def on_ready(prof):
            names = [e.name for e in prof.events() if e.cpu_parent is None]
            inner = [e.name for e in prof.events() if e.cpu_parent is not None and e.cpu_parent.cpu_parent is None]
            ready.append((prof.step_num, names, [n for n in inner if n == "aten::mul"]))

        x = lib.ones(2, 2)
        activities = [lib.profiler.ProfilerActivity.CPU]
        plan = lib.profiler.schedule(**SCHEDULES[index])
        with lib.profiler.profile(activities=activities, schedule=plan, on_trace_ready=on_ready) as prof:
            for _ in range(11):
                x * x
                prof.step()
        return ready, prof.step_num, prof.current_action.name

    ours, theirs = told(lambda: ask(jitgrad)), told(lambda: ask(torch))
    assert ours[0] == theirs[0]


ERRORS = {
    "events": lambda lib, p: p.events(), "averages": lambda lib, p: p.key_averages(), "stop": lambda lib, p: p.stop(),
    "trace": lambda lib, p: p.export_chrome_trace("nowhere"), "stacks": lambda lib, p: p.export_stacks("nowhere"),
    "activities": lambda lib, p: lib.profiler.profile(activities=[]),
    "no stacks": lambda lib, p: profiled(lib).export_stacks("nowhere", "speed"),
    "metric": lambda lib, p: profiled(lib, with_stack=True).export_stacks("nowhere", "speed"),
    "older, no stacks": lambda lib, p: lib.autograd.profiler.profile().export_stacks("nowhere"),
    "twice": lambda lib, p: enter_twice(lib),
    "unfinished": lambda lib, p: repr(lib.autograd.profiler.profile()),
    "disabled": lambda lib, p: lib.autograd.profiler.profile(enabled=False).__enter__(),
    "older, too early": lambda lib, p: lib.autograd.profiler.profile().key_averages(),
    "nvtx off": lambda lib, p: lib.autograd.profiler.emit_nvtx(enabled=False).__enter__(),
}


def enter_twice(lib):
    with lib.autograd.profiler.profile() as prof:
        prof.__enter__()


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    results = []
    for lib in LIBRARIES:
        profiler = lib.profiler.profile(activities=[lib.profiler.ProfilerActivity.CPU])
        results.append(told(lambda: ERRORS[name](lib, profiler)))
    assert results[0] == results[1]


# -- events made by hand, and what nodes tell ----------------------------------------------------------


def event(lib, name="one", **options):
    util = import_module(f"{lib.__name__}.autograd.profiler_util")
    return util.FunctionEvent(id=3, name=name, thread=4, start_us=10, end_us=15, **options)


def averaged(lib, *events):
    average = import_module(f"{lib.__name__}.autograd.profiler_util").FunctionEventAvg()
    for each in events:
        average.add(each)
    average.add(average)
    return average.key, average.count, average.cpu_time_total, average.self_cpu_time_total, average.cpu_time


HANDMADE = {
    "average": lambda lib: averaged(lib, event(lib), event(lib)),
    "other key": lambda lib: averaged(lib, event(lib), event(lib, "two")),
    "attributes": lambda lib: [
        getattr(event(lib, fwd_thread=7, node_id=2), name)
        for name in ("fwd_thread", "node_id", "kernels", "device_index", "device_resource_id", "concrete_inputs",
                     "kwinputs", "structured_input_shapes", "structured_input_strides", "is_python_function")
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", HANDMADE)
def test_events_made_by_hand(name):
    assert told(lambda: HANDMADE[name](jitgrad)) == told(lambda: HANDMADE[name](torch))


def test_nodes_tell_where_and_as_what_number_their_op_ran():
    def ask(lib):
        x = lib.ones(3, requires_grad=True)
        with lib.autograd.profiler.profile() as prof:
            on = lib.autograd._profiler_enabled()
            (x * 2).sum().backward()
        seen = {e.name.split(": ")[-1]: e for e in reversed(prof.function_events)}
        made, ran = seen["aten::mul"], seen["MulBackward0"]
        leaf = seen["torch::autograd::AccumulateGrad"]
        same = ran.sequence_nr == made.sequence_nr >= 0 and ran.fwd_thread == made.thread
        return on, lib.autograd._profiler_enabled(), same, made.fwd_thread, leaf.sequence_nr, leaf.fwd_thread

    assert ask(jitgrad) == ask(torch)
