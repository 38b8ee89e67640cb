"""The house rules that a program can check: who imports whom, sizes, docstrings, packages."""

import ast
import importlib
import inspect
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES_A_FILE, LINES_A_FUNCTION = 450, 70

# The floors of the house, from the ground up: a file imports its own folder and lower floors, nothing else. What
# stands in one line is one floor, and its folders do not know each other. A name stands for all below it that no
# longer name stands for.
FLOORS = (
    ("jitgrad.kernels.words",),
    ("jitgrad.kernels.codegen",),
    ("jitgrad.kernels",),
    ("jitgrad.kernels.cuda",),
    ("jitgrad.kernels.loops", "jitgrad.kernels.elementwise", "jitgrad.kernels.adjoint"),
    ("jitgrad.kernels.program",),
    ("jitgrad.core",),
    ("jitgrad.random",),
    ("jitgrad.dispatch",),
    ("jitgrad.ops.shape",),
    ("jitgrad.ops.creation",),
    ("jitgrad.ops.memory", "jitgrad.ops.pointwise", "jitgrad.ops.reduction"),
    ("jitgrad.ops.linalg", "jitgrad.ops.indexing", "jitgrad.ops.random"),
    ("jitgrad.ops.sparse",),
    ("jitgrad.ops.nn", "jitgrad.ops.fft"),
    ("jitgrad.ops",),
    ("jitgrad.engine",),
    ("jitgrad.profiler", "jitgrad.transforms", "jitgrad.extend"),
    ("jitgrad.autograd",),
    ("jitgrad.func",),
    ("jitgrad.nn", "jitgrad.optim", "jitgrad.debug", "jitgrad.datasets", "jitgrad.distributions",
     "jitgrad.testing", "jitgrad.cpu", "jitgrad.cuda"),
    ("jitgrad.compiler", "jitgrad.multiprocessing", "jitgrad.serialization"),
    ("jitgrad.torch_version", "jitgrad.futures", "jitgrad.hub", "jitgrad._utils", "jitgrad.storage",
     "jitgrad.amp"),
    ("jitgrad.utils", "jitgrad.safetensors", "jitgrad.notebook", "jitgrad.linalg", "jitgrad.fft",
     "jitgrad.special", "jitgrad.sparse", "jitgrad.masked", "jitgrad.signal", "jitgrad.backends",
     "jitgrad.types", "jitgrad.version", "jitgrad.__future__"),
    ("jitgrad.cpu.amp", "jitgrad.cuda.amp"),
    ("jitgrad.compat",),
    ("jitgrad.commands",),
    ("jitgrad",),
)  # fmt: skip
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}
PUBLIC = (
    "jitgrad",
    "jitgrad.autograd",
    "jitgrad.autograd.function",
    "jitgrad.autograd.functional",
    "jitgrad.compiler",
    "jitgrad.datasets",
    "jitgrad.debug",
    "jitgrad.distributions",
    "jitgrad.nn",
    "jitgrad.nn.functional",
    "jitgrad.nn.init",
    "jitgrad.optim",
    "jitgrad.profiler",
    "jitgrad.testing",
    "jitgrad.utils.checkpoint",
    "jitgrad.utils.data",
)


@cache
def syntax_tree(path):
    """Of a file, by its path from the root."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), path)


def sources(*folders):
    """{path from the root: syntax tree} of the Python files; the symlink is not followed."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    names = [path.relative_to(ROOT) for path in paths]
    return {
        str(name): syntax_tree(str(name))
        for name in names
        if name.parts[:2] != ("jitgrad", "kernels") and ".asv" not in name.parts
    }


def module_name(path):
    parts = Path(path).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(("jitgrad", *parts) if parts[0] == "kernels" else parts)


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def walk_run_time(tree):
    """Every node but those under `if TYPE_CHECKING`, which never runs."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if is_type_checking(node):
            continue
        yield from walk_run_time(node)


def imports(path, tree):
    """The absolute names of the modules that a file may import: `from a import b`: a and a.b."""
    here = module_name(path)
    package = here if path.endswith("__init__.py") else here.rpartition(".")[0]
    for node in walk_run_time(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, base] if base else up)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def imported(path):
    return sorted(set(imports(path, syntax_tree(path))))


def importers(*folders):
    for path in sources(*folders):
        for name in imported(path):
            yield path, name


def within(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_kernels_knows_nothing_above_it():
    assert not [
        f"{path} imports {name}"
        for path, name in importers("kernels")
        if within(name, "jitgrad") and name != "jitgrad" and not within(name, "jitgrad.kernels")
    ]


def folder_of(module):
    """The entry of FLOORS that a module belongs to: the longest that is its name or above it."""
    return max((name for name in FLOOR_OF if within(module, name)), key=len)


def test_floors():
    modules = {module_name(path) for path in sources("kernels", "jitgrad")}
    climbing = []
    for path, name in importers("kernels", "jitgrad"):
        # ``import jitgrad`` is how public packages take public names, when they are called.
        if name not in modules or name == "jitgrad":
            continue
        here, there = folder_of(module_name(path)), folder_of(name)
        if here == there or FLOOR_OF[there] < FLOOR_OF[here]:
            continue
        if module_name(path) != here or not within(name, here):  # a package's own __init__ gathers what is in it
            climbing.append(f"{path} imports {name}")
    assert not climbing


def test_no_import_circles():
    trees = sources("kernels", "jitgrad")
    known = {module_name(path) for path in trees}
    graph = {}
    for path in trees:
        here = module_name(path)
        # A package's own parent is imported by Python itself; that is no circle of ours.
        graph[here] = {
            name
            for name in imported(path)
            if name in known and name != here and not here.startswith(name + ".")
        }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " <- ".join(error.args[1]))


def test_only_kernels_import_numba():
    assert not [
        f"{path} imports {name}"
        for path, name in importers("jitgrad")
        if within(name, "numba", "llvmlite", "numba_cuda_mlir", "cupy")
    ]


def test_one_file_imports_a_cuda_provider():
    assert not [
        f"{path} imports {name}"
        for path, name in importers("kernels")
        if within(name, "numba.cuda", "numba_cuda_mlir", "cuda", "cupy") and path != "kernels/cuda/provider.py"
    ]


def test_one_file_compiles():
    compiling = {"njit", "jit", "vectorize", "guvectorize", "cfunc", "stencil"}
    assert not [
        f"{path}:{node.lineno} uses {ast.unparse(node)}"
        for path, tree in sources("kernels", "jitgrad").items()
        for node in ast.walk(tree)
        # Bare names are Numba's in kernels/ only: jitgrad/ does not import it.
        if (isinstance(node, ast.Name) and node.id in compiling and path.startswith("kernels"))
        or (
            isinstance(node, ast.Attribute)
            and node.attr in compiling
            and ast.unparse(node.value) in {"numba", "nb", "cuda", "numba.cuda"}
        )
        if path not in {"kernels/numba_dispatcher.py", "kernels/cuda/provider.py"}
    ]


def test_torch_is_imported_for_comparison_only():
    assert not [
        f"{path} imports {name}"
        for path, name in importers("kernels", "jitgrad", "tests")
        if within(name, "torch") and not path.startswith("tests/peer/")
    ]


def test_packages_of_pyproject_are_those_of_the_tree():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    trees = sources("kernels", "jitgrad")
    found = {module_name(path) for path in trees if path.endswith("__init__.py")}
    assert sorted(settings["packages"]) == sorted(found)
    folders = {module_name(str(Path(path).parent / "__init__.py")) for path in trees}
    assert folders == found, "a folder of modules without its __init__.py"


def test_files_are_short():
    lengths = {
        path: len((ROOT / path).read_text(encoding="utf-8").splitlines())
        for path in sources("kernels", "jitgrad", "asv_bench", "tests")
    }
    assert not {path: n for path, n in lengths.items() if n >= LINES_A_FILE}


def test_functions_are_short():
    assert not [
        f"{path}:{node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path, tree in sources("kernels", "jitgrad", "asv_bench").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= LINES_A_FUNCTION
    ]


def test_every_module_says_what_it_is():
    trees = sources("kernels", "jitgrad", "asv_bench", "tests")
    assert not [path for path, tree in trees.items() if not ast.get_docstring(tree)]


def public_objects(module):
    """(name, object) of what a module offers: classes and functions, not the modules it uses."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
    for name in names:
        thing = getattr(module, name)
        if callable(thing) and not inspect.ismodule(thing):
            yield name, thing


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_docstrings(name):
    module = importlib.import_module(name)
    ours = [
        (label, thing)
        for label, thing in public_objects(module)
        if (getattr(thing, "__module__", None) or "jitgrad").startswith("jitgrad")
    ]
    bare = [
        label
        for label, thing in ours
        # A class must have its own: an inherited text describes its parent.
        if not (vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing))
    ]
    assert not bare


def test_tensor_methods_have_docstrings():
    methods = vars(importlib.import_module("jitgrad").Tensor)
    assert not [n for n, m in methods.items() if n[0] != "_" and not inspect.getdoc(m)]
