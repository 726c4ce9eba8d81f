"""A module a format of files, and what tables and arrays have in common."""
