"""The package as it is installed: its guard, its marker file, what importing it costs others."""

import os
import runpy
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest

import jitgrad

ROOT = Path(__file__).parents[2]


def test_kernels_refuses_to_be_a_package_of_its_own():
    with pytest.raises(ImportError, match=r"'kernels', but it is the package jitgrad\.kernels"):
        runpy.run_path(str(ROOT / "kernels" / "__init__.py"), run_name="kernels")


def test_bare_import_of_the_folder_says_what_to_do():
    run = subprocess.run(
        [sys.executable, "-c", "import kernels"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 1
    assert "write `import jitgrad.kernels`" in run.stderr


def test_kernels_is_found_inside_the_package():
    import jitgrad.kernels as kernels

    assert Path(kernels.__file__).resolve() == ROOT / "kernels" / "__init__.py"


def test_symlink_for_type_checkers():
    link = ROOT / "jitgrad" / "kernels"
    # Absent in an sdist, and a file that holds the target's name where git makes no symlinks.
    assert link.readlink() == Path("../kernels") if link.is_symlink() else not link.is_dir()


def test_package_is_typed():
    assert (Path(jitgrad.__file__).parent / "py.typed").exists()


def test_version_is_the_distributions():
    assert jitgrad.__version__ == version("jitgrad")


def test_required_dependencies():
    needed = [line for line in requires("jitgrad") if "extra ==" not in line]
    assert sorted(line.split(">")[0].strip() for line in needed) == ["ml-dtypes", "numba", "numpy", "tqdm"]


def test_import_brings_no_optional_package():
    # Numba itself imports SciPy where it is installed.
    code = (
        "import sys, numba; before = set(sys.modules); import jitgrad; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    optional = {"torch", "scipy", "IPython", "matplotlib", "graphviz", "cupy", "pytest"}
    assert not optional & set(run.stdout.split())


LAZY = (
    "jitgrad.autograd.profiler", "jitgrad.commands", "jitgrad.datasets", "jitgrad.debug", "jitgrad.extend.kernel_pair",
    "jitgrad.notebook", "jitgrad.profiler.events", "jitgrad.profiler.instrument", "jitgrad.profiler.memory",
    "jitgrad.profiler.session", "jitgrad.profiler.event_table", "jitgrad.profiler.trace", "jitgrad.serialization",
    "jitgrad.testing", "jitgrad.utils",
)  # fmt: skip


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_debug_variable_prints_launches():
    run = subprocess.run(
        [sys.executable, "-c", "import jitgrad; jitgrad.ones(2) * 2"],
        env=os.environ | {"JITGRAD_DEBUG": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "mul_forward" in run.stderr


def test_import_leaves_rarely_used_packages_out():
    loaded = run_python("import sys, jitgrad; print(*sys.modules)")
    assert not set(LAZY) & set(loaded)


def test_rarely_used_packages_are_found_as_attributes():
    names = (
        "datasets.load_digits", "debug.tape", "kernel_pair", "load", "notebook.summary", "profiler.events.EventList",
        "profiler.profile", "profiler.tensorboard_trace_handler", "save", "testing.assert_close",
        "utils.checkpoint.checkpoint", "utils.data.DataLoader", "autograd.profiler.profile",
    )  # fmt: skip
    code = "; ".join(["import jitgrad", *(f"assert callable(jitgrad.{name}), {name!r}" for name in names)])
    assert run_python(f"{code}; print(*dir(jitgrad))")
    assert {"datasets", "save", "utils"} <= set(run_python("import jitgrad; print(*dir(jitgrad))"))


def test_unknown_names_are_attribute_errors():
    for module in (jitgrad, jitgrad.profiler):
        with pytest.raises(AttributeError, match=rf"module '{module.__name__}' has no attribute 'exq'"):
            module.exq


def test_names_that_pytorch_has_are_said_to_be_missing():
    for module, name in ((jitgrad, "quantize_per_tensor"), (jitgrad.nn, "qat"), (jitgrad.profiler, "itt")):
        peer = module.__name__.replace("jitgrad", "torch")
        with pytest.raises(AttributeError, match=rf"'{name}': {peer}\.{name} is not in jitgrad \d+\.\d+$"):
            getattr(module, name)
        assert not hasattr(module, name)
    assert not hasattr(jitgrad, "_no_such_name")


def test_dir_shows_what_users_may_use():
    import jitgrad.commands.demo  # makes every floor an attribute

    names = {name for name in dir(jitgrad) if name[0] != "_"}
    assert {"Tensor", "exp", "kernel_pair", "nn", "notebook", "save"} <= names
    assert not {"FUNCTIONS", "commands", "core", "dispatch", "engine", "extend", "kernels", "transforms"} & names
    assert all(name[:2] == name[-2:] == "__" for name in set(dir(jitgrad)) - names)


def test_a_star_import_brings_the_lazy_names():
    names = run_python("from jitgrad import *; print(nn.Linear, optim.SGD, vmap, save, exp)")
    assert "'jitgrad.nn.modules.linear.Linear'>" in names
