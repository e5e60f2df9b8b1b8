/* speculate.c - drafts by lookup: where the end of the text stood before, and how far to trust it.
 *
 * Of all places where the last token stood before, the one with the longest common past is taken;
 * of equals one near the place that the last draft was read from, since who copies a text with
 * changes comes back to it right behind the change; else the latest. How often such a match
 * foretells the next token is counted, by its length and nearness, at every token, drafted or not:
 * it costs nothing to see whether a guess would have come true. The draft is as long as pays:
 * expected tokens for the time of its batch, which is measured.
 */
#include "lib/llm/speculate.h"

#include <math.h>
#include <string.h>

enum {
    LONGEST = 16, /* a common past is not counted further */
    PLACES = 1024, /* the latest places of a token that are looked at */
    NEAR = 8,     /* tokens between a place and the one expected that still count as near */
    SIZES = 4,
    CLASSES = 16  /* of matches: eight of length, near or not */
};

/* Batches have these sizes only: a session prepares a replay for each, and keeps a few. */
static const uint8_t size_rows[SIZES] = {1, 4, 8, ZT_DRAFT_ROWS};

/* What a batch costs before any was measured, in steps of one token. */
static const double usual_cost[SIZES] = {1, 1.7, 2.8, 5.2};

/* A match is believed to come true this often before any was seen, as if seen BELIEF times. */
static const double usual_hits[CLASSES / 2] = {.15, .3, .45, .6, .7, .8, .9, .95};
#define BELIEF  3.0
#define SUREST  .95         /* no token is believed to be surer: every copy ends where nobody knows */
#define KEEP    (31.0 / 32) /* of what was counted, each time more is */
#define GAIN    1.3         /* a draft must promise this much over single steps, */
#define FIRST   1.5         /* and the first of a size, which prepares for it, this much */
#define SETTLED 4           /* measures that a cost is the mean of; later ones push out earlier ones */

typedef struct match {
    size_t at;     /* what follows the place: the first token foretold */
    size_t length; /* of the common past; 0: no match */
    bool near;
} match;

struct zt_drafts {
    zt_ctx *ctx;
    int64_t vocab;
    int32_t *last;      /* [vocab]: the latest place of each token; -1: none */
    int32_t *id, *prev; /* [cap]: the text, and of each token the place of the same before it */
    size_t n, cap;
    match told;         /* the last guess, made when the text had told_n tokens, */
    size_t told_n;
    int32_t draft[ZT_DRAFT_ROWS - 1]; /* and all that it foretold */
    double hits[CLASSES], tries[CLASSES];
    double cost[SIZES];  /* seconds, where measured; no draft is made before that of one row is */
    int measured[SIZES]; /* how often, SETTLED at most; */
    bool seen[SIZES];    /* the first batch of a size is not: it prepares the next */
};

zt_drafts *zt_drafts_open(zt_ctx *ctx, int64_t vocab)
{
    zt_drafts *d = zt_calloc(ctx, 1, sizeof *d);
    if (!d)
        return NULL;
    d->ctx = ctx;
    d->vocab = vocab;
    d->last = zt_alloc_array(ctx, (size_t)vocab, sizeof *d->last);
    if (!d->last) {
        zt_drafts_free(d);
        return NULL;
    }
    memset(d->last, -1, (size_t)vocab * sizeof *d->last);
    return d;
}

void zt_drafts_free(zt_drafts *d)
{
    if (!d)
        return;
    zt_free(d->ctx, d->last);
    zt_free(d->ctx, d->id);
    zt_free(d->ctx, d->prev);
    zt_free(d->ctx, d);
}

/* ---- the text -------------------------------------------------------------------------------- */

static bool grow(zt_drafts *d, size_t n)
{
    if (n <= d->cap)
        return true;
    size_t cap = n < 512 ? 1024 : 2 * n;
    int32_t *id = zt_realloc(d->ctx, d->id, cap * sizeof *id);
    if (id)
        d->id = id;
    int32_t *prev = id ? zt_realloc(d->ctx, d->prev, cap * sizeof *prev) : NULL;
    if (!prev)
        return false;
    d->prev = prev;
    d->cap = cap;
    return true;
}

/* The text has become ids: another, or the old one and more. */
static bool take(zt_drafts *d, const int32_t *ids, size_t n)
{
    if (d->n > n || (d->n && memcmp(d->id, ids, d->n * sizeof *ids) != 0)) {
        for (size_t i = 0; i < d->n; i++)
            d->last[d->id[i]] = -1;
        d->n = d->told_n = 0;
    }
    if (n > INT32_MAX || !grow(d, n))
        return false;
    for (; d->n < n; d->n++) {
        int32_t id = ids[d->n];
        if (id < 0 || id >= d->vocab)
            return false;
        d->id[d->n] = id;
        d->prev[d->n] = d->last[id];
        d->last[id] = (int32_t)d->n;
    }
    return true;
}

/* ---- guesses --------------------------------------------------------------------------------- */

/* Tokens before place p that are those before the end, the tokens there included. */
static size_t past(const zt_drafts *d, size_t p)
{
    size_t k = 1, end = d->n - 1;
    while (k < LONGEST && k <= p && d->id[p - k] == d->id[end - k])
        k++;
    return k;
}

static match find(const zt_drafts *d)
{
    match best = {0};
    size_t expected = d->told.at + (d->n - d->told_n); /* had it come true */
    int32_t p = d->prev[d->n - 1];
    for (int i = 0; p >= 0 && i < PLACES; i++, p = d->prev[p]) {
        size_t at = (size_t)p + 1, far = at > expected ? at - expected : expected - at;
        match m = {.at = at, .length = past(d, (size_t)p), .near = d->told_n && far <= NEAR};
        if (m.length > best.length || (m.length == best.length && m.near > best.near))
            best = m;
    }
    return best;
}

static int class_of(size_t length, bool near)
{
    static const uint8_t least[CLASSES / 2] = {1, 2, 3, 4, 5, 7, 10, LONGEST};
    int c = 0;
    while (c + 1 < CLASSES / 2 && length >= least[c + 1])
        c++;
    return 2 * c + near;
}

/* How likely the i-th token foretold by a match comes, if those before it came. */
static double chance(const zt_drafts *d, match m, size_t i)
{
    int c = class_of(m.length + i, m.near || i > 0);
    double p = (d->hits[c] + BELIEF * usual_hits[c / 2]) / (d->tries[c] + BELIEF);
    return p < SUREST ? p : SUREST;
}

/* Hold the last guess to what has come. */
static void learn(zt_drafts *d, size_t n)
{
    size_t came = n - d->told_n;
    for (size_t i = 0; d->told_n && d->told.length && i < came && i < ZT_DRAFT_ROWS - 1; i++) {
        int c = class_of(d->told.length + i, d->told.near || i > 0);
        bool hit = d->draft[i] == d->id[d->told_n + i];
        d->hits[c] = d->hits[c] * KEEP + hit;
        d->tries[c] = d->tries[c] * KEEP + 1;
        if (!hit)
            return;
    }
}

/* The text from the match on; past its end, that again: what goes round goes on going round. */
static void foretell(zt_drafts *d, match m)
{
    for (size_t i = 0; i < ZT_DRAFT_ROWS - 1; i++) {
        size_t at = m.at + i;
        d->draft[i] = at < d->n ? d->id[at] : d->draft[at - d->n];
    }
}

/* ---- how far --------------------------------------------------------------------------------- */

/* What a size's rows beyond the first cost, by what is usual: as measured, else as of the size that was
 * found the cheapest so, since who hopes will see. */
static double by_usual(const zt_drafts *d, int size)
{
    double least = INFINITY;
    for (int i = 1; i < SIZES; i++) {
        double by = (d->cost[i] / d->cost[0] - 1) / (usual_cost[i] - 1);
        if (d->measured[i] && (i == size || !d->measured[size]) && by < least)
            least = by;
    }
    return least < INFINITY ? least : 1;
}

/* Of a batch, in single steps. Neither less than a step nor twice what is usual is believed. */
static double cost_of(const zt_drafts *d, int size)
{
    double usual = usual_cost[size], cost = 1 + (usual - 1) * by_usual(d, size);
    return cost < 1 ? 1 : cost > 2 * usual ? 2 * usual : cost;
}

static size_t worth(const zt_drafts *d, match m, size_t most)
{
    double tokens = 1, all = 1, best = 1;
    size_t rows = 1, found = 0;
    for (int size = 1; size < SIZES && size_rows[size] <= most + 1; size++) {
        for (; rows < size_rows[size]; rows++)
            tokens += all *= chance(d, m, rows - 1);
        double gain = tokens / cost_of(d, size);
        if (gain <= best || gain < (d->seen[size] ? GAIN : FIRST))
            continue;
        best = gain;
        found = rows - 1;
    }
    return found;
}

size_t zt_drafts_next(zt_drafts *d, const int32_t *ids, size_t n, size_t most,
                      const int32_t **draft)
{
    *draft = d->draft;
    if (n == 0 || !take(d, ids, n))
        return 0;
    learn(d, n);
    match m = find(d);
    if (!m.length) /* the place stays in mind */
        m.at = d->told.at + (n - d->told_n);
    else
        foretell(d, m);
    d->told = m;
    d->told_n = n;
    return m.length && d->measured[0] ? worth(d, m, most) : 0;
}

/* A batch that took much longer than expected was held up by something else, and counts as twice what was
 * expected. */
static void measure(zt_drafts *d, int size, double seconds)
{
    double *cost = &d->cost[size];
    if (!d->measured[size])
        *cost = size ? cost_of(d, size) * d->cost[0] : seconds;
    d->measured[size] += d->measured[size] < SETTLED;
    *cost += ((seconds < 2 * *cost ? seconds : 2 * *cost) - *cost) / d->measured[size];
}

/* Measured in noise: a size that was unlucky comes back to what is usual, and is tried again. */
void zt_drafts_took(zt_drafts *d, size_t rows, double seconds)
{
    for (int i = 0; i < SIZES; i++) {
        if (size_rows[i] != rows)
            d->cost[i] += (usual_cost[i] * d->cost[0] - d->cost[i]) / 1024;
        else if (i == 0 || d->seen[i])
            measure(d, i, seconds);
        d->seen[i] |= size_rows[i] == rows;
    }
}
