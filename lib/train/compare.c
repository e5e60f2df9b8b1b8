/* compare.c - owns the verdict on training methods: the best one, and a bootstrap over seeds. */
#include "lib/train/compare.h"
#include "lib/base/require.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 2000 };

#define TIE 1.0 /* per cent of accuracy */

static double loss_or_worst(double loss) { return isnan(loss) ? INFINITY : loss; }

int zt_best_method(const double *accuracy, const double *loss, int count)
{
    double highest = -INFINITY;
    int best = -1;
    if (!accuracy || !loss) return -1;
    for (int i = 0; i < count; i++)
        if (accuracy[i] > highest) highest = accuracy[i];
    for (int i = 0; i < count; i++) {
        bool near = isinf(highest) || accuracy[i] >= highest - TIE;
        if (near && (best < 0 || loss_or_worst(loss[i]) < loss_or_worst(loss[best]))) best = i;
    }
    return best;
}

typedef struct resampling {
    const double *accuracy, *loss; /* [methods][seeds] */
    int methods, seeds;
    double *mean_accuracy, *mean_loss; /* [methods] */
    int *drawn;                        /* [seeds] */
} resampling;

static double mean_of(const double *values, const int *drawn, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum += values[drawn[i]];
    return sum / count;
}

static int find_best(resampling *work)
{
    for (int method = 0; method < work->methods; method++) {
        work->mean_accuracy[method] = mean_of(work->accuracy + method * work->seeds, work->drawn, work->seeds);
        work->mean_loss[method] = mean_of(work->loss + method * work->seeds, work->drawn, work->seeds);
    }
    return zt_best_method(work->mean_accuracy, work->mean_loss, work->methods);
}

/* The best of the methods other than `best`. */
static int find_runner_up(const resampling *work, int best)
{
    double accuracy[2], loss[2];
    int other = -1;
    for (int method = 0; method < work->methods; method++) {
        if (method == best) continue;
        if (other >= 0) {
            accuracy[0] = work->mean_accuracy[other], accuracy[1] = work->mean_accuracy[method];
            loss[0] = work->mean_loss[other], loss[1] = work->mean_loss[method];
        }
        if (other < 0 || zt_best_method(accuracy, loss, 2) == 1) other = method;
    }
    return other;
}

static int compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void set_interval(zt_interval *interval, double *differences)
{
    qsort(differences, RESAMPLES, sizeof *differences, compare_numbers);
    interval->low = differences[(int)(0.025 * RESAMPLES)];
    interval->high = differences[(int)(0.975 * RESAMPLES) - 1];
}

static void resample(resampling *work, uint64_t seed, zt_method_verdict *verdict, double *probabilities, double *differences[2])
{
    int a = verdict->best, b = verdict->runner_up, times = 0;
    for (int round = 0; round < RESAMPLES; round++) {
        for (int i = 0; i < work->seeds; i++)
            work->drawn[i] = (int)((double)work->seeds * zt_uniform(seed, (uint64_t)round, (uint64_t)i));
        int best = find_best(work);
        times += best == a;
        if (probabilities) probabilities[best] += 1.0 / RESAMPLES;
        if (b < 0) continue;
        differences[0][round] = work->mean_accuracy[a] - work->mean_accuracy[b];
        differences[1][round] = work->mean_loss[a] - work->mean_loss[b];
    }
    verdict->probability = (double)times / RESAMPLES;
    if (b < 0) return;
    set_interval(&verdict->accuracy, differences[0]);
    set_interval(&verdict->loss, differences[1]);
}

zt_status zt_compare_methods(zt_ctx *ctx, const double *accuracy, const double *loss, int methods, int seeds, uint64_t seed,
                             zt_method_verdict *verdict, double *probabilities)
{
    ZT_REQUIRE(ctx, accuracy && loss && verdict && methods > 0 && seeds > 0, ZT_EUSAGE);
    resampling work = {.accuracy = accuracy, .loss = loss, .methods = methods, .seeds = seeds};
    const zt_interval unknown = {NAN, NAN, NAN};
    work.mean_accuracy = zt_calloc(ctx, 2 * (size_t)methods, sizeof *work.mean_accuracy);
    work.drawn = zt_calloc(ctx, (size_t)seeds, sizeof *work.drawn);
    double *room = zt_calloc(ctx, 2 * (size_t)RESAMPLES, sizeof *room), *differences[] = {room, room ? room + RESAMPLES : NULL};
    zt_status status = work.mean_accuracy && work.drawn && room ? ZT_OK : ZT_ENOMEM;
    if (!status) {
        work.mean_loss = work.mean_accuracy + methods;
        for (int i = 0; i < seeds; i++) work.drawn[i] = i;
        *verdict = (zt_method_verdict){.probability = NAN, .accuracy = unknown, .loss = unknown};
        verdict->best = find_best(&work);
        verdict->runner_up = find_runner_up(&work, verdict->best);
        if (verdict->runner_up >= 0) {
            verdict->accuracy.mean = work.mean_accuracy[verdict->best] - work.mean_accuracy[verdict->runner_up];
            verdict->loss.mean = work.mean_loss[verdict->best] - work.mean_loss[verdict->runner_up];
        }
        for (int method = 0; method < methods && probabilities; method++) probabilities[method] = seeds > 1 ? 0 : NAN;
        if (seeds > 1) resample(&work, seed, verdict, probabilities, differences);
    }
    zt_free(ctx, work.mean_accuracy);
    zt_free(ctx, work.drawn);
    zt_free(ctx, room);
    return status;
}
