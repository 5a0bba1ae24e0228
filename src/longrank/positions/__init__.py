"""Where in a document relevance sits: found by matching, gold spans or a judge, profiled, and turned into ceilings."""
