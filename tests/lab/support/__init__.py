"""Helpers for the lab's tests and scenarios: kernels, the machine, devices, stacks, remedies."""
