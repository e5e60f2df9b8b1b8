/* parallel_steps.c - the cpu engine runs steps side by side where they do not disturb each other: random
 * plans whose values share an arena give the same bits step by step on one thread and at once on
 * several.
 */
#include "lib/engine/engine.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 7, ROWS = 48, COLUMNS = 64, STEPS = 40, FEW = 4, PLANS = 25, VALUES = 4 * STEPS };

static uint64_t draws;

static int draw(int below)
{
    uint32_t w[4];
    zt_philox(11, 0, draws++, w);
    return (int)(w[0] % (uint32_t)below);
}

static zt_status read_weight(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)handle;
    memcpy(dst, (const char *)user + offset, n);
    return ZT_OK;
}

/* A plan: values 0..SLOTS-1 are inputs, then each step makes one, in a slot of the arena, and at
 * the end every slot is written out. A slot has ROWS rows; a short value is FEW rows of one. */
typedef struct random_plan {
    zt_run_schedule plan;
    zt_type type[VALUES];
    zt_place place[VALUES];
    zt_step step[STEPS];
    zt_scale_attrs half;
    zt_linear_attrs q8;
    zt_ebuf *weight;
} random_plan;

static zt_type matrix(int64_t rows) { return zt_type_make(ZT_F32, 2, (int64_t[]){rows, COLUMNS}); }

static int new_value(random_plan *p, int64_t rows, zt_place place)
{
    int v = p->plan.n_values++;
    p->type[v] = matrix(rows);
    p->place[v] = place;
    return v;
}

static zt_place in_slot(int slot, int row)
{
    return (zt_place){.kind = ZT_PLACE_ARENA, .offset = ((size_t)slot * ROWS + (size_t)row) * COLUMNS * sizeof(float)};
}

static void add_step(random_plan *p, zt_op op, const void *attrs, int a, int b, int y)
{
    zt_step *s = &p->step[p->plan.n_steps++];
    *s = (zt_step){.op = op, .attrs = attrs};
    for (int k = 0; k < ZT_MAX_IN; k++) s->in[k] = ZT_NONE;
    for (int k = 0; k < ZT_MAX_OUT; k++) s->out[k] = ZT_NONE;
    s->in[0] = a;
    s->in[1] = b;
    s->out[0] = y;
}

/* A value of that many rows to read: a part of what a slot holds. */
static int operand(random_plan *p, int slot, int64_t rows)
{
    int64_t spare = ROWS - rows;
    return new_value(p, rows, in_slot(slot, spare ? draw((int)spare + 1) : 0));
}

static void random_step(random_plan *p)
{
    int64_t rows = draw(2) ? ROWS : FEW;
    int a = draw(SLOTS), b = draw(SLOTS), y = draw(SLOTS), kind = draw(4);
    zt_op op = kind == 0 ? ZT_OP_add : kind == 1 ? ZT_OP_scale : kind == 2 ? ZT_OP_linear : ZT_OP_swiglu;
    if (y == a || y == b) y = (a + 1) % SLOTS == b ? (a + 2) % SLOTS : (a + 1) % SLOTS;
    int weight = SLOTS;
    int va = operand(p, a, rows);
    int vb = op == ZT_OP_scale ? ZT_NONE : op == ZT_OP_linear ? weight : operand(p, b, rows);
    add_step(p, op,
             op == ZT_OP_scale    ? (void *)&p->half
             : op == ZT_OP_linear ? (void *)&p->q8
                                  : NULL,
             va, vb, operand(p, y, rows));
}

static void make_plan(random_plan *p, zt_ebuf *weight)
{
    memset(p, 0, sizeof *p);
    p->half = (zt_scale_attrs){.by = 0.75};
    p->q8 = zt_linear_defaults();
    strcpy(p->q8.act.s, "q8");
    p->weight = weight;
    for (int i = 0; i < SLOTS; i++) new_value(p, ROWS, (zt_place){.kind = ZT_PLACE_IN, .index = i});
    int w = new_value(p, COLUMNS, (zt_place){.kind = ZT_PLACE_BUF});
    p->type[w].dtype = ZT_Q8_0;
    for (int i = 0; i < SLOTS; i++) add_step(p, ZT_OP_scale, &p->half, i, ZT_NONE, new_value(p, ROWS, in_slot(i, 0)));
    for (int i = 0; i < STEPS - 2 * SLOTS; i++) random_step(p);
    for (int i = 0; i < SLOTS; i++)
        add_step(p, ZT_OP_scale, &p->half, new_value(p, ROWS, in_slot(i, 0)), ZT_NONE,
                 new_value(p, ROWS, (zt_place){.kind = ZT_PLACE_OUT, .index = i}));
    p->plan.type = p->type;
    p->plan.place = p->place;
    p->plan.step = p->step;
    p->plan.n_in = p->plan.n_out = SLOTS;
    p->plan.n_bufs = 1;
    p->plan.buf = &p->weight;
    p->plan.arena_bytes = (size_t)SLOTS * ROWS * COLUMNS * sizeof(float);
}

static bool run_plan(zt_engine *e, const zt_run_schedule *plan, float *const *in, float *const *out, const zt_watch *watch)
{
    zt_executable *r = e->vt->prepare(e, plan);
    bool fine = r && e->vt->replay(e, r, (const void *const *)in, (void *const *)out, watch) == ZT_OK;
    if (r) e->vt->unprepare(e, r);
    return fine;
}

enum { FLOATS = ROWS * COLUMNS, ENGINES = 3 };

/* Spans of a whole replay: each of a step, on a thread that there is, in a time that was. */
typedef struct spans {
    int n, threads;
    bool step[STEPS], sound, several; /* several threads did something */
    double start;
} spans;

static void on_span(void *user, const zt_run_schedule *plan, const zt_span *span)
{
    spans *s = user;
    s->n++;
    s->sound = s->sound && span->step >= 0 && span->step < plan->n_steps && span->track >= 0 && span->track < s->threads &&
               span->begin >= s->start && span->end >= span->begin && span->end <= zt_seconds();
    s->several = s->several || span->track > 0;
    if (s->sound) s->step[span->step] = true;
}

static bool all_told(const spans *s, const zt_run_schedule *plan)
{
    for (int i = 0; i < plan->n_steps; i++)
        if (!s->step[i]) return false;
    return s->sound && s->n >= plan->n_steps;
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_watch step_by_step = {0};
    zt_type wt = zt_type_make(ZT_Q8_0, 2, (int64_t[]){COLUMNS, COLUMNS});
    uint8_t file[COLUMNS * COLUMNS / 32 * 34];
    for (size_t i = 0; i < sizeof file; i++) file[i] = (uint8_t)(i % 34 == 1 ? 0x1c : draw(256));
    zt_store store = {.user = file, .read = read_weight};
    float *in[SLOTS], *want[SLOTS], *got[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        in[i] = malloc(FLOATS * sizeof(float));
        want[i] = malloc(FLOATS * sizeof(float));
        got[i] = malloc(FLOATS * sizeof(float));
        for (int k = 0; k < FLOATS; k++) in[i][k] = (float)(draw(2001) - 1000) * 1e-3f;
    }
    zt_engine *engine[ENGINES];
    zt_ebuf *w[ENGINES];
    for (int i = 0; i < ENGINES; i++) {
        engine[i] = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = i + 1, .isa = zt_isa_best()});
        w[i] = engine[i]->vt->load(engine[i], &wt, &store, 0);
    }
    static random_plan p;
    bool told = true, several = false;
    for (int n = 0; n < PLANS; n++) {
        make_plan(&p, w[0]);
        bool fine = run_plan(engine[0], &p.plan, in, want, &step_by_step), same = true;
        for (int i = 0; i < ENGINES && fine; i++) {
            p.weight = w[i];
            fine = run_plan(engine[i], &p.plan, in, got, NULL);
            for (int s = 0; s < SLOTS; s++) same = same && !memcmp(want[s], got[s], FLOATS * sizeof(float));
            spans seen = {.threads = i + 1, .sound = true, .start = zt_seconds()};
            zt_watch timed = {.span = on_span, .user = &seen};
            fine = fine && run_plan(engine[i], &p.plan, in, got, &timed);
            told = told && all_told(&seen, &p.plan);
            several = several || seen.several;
            for (int s = 0; s < SLOTS; s++) same = same && !memcmp(want[s], got[s], FLOATS * sizeof(float));
        }
        ok(fine && same, "plan %d: the same bits step by step and at once, by 1, 2 and 3 threads", n);
    }
    ok(told, "with times, at once: every step is told, on a thread, within the replay");
    ok(several, "by more than one thread");
    for (int i = 0; i < ENGINES; i++) {
        engine[i]->vt->free(engine[i], w[i]);
        zt_engine_close(engine[i]);
    }
    for (int i = 0; i < SLOTS; i++) free(in[i]), free(want[i]), free(got[i]);
    if (zt_ctx_status(ctx)) diag("%s", zt_ctx_error(ctx));
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
