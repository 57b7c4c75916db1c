"""Questions that several passes ask of the IR."""
