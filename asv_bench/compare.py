"""Print a figure of jitgrad, with its peers beside it where they are installed.

    python asv_bench/compare.py NAME

Contenders take turns; a time is the fastest sample, a ratio jitgrad / peer (below 1: jitgrad is
faster), in brackets that of the medians. CONTRIBUTING.md, section "Figures", lists the names.
"""

from __future__ import annotations

import argparse

from figures.processes import PROCESSES
from figures.speed import SPEED
from figures.table import machine

FIGURES = {**SPEED, **PROCESSES}


def main() -> None:
    """Run the figure that the command line names, or all."""
    names = "\n".join(f"  {name:10s}{function.__doc__.splitlines()[0]}" for name, function in FIGURES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"figures:\n{names}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=[*FIGURES, "all"], metavar="NAME", help="a figure, or: all")
    chosen = parser.parse_args().name
    print(machine())
    for name, figure in FIGURES.items():
        if chosen in (name, "all"):
            figure()


if __name__ == "__main__":
    main()
