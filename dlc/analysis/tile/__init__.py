"""Questions asked of Tile IR."""
