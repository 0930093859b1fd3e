/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads group time from the clock page of Conclave. C11, 64-bit Linux, gcc or clang; README.md has the formulas.
 * Define _POSIX_C_SOURCE as 200809L or more, or _GNU_SOURCE, before the first header. */
#ifndef CONCLAVE_CLOCK_H
#define CONCLAVE_CLOCK_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the words of the page are little endian"
#endif

/* Offsets of the fields in bytes. */
enum {
    CONCLAVE_AT_MAGIC = 0, CONCLAVE_AT_SIZE = 8, CONCLAVE_AT_LAYOUT = 12, CONCLAVE_AT_FLAGS = 14, CONCLAVE_AT_SEQ = 16,
    CONCLAVE_AT_RAW_A = 24, CONCLAVE_AT_NS_A = 32, CONCLAVE_AT_RATE_A = 40,
    CONCLAVE_AT_RAW_B = 48, CONCLAVE_AT_NS_B = 56, CONCLAVE_AT_RATE_B = 64,
    CONCLAVE_AT_RAW_C = 72, CONCLAVE_AT_NS_C = 80, CONCLAVE_AT_RATE_C = 88,
    CONCLAVE_AT_BOUND_RAW = 96, CONCLAVE_AT_BOUND_NS = 104, CONCLAVE_AT_GROWTH = 112,
    CONCLAVE_AT_LATER_RAW = 120, CONCLAVE_AT_LATER_GROWTH = 128,
    CONCLAVE_AT_STALE_AFTER_RAW = 136, CONCLAVE_AT_VOID_AFTER_RAW = 144,
    CONCLAVE_AT_STATUS = 152, CONCLAVE_AT_EPOCH = 160, CONCLAVE_AT_MEMBERS = 168, CONCLAVE_AT_USED = 172,
    CONCLAVE_AT_MAX_DRIFT_PPB = 176, CONCLAVE_AT_WANDER_PPB = 184,
    CONCLAVE_AT_UTC_OFFSET_NS = 192, CONCLAVE_AT_UTC_BOUND_NS = 200,
    CONCLAVE_AT_CLOCK_DOMAIN = 208, CONCLAVE_AT_PUBLISHED_RAW = 216,
    CONCLAVE_PAYLOAD = 224, CONCLAVE_SIZE = 4096, CONCLAVE_TRIES = 1000
};

enum conclave_status { CONCLAVE_UNKNOWN, CONCLAVE_SYNCHRONISED, CONCLAVE_DISRUPTED, CONCLAVE_HOLDOVER };

/* Why a page is not opened. CONCLAVE_IO: errno has the reason. */
enum conclave_refusal {
    CONCLAVE_IO = -1, CONCLAVE_SHORT = -2, CONCLAVE_FOREIGN = -3, CONCLAVE_OTHER_LAYOUT = -4, CONCLAVE_FAULT = -5
};

struct conclave_clock { const unsigned char *page; uint64_t header; };

/* The bytes of a page up to CONCLAVE_PAYLOAD; those of the sequence are not set. */
struct conclave_words { uint64_t word[CONCLAVE_PAYLOAD / 8]; };

struct conclave_reading {
    int64_t time_ns;
    int64_t earliest_ns, latest_ns; /* INT64_MIN and INT64_MAX if the status is unknown */
    uint64_t error_ns;              /* UINT64_MAX if the status is unknown */
    enum conclave_status status;
    uint64_t epoch, raw;
    uint32_t members, used;
    uint64_t max_drift_ppb, wander_ppb;
    int64_t utc_offset_ns;
    uint64_t utc_bound_ns; /* UINT64_MAX if it is not known */
};

__extension__ typedef __int128 conclave_i128;

static inline uint64_t conclave_raw_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t conclave_load(const unsigned char *page, int at) {
    return atomic_load_explicit((const _Atomic uint64_t *)(const void *)(page + at), memory_order_relaxed);
}

/* Gives 0, or a conclave_refusal. The flag of a test, accept_fault, takes a page whose clock has an injected fault. */
static inline int conclave_clock_open(struct conclave_clock *clock, const char *path, int accept_fault) {
    struct stat found;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return CONCLAVE_IO;
    int is_found = fstat(file, &found) == 0;
    /* An access behind the end of the file would end the process. */
    int is_long_enough = is_found && found.st_size >= CONCLAVE_SIZE;
    void *page = is_long_enough ? mmap(NULL, CONCLAVE_SIZE, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    if (page == MAP_FAILED) return is_found && !is_long_enough ? CONCLAVE_SHORT : CONCLAVE_IO;
    *clock = (struct conclave_clock){page, conclave_load(page, CONCLAVE_AT_SIZE)};
    uint64_t size = clock->header & UINT32_MAX, layout = clock->header >> 32 & UINT16_MAX, flags = clock->header >> 48;
    int refusal = memcmp(page, "CNCLVCLK", 8) != 0 ? CONCLAVE_FOREIGN
                  : layout != 1                    ? CONCLAVE_OTHER_LAYOUT
                  : size != CONCLAVE_SIZE || flags > 1 ? CONCLAVE_FOREIGN
                  : flags == 1 && !accept_fault    ? CONCLAVE_FAULT
                                                   : 0;
    if (refusal != 0) munmap(page, CONCLAVE_SIZE);
    return refusal;
}

static inline void conclave_clock_close(struct conclave_clock *clock) {
    munmap((void *)(uintptr_t)clock->page, CONCLAVE_SIZE);
}

/* Leaves the memory to the writer for a moment; without it all tries would be over in about a microsecond. */
static inline void conclave_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The sequence before words are read; 0 if they are not whole. */
static inline uint64_t conclave_begin(const struct conclave_clock *clock) {
    uint64_t before = conclave_load(clock->page, CONCLAVE_AT_SEQ);
    atomic_thread_fence(memory_order_acquire);
    return before % 2 == 0 ? before : 0;
}

/* Whether what was loaded since then is whole. */
static inline int conclave_is_whole(const struct conclave_clock *clock, uint64_t before) {
    atomic_thread_fence(memory_order_acquire);
    return conclave_load(clock->page, CONCLAVE_AT_SEQ) == before;
}

/* The words, and the reading of the raw clock at which they were in force; 0 if there were no whole ones. */
static inline int conclave_clock_words(const struct conclave_clock *clock, struct conclave_words *words, uint64_t *raw) {
    for (int tries = 0; tries < CONCLAVE_TRIES; tries++) {
        if (tries > 0) conclave_pause();
        uint64_t before = conclave_begin(clock);
        if (before == 0) continue;
        for (int at = CONCLAVE_AT_RAW_A; at < CONCLAVE_PAYLOAD; at += 8) words->word[at / 8] = conclave_load(clock->page, at);
        uint64_t header = conclave_load(clock->page, CONCLAVE_AT_SIZE);
        *raw = conclave_raw_clock();
        if (conclave_is_whole(clock, before)) return header == clock->header;
    }
    return 0;
}

static inline conclave_i128 conclave_clamp(conclave_i128 value, conclave_i128 least, conclave_i128 most) {
    return value < least ? least : value > most ? most : value;
}

/* passed * growth / 2^48, rounded up. Right shifts of negative numbers are arithmetic in gcc and clang. */
static inline conclave_i128 conclave_grown(uint64_t raw, uint64_t from, uint64_t growth) {
    return raw < from ? 0 : -(-((conclave_i128)(raw - from) * (int64_t)growth) >> 48);
}

/* The time of the piece at an offset. Each has a near way, where 64 bits suffice: it takes half the time. */
static inline int64_t conclave_time(const unsigned char *piece, uint64_t raw) {
    uint64_t from = conclave_load(piece, 0);
    int64_t ns = (int64_t)conclave_load(piece, 8), rate = (int64_t)conclave_load(piece, 16), passed, gained, time;
    if (!__builtin_sub_overflow(raw, from, &passed)
        && !__builtin_add_overflow((conclave_i128)passed * rate >> 48, 0, &gained)
        && !__builtin_add_overflow(ns, passed, &time) && !__builtin_add_overflow(time, gained, &time)) return time;
    conclave_i128 far = (conclave_i128)raw - from;
    return (int64_t)conclave_clamp(ns + far + (far * rate >> 48), INT64_MIN, INT64_MAX);
}

/* How far group time is from that at most. */
static inline uint64_t conclave_error(const unsigned char *words, uint64_t raw) {
    uint64_t bound = conclave_load(words, CONCLAVE_AT_BOUND_NS), error;
    conclave_i128 first = conclave_grown(raw, conclave_load(words, CONCLAVE_AT_BOUND_RAW), conclave_load(words, CONCLAVE_AT_GROWTH));
    conclave_i128 later = conclave_grown(raw, conclave_load(words, CONCLAVE_AT_LATER_RAW), conclave_load(words, CONCLAVE_AT_LATER_GROWTH));
    int64_t grown;
    if (!__builtin_add_overflow(first, later, &grown) && !__builtin_add_overflow(bound, grown, &error)) return error;
    return (uint64_t)conclave_clamp(bound + first + later, 0, UINT64_MAX);
}

/* Group time at a reading of the raw clock, by the words of a page or of a copy. */
static inline struct conclave_reading conclave_evaluate(const unsigned char *words, uint64_t raw) {
#define CONCLAVE_WORD(name) conclave_load(words, CONCLAVE_AT_##name)
    int piece = raw < CONCLAVE_WORD(RAW_B) ? CONCLAVE_AT_RAW_A : raw < CONCLAVE_WORD(RAW_C) ? CONCLAVE_AT_RAW_B : CONCLAVE_AT_RAW_C;
    uint64_t stated = CONCLAVE_WORD(STATUS), counts = CONCLAVE_WORD(MEMBERS);
    struct conclave_reading reading = {
        .time_ns = conclave_time(words + piece, raw),
        .earliest_ns = INT64_MIN, .latest_ns = INT64_MAX, .error_ns = UINT64_MAX,
        .status = raw > CONCLAVE_WORD(VOID_AFTER_RAW) || stated > 2 ? CONCLAVE_UNKNOWN
                  : stated == 1 && raw > CONCLAVE_WORD(STALE_AFTER_RAW) ? CONCLAVE_HOLDOVER : (enum conclave_status)stated,
        .epoch = CONCLAVE_WORD(EPOCH), .raw = raw,
        .members = (uint32_t)counts, .used = (uint32_t)(counts >> 32),
        .max_drift_ppb = CONCLAVE_WORD(MAX_DRIFT_PPB), .wander_ppb = CONCLAVE_WORD(WANDER_PPB),
        .utc_offset_ns = (int64_t)CONCLAVE_WORD(UTC_OFFSET_NS), .utc_bound_ns = CONCLAVE_WORD(UTC_BOUND_NS),
    };
#undef CONCLAVE_WORD
    if (reading.status == CONCLAVE_UNKNOWN) return reading;
    uint64_t error = reading.error_ns = conclave_error(words, raw);
    if (__builtin_sub_overflow(reading.time_ns, error, &reading.earliest_ns)) reading.earliest_ns = INT64_MIN;
    if (__builtin_add_overflow(reading.time_ns, error, &reading.latest_ns)) reading.latest_ns = INT64_MAX;
    return reading;
}

/* Group time at a reading of the raw clock, by words that were in force. */
static inline struct conclave_reading conclave_clock_at(const struct conclave_words *words, uint64_t raw) {
    return conclave_evaluate((const unsigned char *)words->word, raw);
}

/* Group time now. */
static inline struct conclave_reading conclave_clock_now(const struct conclave_clock *clock) {
    for (int tries = 0; tries < CONCLAVE_TRIES; tries++) {
        if (tries > 0) conclave_pause();
        uint64_t before = conclave_begin(clock);
        if (before == 0) continue;
        /* What is evaluated may be of two states of the page; then it is thrown away. */
        struct conclave_reading reading = conclave_evaluate(clock->page, conclave_raw_clock());
        uint64_t header = conclave_load(clock->page, CONCLAVE_AT_SIZE);
        if (!conclave_is_whole(clock, before)) continue;
        if (header != clock->header) break;
        return reading;
    }
    return (struct conclave_reading){
        .earliest_ns = INT64_MIN, .latest_ns = INT64_MAX, .error_ns = UINT64_MAX,
        .status = CONCLAVE_UNKNOWN, .raw = conclave_raw_clock(), .utc_bound_ns = UINT64_MAX,
    };
}

#endif
