/* score.c - a fuzz target for scores of zt-dna evolve: any bytes are a finite number or have a reason, both as a command prints them and
 * as a line of a file of scores. What is written of a score reads the same, in printable characters.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tools/zt-dna/score.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

/* The score that is read from what is written of this one. */
static void write_and_read(zt_ctx *ctx, const dna_score *score, dna_score *again)
{
    zt_str line;
    zt_str_init(&line, ctx);
    must(dna_score_put(score, &line) == ZT_OK && memchr(line.data, '\n', line.len) == line.data + line.len - 1);
    dna_score_read(line.data, line.len, again);
    must(again->kind == score->kind && (score->kind || again->fitness == score->fitness));
    zt_str_fini(&line);
}

static void check_score(zt_ctx *ctx, const dna_score *score)
{
    dna_score again, third;
    must(score->kind == DNA_SCORE_VALID ? isfinite(score->fitness) : score->kind < DNA_SCORE_KINDS && *score->reason);
    write_and_read(ctx, score, &again);
    for (const char *c = again.reason; *c && again.kind; c++) must(isprint((unsigned char)*c));
    write_and_read(ctx, &again, &third);
    must(!again.kind || !strcmp(again.reason, third.reason));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    char *text = malloc(count + !count); /* a byte beyond the text is found */
    dna_score score;
    must(ctx && text);
    if (count) memcpy(text, bytes, count);
    dna_score_parse(text, count, &score);
    must(score.kind == DNA_SCORE_VALID || score.kind == DNA_SCORE_INVALID);
    check_score(ctx, &score);
    dna_score_read(text, count, &score);
    check_score(ctx, &score);
    must(zt_mem_get(ctx).blocks == 0);
    free(text);
    zt_ctx_free(ctx);
    return 0;
}
