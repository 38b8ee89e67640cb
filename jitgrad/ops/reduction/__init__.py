"""Ops along dims: sums, extrema, norms, scans, softmax, sorting."""
