"""One dialect a file: the grammar of an IR, its verifiers and memory effects."""

from dlc.ir import quick_xdsl

quick_xdsl.install()
