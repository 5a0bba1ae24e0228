"""Results as pages, tables and figures: everything that turns numbers into something to read."""
