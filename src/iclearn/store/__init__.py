"""Runs on disk, and files brought by users."""

from .checkpoints import DiskCheckpoint
from .npz import dataset_from, read_npz, weights_from
from .runs import Store, Summary

__all__ = ["DiskCheckpoint", "Store", "Summary", "dataset_from", "read_npz", "weights_from"]
