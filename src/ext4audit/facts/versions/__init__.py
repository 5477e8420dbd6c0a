"""Versions of kernels and packages, ordered as their distributors order them."""
