"""What to run, in steps that are found again rather than redone."""
