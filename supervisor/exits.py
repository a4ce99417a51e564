"""Every exit code of `tenured`, and what it says. They follow sysexits.h where that has a word for it."""

from __future__ import annotations

OK = 0
NO = 1  # the answer is no: a degraded fleet, a supervisor that is not ready, a demo that broke a promise
USAGE = 2  # the command line; click's own code
STORE = 69  # the store is missing, unreachable for a command, or unfit
INVARIANT = 70  # an invariant broke; everything was killed first
LIMITS = 71  # the kernel or its limits do not suffice
OCCUPIED = 73  # the socket or the lock cannot be made
UNRELEASED = 75  # stopped, but a lease could not be released
NOT_PERMITTED = 77
CONFIG = 78
