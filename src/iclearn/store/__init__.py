"""Runs on disk, and files brought by users."""

from .npz import dataset_from, read_npz, weights_from
from .runs import Store, Summary, recipe_of

__all__ = ["Store", "Summary", "dataset_from", "read_npz", "recipe_of", "weights_from"]
