"""How a ranker learns: examples, losses, schedules and one resumable loop."""
