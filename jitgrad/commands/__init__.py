"""What ``python -m jitgrad`` can do, one command a file.

``demo.py`` trains a classifier of digits, ``info.py`` reports what jitgrad runs on, ``warmup.py`` compiles kernels
ahead. ``jitgrad/__main__.py`` parses arguments, prints and calls them, so each command is also a function that
tests call. They are programs like a user's: no other package imports them, and they import public names.
"""
