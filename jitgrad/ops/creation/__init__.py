"""Tensors from numbers, arrays and other tensors, and back."""
