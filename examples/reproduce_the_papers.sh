# From an experiment file to its report. Run from the repository's folder.

# [plan]
longrank run examples/tiny-far.toml --dry-run
# [run]
longrank run examples/tiny-far.toml --out results
# [report]
longrank report results/tiny-far-laptop
longrank report results/tiny-far-laptop --baseline maxp --format md
# [change]
longrank run examples/tiny-far.toml --out results --set scoring.depth=5 --name shallow
