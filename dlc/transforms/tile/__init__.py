"""The sixteen scheduling steps: the `t` steps of the pipeline."""
