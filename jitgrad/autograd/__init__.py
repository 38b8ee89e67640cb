"""The recorder: nodes, the engine, grad modes, functions."""
