"""Print a figure of jitgrad, with its peers beside it where they are installed.

    python asv_bench/compare.py NAME
    python asv_bench/compare.py versions OTHER_CHECKOUT
    python asv_bench/compare.py surface [FAMILY]

Contenders take turns; a time is the fastest sample, a ratio jitgrad / peer (below 1: jitgrad is
faster), in brackets that of the medians. CONTRIBUTING.md, section "Figures", lists the names.
"""

from __future__ import annotations

import argparse

from figures.compiled import COMPILED
from figures.eager import EAGER
from figures.processes import PROCESSES
from figures.speed import SPEED
from figures.table import machine
from figures.versions import compare
from loops.figure import LOOPS
from surface.figure import families, surface

FIGURES = {**SPEED, **EAGER, **PROCESSES, **COMPILED, **LOOPS}


def main() -> None:
    """Run the figure that the command line names, or all."""
    names = "\n".join(f"  {name:10s}{function.__doc__.splitlines()[0]}" for name, function in FIGURES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"figures:\n{names}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    choices = [*FIGURES, "all", "versions", "surface"]
    parser.add_argument("name", choices=choices, metavar="NAME", help="a figure, or: all")
    parser.add_argument(
        "other", nargs="?",
        help=f"versions: another checkout, to be compared with this one in turns; surface: {', '.join(families())}",
    )  # fmt: skip
    given = parser.parse_args()
    chosen = given.name
    print(machine())
    if chosen == "versions":
        if given.other is None:
            parser.error("versions needs the path of another checkout")
        compare(given.other)
    if chosen == "surface":
        surface(given.other)
    for name, figure in FIGURES.items():
        if chosen in (name, "all"):
            figure()


if __name__ == "__main__":
    main()
