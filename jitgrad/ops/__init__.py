"""Differentiable ops: shape and dtype rules, then launch, then record."""
