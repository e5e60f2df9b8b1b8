/* draft_pace.c - how much to draft: probabilities by confidence, durations by size, and what came of it.
 *
 * Length: a round of k drafted tokens takes k d + C(1 + k) seconds and is expected to give 1 + c1 + c1 c2 + ... tokens. A
 * token is drafted while that improves the tokens per second, and verified while it brings more than its row costs.
 *
 * Whether at all: the gain of each round, in steps, has a running mean. If it stays below zero, drafting stops, and is
 * tried again after a number of tokens that doubles each time: what failed trials cost stays a small part of the whole.
 */
#include "lib/llm/draft_pace.h"

static const uint8_t size_rows[ZT_PACE_SIZES] = {1, 2, 4, 6, 8, ZT_PACE_ROWS};

/* A step's duration before any was measured, in steps of one row. */
static const double usual_cost[ZT_PACE_SIZES] = {1, 1.2, 1.5, 1.9, 2.3, 4};

/* Least margins of the classes; and how often a token of a class is accepted before any was seen, as if seen BELIEF
 * times: a margin of m is a probability of at most 1 / (1 + exp(-m)). */
static const double least_margin[ZT_PACE_CLASSES] = {0, .25, .5, 1, 1.5, 2.5, 4, 6};
static const double usual_hits[ZT_PACE_CLASSES] = {.3, .4, .5, .6, .7, .8, .9, .95};
#define BELIEF      3.0
#define SUREST      .97         /* no token is believed to be surer */
#define KEEP        (63.0 / 64) /* of what was counted, each time that more is */
#define SETTLED     8           /* measurements that a duration is the mean of; later ones push out earlier ones */
#define MARGIN      1.05        /* drafting must promise so much over single steps */
#define TRIAL       4           /* rounds before drafting is given up */
#define FIRST_WAIT  64          /* tokens to the second trial; then twice as many each time, */
#define LAST_WAIT   4096        /* up to this */
#define TRIAL_SHARE 100         /* a trial waits for so many times its own time */
#define STALE       48          /* rounds until a step of one row is measured again */

void zt_pace_init(zt_draft_pace *pace) { *pace = (zt_draft_pace){.wait = FIRST_WAIT}; }

/* ---- measurements ---------------------------------------------------------------------------- */

/* Duration of a step: as measured, else by its usual cost. Of sizes between, on the line between their neighbours. */
static double size_cost(const zt_draft_pace *pace, int size)
{
    return pace->measured[size] ? pace->cost[size] : usual_cost[size] * pace->cost[0];
}

static double step_cost(const zt_draft_pace *pace, size_t rows)
{
    int size = 0;
    while (size + 1 < ZT_PACE_SIZES && size_rows[size] < rows) size++;
    double cost = size_cost(pace, size);
    if (size_rows[size] <= rows || size == 0) return cost;
    double before = size_cost(pace, size - 1), share = (double)(size_rows[size] - rows) / (size_rows[size] - size_rows[size - 1]);
    return cost + (before - cost) * share;
}

/* A running mean. What took more than twice as long as usual was delayed by something else, and counts as twice. */
static void record(double *mean, int *count, double seconds)
{
    if (*count && seconds > 2 * *mean) seconds = 2 * *mean;
    *count += *count < SETTLED;
    *mean += (seconds - *mean) / *count;
}

void zt_pace_took(zt_draft_pace *pace, size_t rows, double seconds)
{
    for (int size = 0; size < ZT_PACE_SIZES; size++) {
        if (size_rows[size] != rows) continue;
        if (size == 0 || pace->seen[size]) record(&pace->cost[size], &pace->measured[size], seconds);
        pace->seen[size] = true;
        if (size == 0) pace->since_single = 0;
    }
}

void zt_pace_drafted(zt_draft_pace *pace, size_t count, double seconds)
{
    if (count) record(&pace->token, &pace->tokens, seconds / (double)count);
}

void zt_pace_read(zt_draft_pace *pace, size_t count, double seconds)
{
    if (count) record(&pace->read, &pace->reads, seconds / (double)count);
}

static int margin_class(double margin)
{
    int class_index = 0;
    while (class_index + 1 < ZT_PACE_CLASSES && margin >= least_margin[class_index + 1]) class_index++;
    return class_index;
}

void zt_pace_scored(zt_draft_pace *pace, double margin, bool hit)
{
    int class_index = margin_class(margin);
    pace->hits[class_index] = pace->hits[class_index] * KEEP + hit;
    pace->tries[class_index] = pace->tries[class_index] * KEEP + 1;
}

/* Hits of all classes over what is usual: classes that were seldom seen are believed to be as good as the others. */
static double relative_hits(const zt_draft_pace *pace)
{
    double hits = 2, usual = 2;
    for (int i = 0; i < ZT_PACE_CLASSES; i++) {
        hits += pace->hits[i];
        usual += pace->tries[i] * usual_hits[i];
    }
    return hits / usual;
}

static double class_chance(const zt_draft_pace *pace, int class_index)
{
    double believed = usual_hits[class_index] * relative_hits(pace);
    if (believed > SUREST) believed = SUREST;
    double chance = (pace->hits[class_index] + BELIEF * believed) / (pace->tries[class_index] + BELIEF);
    return chance < SUREST ? chance : SUREST;
}

double zt_pace_chance(const zt_draft_pace *pace, double margin) { return class_chance(pace, margin_class(margin)); }

/* Of a token before it is drafted: the mean of the classes, by how often they came. */
static double mean_chance(const zt_draft_pace *pace)
{
    double sum = 0, weight = 0;
    for (int i = 0; i < ZT_PACE_CLASSES; i++) {
        sum += (pace->tries[i] + .5) * class_chance(pace, i);
        weight += pace->tries[i] + .5;
    }
    return sum / weight;
}

/* ---- how far --------------------------------------------------------------------------------- */

bool zt_pace_knows(const zt_draft_pace *pace) { return pace->measured[0] >= 2; }

bool zt_pace_is_stale(const zt_draft_pace *pace) { return pace->since_single >= STALE; }

/* Tokens per step of one row, where each drafted token is accepted with this chance. */
static double best_gain(const zt_draft_pace *pace, double chance)
{
    double tokens = 1, reach = 1, best = 1;
    for (size_t count = 1; count < ZT_PACE_ROWS; count++) {
        tokens += reach *= chance;
        double gain = tokens * pace->cost[0] / ((double)count * pace->token + step_cost(pace, 1 + count));
        if (gain > best) best = gain;
    }
    return best;
}

double zt_pace_gain(const zt_draft_pace *pace) { return best_gain(pace, mean_chance(pace)); }

double zt_pace_most_gain(const zt_draft_pace *pace) { return best_gain(pace, SUREST); }

bool zt_pace_may_gain(const zt_draft_pace *pace) { return zt_pace_most_gain(pace) > MARGIN; }

bool zt_pace_goes_on(const zt_draft_pace *pace, const double *chance, size_t count)
{
    double tokens = 1, reach = 1, drafted = (double)count * pace->token;
    double best = 1 / pace->cost[0]; /* tokens per second */
    if (count == 0) return zt_pace_gain(pace) > MARGIN;
    for (size_t i = 0; i < count; i++) {
        tokens += reach *= chance[i];
        double rate = tokens / (drafted + step_cost(pace, 2 + i));
        if (rate > best) best = rate;
    }
    double row = step_cost(pace, 2 + count) - step_cost(pace, 1 + count);
    return reach * mean_chance(pace) > best * (pace->token + (row > 0 ? row : 0));
}

size_t zt_pace_best(const zt_draft_pace *pace, const double *chance, size_t count)
{
    double tokens = 1, reach = 1, best = 1 - MARGIN, rate = MARGIN / pace->cost[0];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        tokens += reach *= chance[i];
        bool sized = false;
        for (int size = 1; size < ZT_PACE_SIZES; size++) sized |= size_rows[size] == i + 2;
        double gain = tokens - rate * step_cost(pace, i + 2);
        if (!sized || gain <= best) continue;
        best = gain;
        found = i + 1;
    }
    return found;
}

/* ---- whether at all -------------------------------------------------------------------------- */

void zt_pace_round(zt_draft_pace *pace, size_t tokens, double seconds)
{
    double worth = (double)tokens - seconds / pace->cost[0];
    if (worth < -4) worth = -4; /* delayed by something else */
    pace->rounds++;
    pace->since_single++;
    pace->worth += (worth - pace->worth) / (pace->rounds < 16 ? pace->rounds : 16);
    pace->losing = pace->worth < 0 ? pace->losing + 1 : 0;
    if (pace->rounds > 2 * TRIAL && pace->losing == 0) pace->wait = FIRST_WAIT;
}

bool zt_pace_fails(const zt_draft_pace *pace) { return pace->losing >= TRIAL; }

size_t zt_pace_stop(zt_draft_pace *pace, size_t reads)
{
    double least = TRIAL_SHARE * (double)reads * pace->read / pace->cost[0];
    if (least > LAST_WAIT) least = LAST_WAIT;
    size_t wait = pace->wait > (size_t)least ? pace->wait : (size_t)least;
    pace->wait = 2 * pace->wait < LAST_WAIT ? 2 * pace->wait : LAST_WAIT;
    return wait;
}

void zt_pace_start(zt_draft_pace *pace)
{
    pace->worth = 0;
    pace->rounds = pace->losing = 0;
}
