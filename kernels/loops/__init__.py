"""Loops written by hand, one family of ops a file: arrays and numbers in, outputs last, nothing of tensors."""
