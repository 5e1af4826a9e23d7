"""Errors a user can act on: one line saying what was given, what is allowed, and what to change."""

from __future__ import annotations


class IclearnError(ValueError):
    """A request that cannot be carried out. The message is one line and is shown to the user as it is.

    >>> import iclearn as icl
    >>> icl.LinearRegression(dim=0)
    Traceback (most recent call last):
    iclearn.core.errors.IclearnError: dim must be at least 1, not 0
    """


class MissingClosedForm(IclearnError):
    """No closed form exists for this combination; the message lists the engines that do work."""


class DamagedError(IclearnError):
    """Something on disk is not what was stored there: damaged, edited, foreign, or of a later version."""


class IclearnWarning(UserWarning):
    """Something a user should know though the work goes on. The message is one line, shown to the user as it is.

    In the tests of iclearn it is an error unless a test expects it.
    """
