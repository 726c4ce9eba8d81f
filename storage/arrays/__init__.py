"""Groups of arrays: what each holds, and how rows move between them."""
