/* Shows what the header makes of a page, for the test of all languages and for measurements. */
#define _POSIX_C_SOURCE 200809L
#include "conclave_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void show(struct conclave_reading r) {
    printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32
           " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64 "\n",
           r.time_ns, r.earliest_ns, r.latest_ns, r.error_ns, (int)r.status, r.epoch, r.raw, r.members, r.used,
           r.max_drift_ppb, r.wander_ppb, r.utc_offset_ns, r.utc_bound_ns);
}

static int by_size(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* The raw clock alone and a reading, in turn; the medians, in nanoseconds. */
static void measure(const struct conclave_clock *clock) {
    enum { ROUNDS = 101, TIMES = 50000 };
    uint64_t took[2][ROUNDS], sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin = conclave_raw_clock();
        for (int n = 0; n < TIMES; n++) sum += conclave_raw_clock();
        uint64_t middle = conclave_raw_clock();
        for (int n = 0; n < TIMES; n++) sum += conclave_clock_now(clock).error_ns;
        took[0][round] = middle - begin;
        took[1][round] = conclave_raw_clock() - middle;
    }
    for (int which = 0; which < 2; which++) qsort(took[which], ROUNDS, sizeof took[which][0], by_size);
    printf("%.1f %.1f %d\n", (double)took[0][ROUNDS / 2] / TIMES, (double)took[1][ROUNDS / 2] / TIMES, sum == 0);
}

int main(int argc, char **argv) {
    static const char *const refusals[] = {"", "io", "short", "foreign", "layout", "fault"};
    struct conclave_clock clock;
    struct conclave_words words;
    uint64_t raw;
    if (argc < 4) return 2;
    int refusal = conclave_clock_open(&clock, argv[1], strcmp(argv[2], "even-with-fault") == 0);
    if (refusal != 0) {
        puts(refusals[-refusal]);
        return 0;
    }
    for (int n = 3; n < argc; n++) {
        if (strcmp(argv[n], "now") == 0) {
            show(conclave_clock_now(&clock));
        } else if (strcmp(argv[n], "measure") == 0) {
            measure(&clock);
        } else if (conclave_clock_words(&clock, &words, &raw)) {
            show(conclave_clock_at(&words, strtoull(argv[n], NULL, 10)));
        } else {
            puts("no words");
        }
    }
    conclave_clock_close(&clock);
    return 0;
}
