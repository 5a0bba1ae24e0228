"""Collections made here, whose relevant positions are known exactly."""
