/* conformance_trial.h - for conformance.c: the engines that are tried, and one case of an op, which they run into
 * memory with a guard behind. */
#ifndef ZT_TEST_CONFORMANCE_TRIAL_H
#define ZT_TEST_CONFORMANCE_TRIAL_H

#include "tests/common/one_op.h"
#include "tests/common/tap.h"

enum {
    GUARD = 64,
    THREADS = 8,
    RETYPED = 20000, /* elements of a case that is tried in other dtypes as well */
    MAX_SETUPS = 1 + 2 * ZT_ISA_COUNT + THREADS + 4
};

/* ---- engines tried --------------------------------------------------------------------------- */

enum { ON_CPU, ON_VULKAN, ON_CUDA, ON_HIP, ON_OPENCL, N_COLUMNS }; /* of the matrix */
static const char *const columns[N_COLUMNS] = {"cpu", "vulkan", "cuda", "hip", "opencl"};

typedef struct setup {
    char name[32];
    zt_engine *engine;
    int column;
    zt_isa isa;        /* of the cpu */
    int threads, twin; /* twin: the same with 1 thread, or with scalar instructions, whose bits must be met; -1: none */
    bool forced;       /* every thread gets its part, even of little work */
} setup;

static setup setups[MAX_SETUPS];
static int n_setups, cpu_setup; /* cpu_setup: the best instructions, 1 thread */
static bool strict_setups;      /* engines are opened with strict_bits */

static void add_setup(zt_ctx *ctx, const char *engine, zt_isa isa, int threads, int twin, bool forced)
{
    setup *options = &setups[n_setups++];
    zt_engine_opts opts = {.threads = threads, .isa = isa, .strict_bits = strict_setups};
    options->engine = zt_engine_open(ctx, engine, &opts);
    options->isa = isa;
    options->threads = threads;
    options->twin = twin;
    options->forced = forced;
    bool ref = strcmp(engine, "ref") == 0;
    snprintf(options->name, sizeof options->name, "%s%s%s", engine, ref ? "" : "-", ref ? "" : zt_isa_name(isa));
    ok(options->engine != NULL, "open %s with %d threads", options->name, threads);
}

/* Twice, so that a second run must give the same bits; on one engine, so that kernels are compiled once. */
static void add_device(zt_ctx *ctx, int column)
{
    zt_engine_opts opts = {.isa = zt_isa_best()};
    zt_engine *e = zt_engine_open(ctx, columns[column], &opts);
    if (!e) {
        skip("%s: %s", columns[column], zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        return;
    }
    for (int twice = 0; twice < 2; twice++) {
        setups[n_setups] = (setup){.engine = e, .column = column, .threads = 1, .twin = twice ? n_setups - 1 : -1};
        snprintf(setups[n_setups].name, sizeof setups[0].name, "%s", columns[column]);
        n_setups++;
    }
}

/* Is it a device's second entry, with the engine of the first? */
static bool is_second_run(const setup *options) { return options->column != ON_CPU && options->twin >= 0; }

static void add_setups(zt_ctx *ctx, const char *only)
{
    add_setup(ctx, "ref", ZT_ISA_SCALAR, 1, -1, false);
    const int scalar = n_setups; /* whose bits other instruction sets have too */
    for (int isa = 0; isa <= (int)zt_isa_best() && (!only || !strcmp(only, "cpu")); isa++) {
        if (!zt_isa_has((zt_isa)isa)) continue;
        int one = n_setups;
        bool best = isa == (int)zt_isa_best();
        add_setup(ctx, "cpu", (zt_isa)isa, 1, isa == ZT_ISA_SCALAR ? -1 : scalar, false);
        cpu_setup = one;
        add_setup(ctx, "cpu", (zt_isa)isa, 3, one, false);
        for (int threads = 2; best && threads <= THREADS; threads++) add_setup(ctx, "cpu", (zt_isa)isa, threads, one, true);
    }
    if (only && !strcmp(only, columns[ON_VULKAN])) {
        cpu_setup = n_setups;
        add_setup(ctx, "cpu", zt_isa_best(), 1, -1, false);
    }
    /* hip has cuda's rows and kernels, and opencl is tests/engine/opencl.bats': they are tried where they are named. */
    for (int column = ON_VULKAN; column < N_COLUMNS; column++)
        if (only ? !strcmp(only, columns[column]) : column < ON_HIP) add_device(ctx, column);
}

/* ---- one case -------------------------------------------------------------------------------- */

typedef struct trial {
    zt_ctx *ctx;
    zt_case c;
    oneop o;
    int index;
    bool retyped; /* in another dtype than the case has */
    bool skip;    /* the op does not take it in this dtype */
    void *data[ZT_MAX_IN];
    void *want[ZT_MAX_OUT];
    void *got[MAX_SETUPS][ZT_MAX_OUT];
} trial;

static const char *trial_text(const trial *tried, char *buf, size_t count)
{
    char type[ZT_TYPE_TEXT];
    size_t at = (size_t)snprintf(buf, count, "%s case %d (", zt_op_info(tried->o.op)->name, tried->index);
    for (int k = 0; k < ZT_MAX_IN && at < count; k++)
        if (tried->o.in[k])
            at += (size_t)snprintf(buf + at, count - at, "%s%s", k ? " " : "", zt_type_text(tried->o.in[k], type));
    if (at < count) snprintf(buf + at, count - at, ")");
    return buf;
}

static bool fails(const trial *t, const char *engine, const char *what)
{
    char buf[512];
    diag("%s: %s: %s%s%s", engine, trial_text(t, buf, sizeof buf), what, zt_ctx_status(t->ctx) ? ": " : "", zt_ctx_error(t->ctx));
    zt_ctx_clear(t->ctx);
    return false;
}

/* Room for the outputs, full of bytes that no engine writes by chance, with a guard behind. */
static void new_results(zt_ctx *ctx, const zt_opinfo *info, const zt_type *out, void **result)
{
    for (int k = 0; k < info->n_out; k++) {
        size_t bytes = zt_type_bytes(&out[k]) + GUARD;
        result[k] = zt_alloc(ctx, bytes);
        memset(result[k], 0xA5, bytes);
    }
}

static bool guards_whole(const zt_opinfo *info, const zt_type *out, void *const *result)
{
    for (int k = 0; k < info->n_out; k++)
        for (int i = 0; i < GUARD; i++)
            if (((unsigned char *)result[k])[zt_type_bytes(&out[k]) + (size_t)i] != 0xA5) return false;
    return true;
}

/* Case i with its f32 inputs in another dtype, where the op takes that: every case in f64, f16 and
 * bf16, without a word about it in the rows. */
static bool is_another(const trial *tried)
{
    int64_t count = 0;
    zt_type out[ZT_MAX_OUT];
    const zt_type *in[ZT_MAX_IN] = {0};
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (tried->c.fill[k] == ZT_FILL_ABSENT) continue;
        in[k] = &tried->c.in[k];
        count += zt_type_count(in[k]);
    }
    return count <= RETYPED && !zt_op_infer(NULL, tried->o.op, tried->c.attrs, in, out);
}

static bool trial_open(trial *t, zt_ctx *ctx, zt_op op, int i, zt_dtype as)
{
    const zt_opinfo *info = zt_op_info(op);
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->index = i;
    t->o = (oneop){.op = op, .attrs = t->c.attrs};
    if (!zt_op_case(op, i, &t->c)) return false;
    t->retyped = as != ZT_F32;
    t->skip = t->retyped && (!retyped(&t->c, as) || !is_another(t));
    for (int k = 0; k < info->n_in && !t->skip; k++) {
        if (t->c.fill[k] == ZT_FILL_ABSENT) continue;
        t->o.in[k] = &t->c.in[k];
        t->data[k] = zt_alloc(ctx, zt_type_bytes(&t->c.in[k]));
        zt_case_fill(&t->c, k, 1 + (uint64_t)i, t->data[k]);
        t->o.data[k] = t->data[k];
    }
    return true;
}

static void trial_close(trial *t)
{
    for (int k = 0; k < ZT_MAX_IN; k++) zt_free(t->ctx, t->data[k]);
    for (int k = 0; k < ZT_MAX_OUT; k++) {
        zt_free(t->ctx, t->want[k]);
        for (int s = 0; s < n_setups; s++) zt_free(t->ctx, t->got[s][k]);
    }
}

/* A watched replay hands out the items of every step, however little work they are. */
static zt_watch step_by_step;

static bool run_into(trial *tried, const setup *options, void **result)
{
    new_results(tried->ctx, zt_op_info(tried->o.op), tried->o.out, result);
    memcpy(tried->o.result, result, sizeof tried->o.result);
    tried->o.watch = options->forced ? &step_by_step : NULL;
    if (oneop_run(options->engine, &tried->o)) return fails(tried, options->name, "does not run");
    if (!guards_whole(zt_op_info(tried->o.op), tried->o.out, result))
        return fails(tried, options->name, "writes past its output");
    return true;
}

static bool same_bits(const trial *t, void *const *a, void *const *b)
{
    for (int k = 0; k < zt_op_info(t->o.op)->n_out; k++)
        if (memcmp(a[k], b[k], zt_type_bytes(&t->o.out[k]))) return false;
    return true;
}

#endif
