"""Optimisers whose step is one fused kernel over all parameters of a dtype."""
