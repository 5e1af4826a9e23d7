"""A process that stores the same small run again and again, and reads it: for the test of several at once."""

import sys

from small_runs import DATA, made

from iclearn.store import Store

if __name__ == "__main__":
    store, recipe = Store(sys.argv[1]), made(steps=40)
    trace = store.run(recipe, dataset=DATA, again=True)
    for _ in range(int(sys.argv[2])):
        store.put(recipe, trace)
        assert store.get(recipe) == trace
