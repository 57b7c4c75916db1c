"""Questions asked of Loop IR."""
