"""Hostile input, counted: sources are mutated by the thousand, and every command that reads one
must end within its bounds and in one line. `make fuzz` runs it."""
