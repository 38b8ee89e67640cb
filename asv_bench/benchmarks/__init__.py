"""Benchmarks of jitgrad, for airspeed velocity.

CONTRIBUTING.md, section "Figures", has the commands. Where torch is installed, the classes named
`Torch...` time the same work there; elsewhere they are skipped.
"""
