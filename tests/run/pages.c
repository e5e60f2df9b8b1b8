/* pages.c - the cache in blocks: counts against a plain model under random use, what is refused and
 * in which words, and attention through the table against attention over each sequence alone. */
#include "lib/run/pages.h"
#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <math.h>
#include <string.h>

/* ---- by hand --------------------------------------------------------------------------------- */

static void counts_by_hand(zt_ctx *ctx)
{
    zt_pages *pages = zt_pages_open(ctx, 6, 4, 3);
    int32_t pos[8], seq[8];
    int a = zt_pages_begin(pages);
    ok(a == 0 && zt_pages_length(pages, a) == 0, "an empty sequence");
    ok(zt_pages_append(pages, a, 5, pos, seq) == ZT_OK && pos[4] == 4 && seq[4] == a &&
           zt_pages_append(pages, a, 2, pos, NULL) == ZT_OK && pos[0] == 5 && pos[1] == 6,
       "tokens get their positions");
    const int32_t *table = zt_pages_table(pages);
    ok(zt_pages_counted(pages).used == 2 && table[0] == 0 && table[1] == 1 && table[2] == 0,
       "seven of them are in two blocks of four");
    int b = zt_pages_share(pages, a, 7);
    ok(b == 1 && zt_pages_length(pages, b) == 4 && table[6] == 0 && zt_pages_counted(pages).shared == 1,
       "whole blocks are shared");
    ok(zt_pages_append(pages, b, 3, NULL, NULL) == ZT_OK && table[7] == 2, "then each has its own");
    ok(zt_pages_cut(pages, b, 2) == 0 && zt_pages_counted(pages).used == 2 && zt_pages_counted(pages).shared == 0,
       "a cut inside a shared block lets all of it go");
    ok(zt_pages_cut(pages, a, 2) == 2 && zt_pages_counted(pages).used == 1, "of its own block it keeps");
    ok(zt_pages_reserve(pages, b, 20) == ZT_OK && zt_pages_counted(pages).used == 6 && zt_pages_counted(pages).peak == 6 &&
           zt_pages_length(pages, b) == 0,
       "blocks are reserved without tokens");
    zt_pages_end(pages, a);
    zt_pages_end(pages, a);
    zt_pages_count c = zt_pages_counted(pages);
    ok(c.used == 5 && c.sequences == 1 && c.positions == 0 && zt_pages_length(pages, a) == -1, "an ended sequence gives back");
    zt_pages_close(pages);
    zt_pages_close(NULL);
}

static void call_refused(zt_ctx *ctx, bool good, const char *says)
{
    if (!ok(good && strstr(zt_ctx_error(ctx), says), "refused: %s", says)) diag("%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

static void refusals(zt_ctx *ctx)
{
    call_refused(ctx, !zt_pages_open(ctx, 0, 4, 1), "0 blocks of 4 positions for 1 sequences");
    call_refused(ctx, !zt_pages_open(ctx, INT64_MAX, 2, 1), "positions for 1");
    call_refused(ctx, !zt_pages_open(ctx, 1 << 20, 2048, 1), "1048576 blocks");
    zt_pages *pages = zt_pages_open(ctx, 2, 4, 1);
    int a = zt_pages_begin(pages);
    call_refused(ctx, zt_pages_begin(pages) == -1, "all 1 sequences are in use");
    call_refused(ctx, zt_pages_append(pages, a, 9, NULL, NULL) == ZT_ENOMEM,
                 "sequence 0 of 0 positions needs 3 more blocks for 9, but 2 of 2 are free");
    ok(zt_pages_length(pages, a) == 0 && zt_pages_counted(pages).used == 0, "and nothing has changed");
    call_refused(ctx, zt_pages_append(pages, 1, 1, NULL, NULL) == ZT_EUSAGE, "sequence 1 of 1 is not");
    call_refused(ctx, zt_pages_append(pages, a, -1, NULL, NULL) == ZT_EUSAGE, "cannot append -1 positions");
    call_refused(ctx, zt_pages_cut(pages, -1, 0) == -1, "sequence -1");
    call_refused(ctx, zt_pages_cut(pages, a, -3) == -1, "cannot truncate to -3 positions");
    call_refused(ctx, zt_pages_share(pages, 7, 0) == -1, "sequence 7");
    call_refused(ctx, zt_pages_share(pages, a, 0) == -1, "all 1 sequences");
    zt_pages_close(pages);
    size_t held = zt_mem_get(ctx).blocks;
    ok(held == 0, "nothing is left allocated");
}

/* ---- against a model ------------------------------------------------------------------------- */

enum { BLOCKS = 13, SIZE = 3, SEQUENCES = 5, STEPS = 20000 };

/* What each position of each sequence was written with, and what each slot of the cache holds: a
 * slot that two sequences see must hold what both wrote. */
typedef struct model {
    int64_t length[SEQUENCES]; /* -1: not in use */
    int value[SEQUENCES][BLOCKS * SIZE], slot[BLOCKS * SIZE], next;
} model;

static int slot_of(const zt_pages *p, int seq, int64_t pos)
{
    return zt_pages_table(p)[seq * BLOCKS + pos / SIZE] * SIZE + (int)(pos % SIZE);
}

static bool agrees(const zt_pages *pages, const model *m)
{
    bool owned[BLOCKS] = {false};
    int64_t positions = 0, used = 0, sequences = 0;
    zt_pages_count c = zt_pages_counted(pages);
    for (int s = 0; s < SEQUENCES; s++) {
        if (zt_pages_length(pages, s) != m->length[s]) return false;
        sequences += m->length[s] >= 0;
        for (int64_t i = 0; i < m->length[s]; i++) {
            int slot = slot_of(pages, s, i);
            owned[slot / SIZE] = true;
            if (m->slot[slot] != m->value[s][i]) return false;
        }
        positions += m->length[s] > 0 ? m->length[s] : 0;
    }
    for (int b = 0; b < BLOCKS; b++) used += owned[b];
    return c.positions == positions && c.sequences == sequences && c.used >= used && c.used <= BLOCKS && c.peak >= c.used;
}

static void write_tokens(zt_pages *pages, model *m, int s, int64_t count)
{
    int32_t pos[BLOCKS * SIZE + SIZE];
    if (zt_pages_append(pages, s, count, pos, NULL)) return;
    for (int64_t i = 0; i < count; i++) {
        m->value[s][pos[i]] = ++m->next;
        m->slot[slot_of(pages, s, pos[i])] = m->next;
    }
    m->length[s] += count;
}

static void random_step(zt_ctx *ctx, zt_pages *pages, model *m, uint64_t step)
{
    uint32_t r[4];
    zt_philox(11, 0, step, r);
    int s = (int)(r[0] % SEQUENCES);
    int64_t count = r[1] % (2 * SIZE + 1);
    if (r[2] % 16 == 0) {
        zt_pages_end(pages, s);
        m->length[s] = -1;
    } else if (r[2] % 16 == 1) {
        int to = zt_pages_begin(pages);
        if (to >= 0) m->length[to] = 0;
    } else if (r[2] % 16 < 4) {
        int to = zt_pages_share(pages, s, count * 2);
        if (to >= 0) {
            m->length[to] = zt_pages_length(pages, to);
            memcpy(m->value[to], m->value[s], sizeof m->value[s]);
        }
    } else if (r[2] % 16 < 6) {
        int64_t kept = zt_pages_cut(pages, s, count);
        if (kept >= 0) m->length[s] = kept;
    } else {
        write_tokens(pages, m, s, count);
    }
    zt_ctx_clear(ctx);
}

static void against_a_model(zt_ctx *ctx)
{
    zt_pages *pages = zt_pages_open(ctx, BLOCKS, SIZE, SEQUENCES);
    model m = {.next = 0};
    bool good = pages != NULL;
    for (int s = 0; s < SEQUENCES; s++) m.length[s] = -1;
    for (uint64_t i = 0; i < STEPS && good; i++) {
        random_step(ctx, pages, &m, i);
        good = agrees(pages, &m);
    }
    ok(good, "%d random steps keep every token and count every block", STEPS);
    for (int s = 0; s < SEQUENCES; s++) zt_pages_end(pages, s);
    ok(zt_pages_counted(pages).used == 0 && zt_pages_counted(pages).sequences == 0, "then all are free");
    zt_pages_close(pages);
}

/* ---- with the rows that read the table ------------------------------------------------------- */

enum { HEADS = 4, SHARED = 2, D = 8, W = SHARED * D, CTX = BLOCKS * SIZE, MOST = 4 };

/* One step of a paged model: rows are put into both caches, then attend. */
static zt_prog *paged_program(zt_ctx *ctx, int64_t count)
{
    zt_prog *p = zt_prog_new(ctx);
    const int64_t cache[] = {CTX, W}, row[] = {count, W}, q_dim[] = {count, HEADS * D};
    const int64_t table_dim[] = {SEQUENCES, BLOCKS};
    int kc = zt_prog_in(p, "kc", ZT_F32, 2, cache), vc = zt_prog_in(p, "vc", ZT_F32, 2, cache);
    int q = zt_prog_in(p, "q", ZT_F32, 2, q_dim), k = zt_prog_in(p, "k", ZT_F32, 2, row);
    int v = zt_prog_in(p, "v", ZT_F32, 2, row), pos = zt_prog_in(p, "pos", ZT_I32, 1, &count);
    int seq = zt_prog_in(p, "seq", ZT_I32, 1, &count);
    int table = zt_prog_in(p, "table", ZT_I32, 2, table_dim);
    zt_attention_attrs attrs = zt_attention_defaults();
    attrs.head = D;
    kc = zt_program_kv_put(p, NULL, zt_program_scale(p, NULL, kc, NULL), k, pos, seq, table);
    vc = zt_program_kv_put(p, NULL, zt_program_scale(p, NULL, vc, NULL), v, pos, seq, table);
    int y = zt_program_attention(p, NULL, q, kc, vc, pos, seq, table, &attrs);
    zt_prog_out(p, "y", y);
    zt_prog_out(p, "kc1", kc);
    zt_prog_out(p, "vc1", vc);
    return p;
}

typedef struct told {
    float k[SEQUENCES][CTX][W], v[SEQUENCES][CTX][W];
} told;

/* One head of one row, from what its sequence was told. */
static double expected(const told *t, const float *q, int seq, int pos, int head, int d)
{
    double sum = 0, y = 0, score[CTX], top = -INFINITY;
    int g = head / (HEADS / SHARED) * D;
    for (int j = 0; j <= pos; j++) {
        score[j] = 0;
        for (int i = 0; i < D; i++) score[j] += (double)q[head * D + i] * (double)t->k[seq][j][g + i] / sqrt((double)D);
        top = fmax(top, score[j]);
    }
    for (int j = 0; j <= pos; j++) {
        sum += exp(score[j] - top);
        y += exp(score[j] - top) * (double)t->v[seq][j][g + d];
    }
    return y / sum;
}

static float caches[2][CTX * W];

static bool paged_step(zt_ctx *ctx, zt_engine *e, zt_pages *pages, told *t, int s, int64_t count, int step)
{
    float q[MOST * HEADS * D], k[MOST * W], v[MOST * W], y[MOST * HEADS * D];
    int32_t pos[MOST], seq[MOST];
    if (zt_pages_append(pages, s, count, pos, seq)) return false;
    for (int64_t i = 0; i < count * HEADS * D; i++) q[i] = (float)zt_normal(1, (uint64_t)step, (uint64_t)i);
    for (int64_t i = 0; i < count * W; i++) {
        k[i] = t->k[s][pos[0] + i / W][i % W] = (float)zt_normal(2, (uint64_t)step, (uint64_t)i);
        v[i] = t->v[s][pos[0] + i / W][i % W] = (float)zt_normal(3, (uint64_t)step, (uint64_t)i);
    }
    zt_prog *prog = paged_program(ctx, count);
    zt_session *session = zt_session_open(e, prog, NULL, NULL);
    const void *in[] = {caches[0], caches[1], q, k, v, pos, seq, zt_pages_table(pages)};
    void *out[] = {y, caches[0], caches[1]};
    bool good = session && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    for (int64_t i = 0; i < count * HEADS * D && good; i++) {
        int64_t r = i / (HEADS * D), h = i / D % HEADS;
        double want = expected(t, q + r * HEADS * D, s, pos[r], (int)h, (int)(i % D));
        good = fabs((double)y[i] - want) < 1e-4;
    }
    zt_session_close(session);
    zt_prog_free(prog);
    return good;
}

static void attends_by_pages(zt_ctx *ctx, const char *engine)
{
    zt_engine *e = zt_engine_open(ctx, engine, &(zt_engine_opts){.threads = 2});
    zt_pages *pages = zt_pages_open(ctx, BLOCKS, SIZE, SEQUENCES);
    static told t;
    int a = zt_pages_begin(pages), b = zt_pages_begin(pages), c = -1;
    bool good = e && pages;
    for (int i = 0; i < 6 && good; i++) good = paged_step(ctx, e, pages, &t, i % 2 ? b : a, 1 + i % 3, i);
    if (good) c = zt_pages_share(pages, a, 3);
    if (good) memcpy(t.k[c], t.k[a], sizeof t.k[a]);
    if (good) memcpy(t.v[c], t.v[a], sizeof t.v[a]);
    good = good && zt_pages_length(pages, c) == 3;
    zt_pages_end(pages, b); /* its blocks are used again */
    for (int i = 6; i < 10 && good; i++) good = paged_step(ctx, e, pages, &t, i % 2 ? c : a, 1 + i % 4, i);
    if (!ok(good, "%s: paged attention is each sequence's own", engine)) diag("%s", zt_ctx_error(ctx));
    zt_pages_close(pages);
    zt_engine_close(e);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    counts_by_hand(ctx);
    refusals(ctx);
    against_a_model(ctx);
    attends_by_pages(ctx, "ref");
    attends_by_pages(ctx, "cpu");
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
