"""The benchmark harness: `python -m benchmarks --out FILE.json` from the root of the repository.

It measures library code and the command line, splits compilation from steady state, and writes one JSON file with the
machine, the versions and every repeat. `python -m benchmarks.table FILE.json` turns that into the page of the docs.
"""
