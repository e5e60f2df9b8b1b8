/* draft_pace.h - private to lib/llm: how much to draft, by what was accepted and what it cost.
 *
 * A round drafts k tokens, a step of d seconds each, and verifies them in one step of 1 + k rows. Without a draft the
 * tokens that come of it would take a step of one row each.
 */
#ifndef ZT_LLM_DRAFT_PACE_H
#define ZT_LLM_DRAFT_PACE_H

#include "lib/base/base.h"

/* Most rows of a batch: the last token and a draft; ZT_DRAFT_ROWS of speculate.h. */
enum { ZT_PACE_ROWS = 16, ZT_PACE_SIZES = 6, ZT_PACE_CLASSES = 8 };

typedef struct zt_draft_pace {
    double hits[ZT_PACE_CLASSES], tries[ZT_PACE_CLASSES]; /* drafted tokens by confidence: accepted, and all */
    double cost[ZT_PACE_SIZES];                           /* seconds of a step by rows, a mean */
    int measured[ZT_PACE_SIZES];                          /* steps that it is a mean of, at most a few */
    bool seen[ZT_PACE_SIZES];                             /* the first step of a size prepares, and is not measured */
    double token, read;                                   /* seconds of a drafted token, and of one that is read in a batch */
    int tokens, reads;                                    /* measured */
    double worth;                                         /* mean gain of a round, in steps of one row */
    int rounds, losing;                                   /* since drafting began; of them in a row with worth below 0 */
    int since_single;                                     /* rounds since a step of one row was measured */
    size_t wait;                                          /* tokens until the next trial, once drafting stops */
} zt_draft_pace;

void zt_pace_init(zt_draft_pace *pace);

/* Measurements: a step of the target, `count` drafted tokens, `count` tokens read in a batch. */
void zt_pace_took(zt_draft_pace *pace, size_t rows, double seconds);
void zt_pace_drafted(zt_draft_pace *pace, size_t count, double seconds);
void zt_pace_read(zt_draft_pace *pace, size_t count, double seconds);
/* A drafted token of this confidence (the margin of its logit over the second) was accepted or not. */
void zt_pace_scored(zt_draft_pace *pace, double margin, bool hit);
/* A round gave `tokens` and took so long, drafting included. */
void zt_pace_round(zt_draft_pace *pace, size_t tokens, double seconds);

/* Probability that a drafted token of this confidence is accepted, given that those before it were. */
double zt_pace_chance(const zt_draft_pace *pace, double margin);
/* Is the duration of a step of one row known? And is it time to measure it again? */
bool zt_pace_knows(const zt_draft_pace *pace);
bool zt_pace_is_stale(const zt_draft_pace *pace);
/* Tokens per step of one row, with drafts of the best length; 1: without drafts. */
double zt_pace_gain(const zt_draft_pace *pace);
/* Can drafts gain at all: is a drafted token so much cheaper than a step that they do where nearly all are accepted? Needs the
 * duration of a drafted token. */
bool zt_pace_may_gain(const zt_draft_pace *pace);
double zt_pace_most_gain(const zt_draft_pace *pace); /* tokens per step of one row, there */
/* Is another token worth its draft? chance[count]: probabilities of those drafted so far, each given those before it. */
bool zt_pace_goes_on(const zt_draft_pace *pace, const double *chance, size_t count);
/* How many of the drafted tokens to verify; 0: none. */
size_t zt_pace_best(const zt_draft_pace *pace, const double *chance, size_t count);
/* Has drafting cost more than it gave for some rounds? */
bool zt_pace_fails(const zt_draft_pace *pace);
/* Drafting stops, or begins. zt_pace_stop returns the number of tokens to wait until the next trial,
 * which reads so many. */
size_t zt_pace_stop(zt_draft_pace *pace, size_t reads);
void zt_pace_start(zt_draft_pace *pace);

#endif
