"""What a program reads beside arguments: modules, closures, globals, the process's settings."""
