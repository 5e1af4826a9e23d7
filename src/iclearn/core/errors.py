"""Errors a user can act on: one line saying what was given, what is allowed, and what to change."""

from __future__ import annotations


class IclearnError(ValueError):
    """A request that cannot be carried out. The message is one line and is shown as it is."""


class MissingClosedForm(IclearnError):
    """No closed form exists for this combination; the message lists the engines that do work."""
