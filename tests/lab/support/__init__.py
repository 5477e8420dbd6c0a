"""What the lab's tests and scenarios share: kernels, the machine, devices, stacks, remedies."""
