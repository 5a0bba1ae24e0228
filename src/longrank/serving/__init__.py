"""A ranker behind HTTP: two dialects, one model thread, limits, metrics and a page to look at."""
