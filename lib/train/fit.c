/* fit.c - owns the loop over epochs and batches, and the schedule of the learning rate. */
#include "lib/train/fit.h"

#include <math.h>
#include <string.h>

/* ---- the learning rate ----------------------------------------------------------------------- */

static double constant(double x) { return (void)x, 1; }
static double linear(double x) { return 1 - x; }
static double cosine(double x) { return 0.5 * (1 + cos(3.14159265358979323846 * x)); }

static const zt_schedule schedules[] = {
    {"constant", constant}, {"linear", linear}, {"cosine", cosine}};

const zt_schedule *zt_schedule_at(int i)
{
    return i >= 0 && i < (int)(sizeof schedules / sizeof *schedules) ? &schedules[i] : NULL;
}

const zt_schedule *zt_schedule_named(const char *name)
{
    for (int i = 0; zt_schedule_at(i); i++)
        if (!strcmp(schedules[i].name, name)) return &schedules[i];
    return NULL;
}

double zt_rate_at(const zt_rate *r, uint64_t step)
{
    if (step < r->warmup) return r->lr * (double)(step + 1) / (double)r->warmup;
    uint64_t all = r->steps > r->warmup ? r->steps - r->warmup : 1;
    double x = fmin((double)(step - r->warmup) / (double)all, 1);
    return r->least + (r->lr - r->least) * r->schedule->falls(x);
}

/* ---- a run ----------------------------------------------------------------------------------- */

zt_fit_state zt_fit_begin(void) { return (zt_fit_state){.best = INFINITY}; }

typedef struct fit {
    zt_ctx *ctx;
    zt_trainer *t;
    const zt_batches *data;
    const zt_fit_opts *o;
    zt_fit_state *p;
    double lr;
} fit;

static zt_status take_step(fit *f)
{
    const void *in[ZT_FIT_INPUTS];
    zt_binding b[ZT_MAX_SYMBOLS];
    int n = 0;
    zt_fit_step is = {.lr = zt_rate_at(&f->o->rate, f->p->steps)};
    double began = zt_seconds();
    zt_fit_state *p = f->p;
    zt_status s = f->data->get(f->data->user, p->epochs, (int64_t)p->batch, in, b, &n, &is.samples);
    f->lr = is.lr;
    if (!s) s = zt_trainer_step(f->t, b, n, in, is.lr, f->o->out, &is.got);
    if (s) return s;
    p->batch++;
    p->steps++;
    p->samples += (double)is.samples;
    p->loss += is.got.loss * (double)is.samples;
    p->norm += is.got.grad_norm;
    p->seconds += zt_seconds() - began;
    return f->o->step ? f->o->step(f->o->user, p, &is) : ZT_OK;
}

static zt_status save(const fit *f) { return f->o->save ? f->o->save(f->o->user, f->p) : ZT_OK; }

/* Steps to the end of the epoch. */
static zt_status take_epoch(fit *f)
{
    const zt_fit_opts *o = f->o;
    zt_status s = ZT_OK;
    while (f->p->batch < (uint64_t)f->data->per_epoch && !s) {
        s = take_step(f);
        if (s) return s;
        bool last = f->p->batch == (uint64_t)f->data->per_epoch;
        if (o->stop && o->stop())
            return (s = save(f)) ? s : zt_fail(f->ctx, ZT_EINTR, "interrupted");
        if (!last && o->save_every && f->p->steps % o->save_every == 0) s = save(f);
    }
    return s;
}

/* The epoch's figures, and the next one's beginning. */
static zt_status end_epoch(fit *f)
{
    zt_fit_state *p = f->p;
    zt_epoch e = {.epoch = p->epochs + 1, .steps = p->steps, .lr = f->lr, .seconds = p->seconds,
                  .samples = p->samples, .loss = p->loss / p->samples,
                  .grad_norm = p->norm / (double)p->batch, .valid = NAN};
    zt_status s = f->o->validate ? f->o->validate(f->o->user, &e.valid) : ZT_OK;
    if (s) return s;
    double judged = f->o->validate ? e.valid : e.loss;
    p->stale = judged < p->best ? 0 : p->stale + 1;
    if (judged < p->best) p->best = judged;
    p->epochs++;
    p->batch = 0;
    p->loss = p->norm = p->samples = p->seconds = 0;
    s = f->o->epoch ? f->o->epoch(f->o->user, &e) : ZT_OK;
    return s ? s : save(f);
}

zt_status zt_fit(zt_trainer *t, const zt_batches *data, const zt_fit_opts *o, zt_fit_state *p)
{
    zt_ctx *ctx = zt_trainer_ctx(t);
    fit f = {.ctx = ctx, .t = t, .data = data, .o = o, .p = p};
    if (data->per_epoch < 1) return zt_fail(ctx, ZT_EDATA, "there are no samples to train on");
    f.lr = zt_rate_at(&o->rate, p->steps ? p->steps - 1 : 0);
    zt_status s = ZT_OK;
    while (p->epochs < o->epochs && !(o->patience && p->stale >= o->patience) && !s) {
        s = take_epoch(&f);
        if (!s) s = end_epoch(&f);
    }
    return s;
}
