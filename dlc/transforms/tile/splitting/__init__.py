"""A reduce shared by several blocks, and the ways to put together what they hold."""
