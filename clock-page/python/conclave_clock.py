# SPDX-License-Identifier: Apache-2.0
"""Reads group time from the clock page of Conclave. Linux, Python 3.8 or later, nothing but the standard library.

    clock = ClockPage("/run/conclave/clock/page")
    reading = clock.now()
    if reading.status == SYNCHRONISED and reading.earliest_ns > deadline_ns:
        ...
"""

import mmap
import os
import struct
import time
from typing import NamedTuple, Optional

UNKNOWN, SYNCHRONISED, DISRUPTED, HOLDOVER = range(4)

SIZE = 4096
TRIES = 1_000
UNLIMITED = 2**64 - 1
_FIRST, _LAST = -(2**63), 2**63 - 1
# Size, layout and flags, then the sequence, then the payload.
_HEADER, _SEQUENCE, _PAYLOAD, _END = 8, 16, 24, 224


class ClockPageError(Exception):
    """The page is not opened."""


class ShortPage(ClockPageError):
    """The file is shorter than a clock page."""


class ForeignPage(ClockPageError):
    """The file is no clock page."""


class OtherLayout(ClockPageError):
    """The clock page has another layout."""


class InjectedFault(ClockPageError):
    """The clock page is of a test: its clock has an injected fault."""


class Reading(NamedTuple):
    """Group time at one reading of the raw clock."""

    time_ns: int
    earliest_ns: int
    latest_ns: int
    error_ns: int
    status: int
    epoch: int
    raw: int
    members: int
    used: int
    max_drift_ppb: int
    wander_ppb: int
    utc_offset_ns: int
    utc_bound_ns: int


class Words(NamedTuple):
    """What a page states, in the order of its layout."""

    raw_a: int
    ns_a: int
    rate_a: int
    raw_b: int
    ns_b: int
    rate_b: int
    raw_c: int
    ns_c: int
    rate_c: int
    bound_raw: int
    bound_ns: int
    growth: int
    later_raw: int
    later_growth: int
    stale_after_raw: int
    void_after_raw: int
    status: int
    epoch: int
    members: int
    used: int
    max_drift_ppb: int
    wander_ppb: int
    utc_offset_ns: int
    utc_bound_ns: int
    clock_domain: int
    published_raw: int

    def at(self, raw: int) -> Reading:
        """Group time at a reading of the raw clock. Whole numbers have no limit here, and `>>` rounds down."""
        if raw < self.raw_b:
            begin, ns, rate = self.raw_a, self.ns_a, self.rate_a
        elif raw < self.raw_c:
            begin, ns, rate = self.raw_b, self.ns_b, self.rate_b
        else:
            begin, ns, rate = self.raw_c, self.ns_c, self.rate_c
        passed = raw - begin
        now = min(max(ns + passed + (passed * rate >> 48), _FIRST), _LAST)
        status = self.status
        if raw > self.void_after_raw or status > DISRUPTED:
            status = UNKNOWN
        elif status == SYNCHRONISED and raw > self.stale_after_raw:
            status = HOLDOVER
        if status == UNKNOWN:
            error, earliest, latest = UNLIMITED, _FIRST, _LAST
        else:
            error = self.bound_ns
            error -= -max(raw - self.bound_raw, 0) * self.growth >> 48
            error -= -max(raw - self.later_raw, 0) * self.later_growth >> 48
            error = min(max(error, 0), UNLIMITED)
            earliest, latest = max(now - error, _FIRST), min(now + error, _LAST)
        return Reading(
            now,
            earliest,
            latest,
            error,
            status,
            self.epoch,
            raw,
            self.members,
            self.used,
            self.max_drift_ppb,
            self.wander_ppb,
            self.utc_offset_ns,
            self.utc_bound_ns,
        )


_WORDS = struct.Struct("<QqqQqqQqqQQqQqQQQQIIQQqQQQ")
_U64 = struct.Struct("<Q")


class ClockPage:
    """An open page. Threads may share it; it asks the kernel for nothing but the raw clock."""

    def __init__(self, path, accept_fault: bool = False):
        """Opens the page at a path. Tests alone accept a clock that has an injected fault."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # An access behind the end of the file would end the process.
            if os.fstat(file).st_size < SIZE:
                raise ShortPage(path)
            self._page = mmap.mmap(file, SIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(file)
        try:
            self._header = self._page[_HEADER:_SEQUENCE]
            size, layout, flags = struct.unpack("<IHH", self._header)
            if self._page[:_HEADER] != b"CNCLVCLK":
                raise ForeignPage(path)
            if layout != 1:
                raise OtherLayout(path)
            if size != SIZE or flags > 1:
                raise ForeignPage(path)
            if flags == 1 and not accept_fault:
                raise InjectedFault(path)
        except ClockPageError:
            self.close()
            raise

    def close(self) -> None:
        self._page.close()

    def __enter__(self) -> "ClockPage":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def now(self) -> Reading:
        """Group time now."""
        copied = self._section()
        if copied is None:
            raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            return Reading(0, _FIRST, _LAST, UNLIMITED, UNKNOWN, 0, raw, 0, 0, 0, 0, 0, UNLIMITED)
        copy, raw = copied
        return Words._make(_WORDS.unpack_from(copy, _PAYLOAD - _HEADER)).at(raw)

    def words(self) -> Optional[Words]:
        """What the page states; None if it was never published, or changed all the while."""
        copied = self._section()
        return copied and Words._make(_WORDS.unpack_from(copied[0], _PAYLOAD - _HEADER))

    def _section(self):
        # Python has neither atomic loads nor fences, so the order of the loads within a copy is not known, and the
        # sequence before and after is not enough by itself: a copy of it could have been loaded after the words.
        # So all of it is copied twice, and both copies are the same. Between them the C library reads the clock, which
        # orders loads: its own sequence lock (or the kernel's entry, where there is none) has a barrier. So each load of
        # the first copy is before each load of the second. If the first copy had a word of a later publication
        # than its sequence, the second would have the later sequence; if it had a word of an earlier one, the
        # second would have the later word. Either way they differ, and the reader begins again. A copy of aligned
        # memory tears no word of eight bytes on x86-64 and AArch64; a torn word differs from the same word in the
        # second copy too, unless the writer stores it anew in between, and then the sequences differ.
        page, clock, raw_clock = self._page, time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW
        for _ in range(TRIES):
            first = page[_HEADER:_END]
            raw = clock(raw_clock)
            if first == page[_HEADER:_END]:
                (sequence,) = _U64.unpack_from(first, _SEQUENCE - _HEADER)
                if sequence != 0 and sequence % 2 == 0:
                    return (first, raw) if first.startswith(self._header) else None
        return None
