/* numbers.c - lists of numbers in options of zt-bench: "1,2", "128..512+128", "0,4096..32768*2". */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A part of a list.
 *
 *     N         N
 *     A..B      A, A+1, ... up to B
 *     A..B+S    A, A+S, ... up to B
 *     A..B*F    A, A F, ... up to B
 *
 * A-B is A..B, as llama-bench writes it. */
typedef struct part {
    int64_t first, last, step, factor;
} part;

/* Reads digits from *text on and goes past them; false: there are none, or too many for 64 bits. */
static bool read_number(const char **text, int64_t *number)
{
    char digits[20];
    size_t length = strspn(*text, "0123456789");
    if (length == 0 || length >= sizeof digits) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)length, *text);
    *text += length;
    return zt_parse_i64(digits, number);
}

/* Reads a part, up to a comma or the end. */
static bool read_part(const char **text, part *one)
{
    if (!read_number(text, &one->first)) return false;
    *one = (part){.first = one->first, .last = one->first, .step = 1, .factor = 1};
    const size_t mark = !strncmp(*text, "..", 2) ? 2 : **text == '-';
    if (mark) {
        *text += mark;
        if (!read_number(text, &one->last) || one->last < one->first) return false;
        const char sign = **text;
        if (sign == '+' || sign == '*') {
            ++*text;
            if (!read_number(text, sign == '+' ? &one->step : &one->factor)) return false;
            if (sign == '*') one->step = 0;
            if (sign == '*' ? one->factor < 2 || one->first == 0 : one->step < 1) return false;
        }
    }
    return **text == ',' || **text == 0;
}

/* False: a number out of range, or more than the list can hold. */
static bool add_part(const part *one, int64_t min, int64_t max, bench_numbers *list)
{
    if (one->first < min || one->last > max) return false;
    for (int64_t value = one->first;; value = value * one->factor + one->step) {
        if (list->count == BENCH_MAX_COUNTS) return false;
        list->values[list->count++] = value;
        if (value > one->last / one->factor || value * one->factor > one->last - one->step) return true;
    }
}

zt_status bench_numbers_of(zt_ctx *ctx, const char *option, const char *text, int64_t min, int64_t max, bench_numbers *list)
{
    list->count = 0;
    for (const char *cursor = text;; cursor++) {
        part one;
        if (!read_part(&cursor, &one) || !add_part(&one, min, max, list))
            return zt_fail(ctx, ZT_EUSAGE,
                           "%s: '%s' is not a list of at most %d numbers from %" PRId64 " to %" PRId64
                           ", such as 1,2 or 4..16+4 or 4..16*2",
                           option, text, BENCH_MAX_COUNTS, min, max);
        if (*cursor == 0) return ZT_OK;
    }
}

zt_status bench_threads_of(zt_ctx *ctx, const bench_options *options, bench_numbers *list)
{
    enum { MAX_THREADS = 256 };
    *list = (bench_numbers){{zt_cpu_count()}, 1};
    return options->threads ? bench_numbers_of(ctx, "-t", options->threads, 1, MAX_THREADS, list) : ZT_OK;
}
