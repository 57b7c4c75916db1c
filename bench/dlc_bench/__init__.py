"""
Measuring: contenders, checked and then timed side by side, and what can be told of kernels.

It is a package of its own beside `dlc`, in the same wheel: of dlc, only the command line uses it,
for `dlc run --bench` and `--profile`; the scripts around it, in the folder `bench`, do.
"""
