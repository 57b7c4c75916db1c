"""One dialect a file: the grammar of an IR, its verifiers and memory effects."""
