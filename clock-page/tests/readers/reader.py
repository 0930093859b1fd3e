"""Shows what the module makes of a page, for the test of all languages and for measurements."""

import sys
import time

import conclave_clock

REFUSALS = {
    conclave_clock.ShortPage: "short",
    conclave_clock.ForeignPage: "foreign",
    conclave_clock.OtherLayout: "layout",
    conclave_clock.InjectedFault: "fault",
}


def measure(clock, count):
    raw, which = time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW
    begin = raw(which)
    for _ in range(count):
        raw(which)
    middle = raw(which)
    for _ in range(count):
        clock.now()
    end = raw(which)
    print(f"{(middle - begin) / count:.1f} {(end - middle) / count:.1f}")


def main():
    path, mode, *asked = sys.argv[1:]
    try:
        clock = conclave_clock.ClockPage(path, accept_fault=mode == "even-with-fault")
    except OSError:
        print("io")
        return
    except conclave_clock.ClockPageError as refusal:
        print(REFUSALS[type(refusal)])
        return
    with clock:
        for raw in asked:
            if raw == "now":
                print(*clock.now())
            elif raw == "measure":
                measure(clock, 200_000)
            elif words := clock.words():
                print(*words.at(int(raw)))
            else:
                print("no words")


main()
