"""What several tests of the engines use."""

import importlib

import numpy as np
import pytest


class KilledAtSave:
    """Checkpoints in memory; the run is killed at save number `last`, and goes on when it is given this again.

    Args:
        last: the number of the save.
    """

    def __init__(self, last: int) -> None:
        self.last, self.kept = last, []

    def load(self):
        return self.kept[-1] if self.kept else None

    def due(self) -> bool:
        return True

    def save(self, arrays) -> None:
        self.kept.append({name: np.array(values) for name, values in arrays.items()})
        if len(self.kept) == self.last:
            raise RuntimeError("killed")


@pytest.fixture
def killed_at_save(monkeypatch):
    """`KilledAtSave`, with a save after every chunk, however short."""
    monkeypatch.setattr(importlib.import_module("iclearn.engines.simulate"), "CHUNK_SECONDS", 0.0)
    return KilledAtSave
