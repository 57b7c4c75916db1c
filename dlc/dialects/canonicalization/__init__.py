"""
Canonicalization patterns, a table for each dialect: what `canonicalize` does to its operations.

`CanonicalizedByDialect` (`dlc.dialects.canonical`) finds the table `PATTERNS` of `loop` in
`loop_patterns`, and so on. Folders are methods of the operations.
"""
