"""For which chip, and how, kernels are scheduled."""
