/* read.h - private to zt-bench: what the readers of results share. Nobody vouches for a file. */
#ifndef ZT_BENCH_READ_H
#define ZT_BENCH_READ_H

#include "tools/zt-bench/bench.h"

#include <jansson.h>

typedef struct bench_reader {
    zt_ctx *ctx;
    const char *file;
    bench_list *list; /* to which results are added */
} bench_reader;

zt_status bench_fail_read(const bench_reader *reader, const char *what); /* "FILE: what", ZT_EDATA */
/* The text of a member; NULL: the member is missing or is not a string. */
const char *bench_text_of(const json_t *object, const char *key);
/* Adds a result: samples is an array of 1 to BENCH_MAX_REPS finite numbers. */
zt_status bench_read_samples(const bench_reader *reader, const json_t *samples, const char *test, int64_t threads,
                             const char *unit);
/* The results of other tools (read_peers.c): the array of llama-bench, the member "results" of hyperfine. */
zt_status bench_read_llama(const bench_reader *reader, const json_t *tests);
zt_status bench_read_hyperfine(const bench_reader *reader, const json_t *results);

#endif
