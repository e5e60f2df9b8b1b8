/* speculate.c - prompt-lookup drafts: find an earlier occurrence of the text's end, and decide how much to draft.
 *
 * Match: of all earlier places of the last token, the one with the longest common context before it. Of equals one near
 * the place where the last draft was read, because a text copied with changes continues right behind the change; else
 * the latest.
 *
 * Trust: for each class of matches (length, near or not) hits and tries are counted at every token, drafted or not.
 *
 * Length: the number of rows with the most expected tokens per measured batch time.
 */
#include "lib/base/require.h"
#include "lib/llm/speculate.h"

#include <math.h>
#include <string.h>

enum {
    LONGEST = 16,  /* a common past is not counted further */
    PLACES = 1024, /* the latest places of a token that are looked at */
    NEAR = 8,      /* tokens between a place and the one expected that still count as near */
    SIZES = 4,
    CLASSES = 16 /* of matches: eight of length, near or not */
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
    size_t position; /* what follows the place: the first token foretold */
    size_t length;   /* of the common past; 0: no match */
    bool near;
} match;

struct zt_drafts {
    zt_ctx *ctx;
    int64_t vocab;
    int32_t *last;      /* [vocab]: the latest place of each token; -1: none */
    int32_t *id, *prev; /* [cap]: the text, and of each token the place of the same before it */
    size_t length, capacity;
    match guess;                      /* the last guess, */
    size_t guess_length;              /* the text's length when it was made, */
    int32_t draft[ZT_DRAFT_ROWS - 1]; /* and the tokens it predicted */
    double hits[CLASSES], tries[CLASSES];
    double cost[SIZES];  /* seconds, where measured; no draft is made before that of one row is */
    int measured[SIZES]; /* how often, SETTLED at most; */
    bool seen[SIZES];    /* the first batch of a size is not: it prepares the next */
};

zt_drafts *zt_drafts_open(zt_ctx *ctx, int64_t vocab)
{
    zt_drafts *drafts = zt_calloc(ctx, 1, sizeof *drafts);
    if (!drafts) return NULL;
    drafts->ctx = ctx;
    drafts->vocab = vocab;
    drafts->last = zt_alloc_array(ctx, (size_t)vocab, sizeof *drafts->last);
    if (!drafts->last) {
        zt_drafts_free(drafts);
        return NULL;
    }
    memset(drafts->last, -1, (size_t)vocab * sizeof *drafts->last);
    return drafts;
}

void zt_drafts_free(zt_drafts *drafts)
{
    if (!drafts) return;
    zt_free(drafts->ctx, drafts->last);
    zt_free(drafts->ctx, drafts->id);
    zt_free(drafts->ctx, drafts->prev);
    zt_free(drafts->ctx, drafts);
}

/* ---- the text -------------------------------------------------------------------------------- */

static bool grow_text(zt_drafts *drafts, size_t token_count)
{
    if (token_count <= drafts->capacity) return true;
    size_t cap = token_count < 512 ? 1024 : 2 * token_count;
    int32_t *id = zt_realloc(drafts->ctx, drafts->id, cap * sizeof *id);
    if (id) drafts->id = id;
    int32_t *prev = id ? zt_realloc(drafts->ctx, drafts->prev, cap * sizeof *prev) : NULL;
    if (!prev) return false;
    drafts->prev = prev;
    drafts->capacity = cap;
    return true;
}

/* Brings the stored text up to `ids`: appends the new tokens, or starts over when it is another text. */
static bool follow_text(zt_drafts *drafts, const int32_t *ids, size_t token_count)
{
    if (drafts->length > token_count || (drafts->length && memcmp(drafts->id, ids, drafts->length * sizeof *ids) != 0)) {
        for (size_t i = 0; i < drafts->length; i++) drafts->last[drafts->id[i]] = -1;
        drafts->length = drafts->guess_length = 0;
    }
    if (token_count > INT32_MAX || !grow_text(drafts, token_count)) return false;
    for (; drafts->length < token_count; drafts->length++) {
        int32_t id = ids[drafts->length];
        if (id < 0 || id >= drafts->vocab) return false;
        drafts->id[drafts->length] = id;
        drafts->prev[drafts->length] = drafts->last[id];
        drafts->last[id] = (int32_t)drafts->length;
    }
    return true;
}

/* ---- guesses --------------------------------------------------------------------------------- */

/* Length of the common context of the token at `place` and the last token, both included. */
static size_t common_past(const zt_drafts *drafts, size_t place)
{
    size_t length = 1, end = drafts->length - 1;
    while (length < LONGEST && length <= place && drafts->id[place - length] == drafts->id[end - length]) length++;
    return length;
}

static match find_match(const zt_drafts *drafts)
{
    match best = {0};
    size_t expected = drafts->guess.position + (drafts->length - drafts->guess_length); /* had it come true */
    int32_t place = drafts->prev[drafts->length - 1];
    for (int i = 0; place >= 0 && i < PLACES; i++, place = drafts->prev[place]) {
        size_t position = (size_t)place + 1, distance = position > expected ? position - expected : expected - position;
        match candidate = {
            .position = position, .length = common_past(drafts, (size_t)place), .near = drafts->guess_length && distance <= NEAR};
        if (candidate.length > best.length || (candidate.length == best.length && candidate.near > best.near)) best = candidate;
    }
    return best;
}

static int match_class(size_t length, bool near)
{
    static const uint8_t least[CLASSES / 2] = {1, 2, 3, 4, 5, 7, 10, LONGEST};
    int class_index = 0;
    while (class_index + 1 < CLASSES / 2 && length >= least[class_index + 1]) class_index++;
    return 2 * class_index + near;
}

/* Probability that the predicted token `index` of a match comes true, given that the ones before it did. */
static double hit_chance(const zt_drafts *drafts, match base, size_t index)
{
    int class_index = match_class(base.length + index, base.near || index > 0);
    double probability =
        (drafts->hits[class_index] + BELIEF * usual_hits[class_index / 2]) / (drafts->tries[class_index] + BELIEF);
    return probability < SUREST ? probability : SUREST;
}

/* Compares the last guess with the tokens that came, and counts hits and tries. */
static void score_last_guess(zt_drafts *drafts, size_t token_count)
{
    size_t came = token_count - drafts->guess_length;
    for (size_t i = 0; drafts->guess_length && drafts->guess.length && i < came && i < ZT_DRAFT_ROWS - 1; i++) {
        int class_index = match_class(drafts->guess.length + i, drafts->guess.near || i > 0);
        bool hit = drafts->draft[i] == drafts->id[drafts->guess_length + i];
        drafts->hits[class_index] = drafts->hits[class_index] * KEEP + hit;
        drafts->tries[class_index] = drafts->tries[class_index] * KEEP + 1;
        if (!hit) return;
    }
}

/* Copies the text from the match on. Past the text's end the draft repeats itself, as a loop in the text would. */
static void write_draft(zt_drafts *drafts, match found)
{
    for (size_t i = 0; i < ZT_DRAFT_ROWS - 1; i++) {
        size_t at = found.position + i;
        drafts->draft[i] = at < drafts->length ? drafts->id[at] : drafts->draft[at - drafts->length];
    }
}

/* ---- how far --------------------------------------------------------------------------------- */

/* Cost of a size's rows beyond the first, relative to usual_cost: as measured, else that of the cheapest measured size
 * (optimistic, so that the size gets tried). */
static double relative_cost(const zt_drafts *drafts, int size)
{
    double least = INFINITY;
    for (int i = 1; i < SIZES; i++) {
        double ratio = (drafts->cost[i] / drafts->cost[0] - 1) / (usual_cost[i] - 1);
        if (drafts->measured[i] && (i == size || !drafts->measured[size]) && ratio < least) least = ratio;
    }
    return least < INFINITY ? least : 1;
}

/* Cost of a batch in single steps, limited to the range from 1 to twice the usual cost. */
static double batch_cost(const zt_drafts *drafts, int size)
{
    double usual = usual_cost[size], cost = 1 + (usual - 1) * relative_cost(drafts, size);
    return cost < 1 ? 1 : cost > 2 * usual ? 2 * usual : cost;
}

static size_t best_draft_length(const zt_drafts *drafts, match base, size_t limit)
{
    double tokens = 1, chance_of_all = 1, best = 1;
    size_t rows = 1, found = 0;
    for (int size = 1; size < SIZES && size_rows[size] <= limit + 1; size++) {
        for (; rows < size_rows[size]; rows++) tokens += chance_of_all *= hit_chance(drafts, base, rows - 1);
        double gain = tokens / batch_cost(drafts, size);
        if (gain <= best || gain < (drafts->seen[size] ? GAIN : FIRST)) continue;
        best = gain;
        found = rows - 1;
    }
    return found;
}

size_t zt_drafts_next(zt_drafts *drafts, const int32_t *ids, size_t token_count, size_t limit, const int32_t **draft)
{
    if (!drafts) return 0;
    ZT_REQUIRE(drafts->ctx, (ids || !token_count) && draft, 0);
    *draft = drafts->draft;
    if (token_count == 0 || !follow_text(drafts, ids, token_count)) return 0;
    score_last_guess(drafts, token_count);
    match found = find_match(drafts);
    if (!found.length) /* the place stays in mind */
        found.position = drafts->guess.position + (token_count - drafts->guess_length);
    else
        write_draft(drafts, found);
    drafts->guess = found;
    drafts->guess_length = token_count;
    return found.length && drafts->measured[0] ? best_draft_length(drafts, found, limit) : 0;
}

/* Updates the running mean of a size's time. A batch that took more than twice the expected time was delayed by
 * something else and counts as twice the expected. */
static void record_cost(zt_drafts *drafts, int size, double seconds)
{
    double *cost = &drafts->cost[size];
    if (!drafts->measured[size]) *cost = size ? batch_cost(drafts, size) * drafts->cost[0] : seconds;
    drafts->measured[size] += drafts->measured[size] < SETTLED;
    *cost += ((seconds < 2 * *cost ? seconds : 2 * *cost) - *cost) / drafts->measured[size];
}

/* Sizes that are not used drift back to their usual cost, so that one unlucky measurement does not exclude them. */
void zt_drafts_took(zt_drafts *drafts, size_t rows, double seconds)
{
    if (!drafts) return;
    for (int i = 0; i < SIZES; i++) {
        if (size_rows[i] != rows)
            drafts->cost[i] += (usual_cost[i] * drafts->cost[0] - drafts->cost[i]) / 1024;
        else if (i == 0 || drafts->seen[i])
            record_cost(drafts, i, seconds);
        drafts->seen[i] |= size_rows[i] == rows;
    }
}
