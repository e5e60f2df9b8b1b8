/* grad_engines.c - every row's gradient program, all its small cases: on cpu as on ref, the same
 * bits for 1 to 8 threads; and every fused row beside what it is written as in simpler ones. On
 * cuda too, where there is one; `grad_engines cuda`, `grad_engines vulkan`: this device beside ref and one
 * thread of the cpu alone. */
#include "tests/ops/op_sample.h"

/* ---- on engines ------------------------------------------------------------------------------ */

/* ref, then cpu with 1 thread, 3, and 2 to 8 that are each given their part however little it is (a
 * traced replay goes step by step); and a device twice where there is one, which lends what it has no
 * kernel for to the cpu. */
enum { REF, ONE, THREE, FORCED, DEVICE = FORCED + 7, AGAIN, ENGINES };
static const char *device = "cuda";
static zt_engine *engines[ENGINES];

/* A program's inputs as bytes: the sample's by its case, cotangents by normal draws. */
static void *input_bytes(const sample *sample_run, const zt_prog *program, int i)
{
    int v = zt_prog_nth(program, ZT_VALUE_IN, i), k = 0;
    const zt_type *its_type = &zt_prog_value(program, v)->type;
    const zt_dtype_info *info = zt_dtype_get(its_type->dtype);
    char *data = calloc(1, zt_type_bytes(its_type) + 8);
    while (k < ZT_MAX_IN && sample_run->in[k] != v) k++;
    if (k < ZT_MAX_IN) {
        zt_case_fill(&sample_run->c, k, 1 + (uint64_t)sample_run->index, data);
        return data;
    }
    for (int64_t e = 0; e < zt_type_count(its_type); e++) {
        float x = (float)zt_normal(7, (uint64_t)i, (uint64_t)e);
        info->encode(&x, data + e * info->block_bytes, 1);
    }
    return data;
}

typedef struct outputs {
    int n;
    zt_type type[2 * ZT_MAX_IN];
    void *data[2 * ZT_MAX_IN];
} outputs;

static bool run_on(zt_engine *engine, const zt_prog *program, const void *const *in, outputs *o)
{
    zt_bound *bound = zt_prog_bind(program, NULL, 0);
    o->n = zt_prog_n_outputs(program);
    for (int i = 0; i < o->n && bound; i++) {
        o->type[i] = bound->type[zt_prog_output(program, i)->value];
        o->data[i] = calloc(1, zt_type_bytes(&o->type[i]) + 8);
    }
    zt_bound_free(bound);
    zt_session *session = zt_session_open(engine, program, NULL, NULL);
    bool good = session && zt_session_step(session, NULL, 0, in, o->data) == ZT_OK;
    zt_session_close(session);
    return good;
}

/* Normalised mean squared error; halves have been rounded on the way, and `rounds`: so has x. What
 * cancels is held to the size that cotangents of deviation 1 have. */
static bool values_near(const zt_type *type, const void *got, const void *want, bool rounds)
{
    double num = 0, den = 0;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    if (info->kind != 'F' || type->dtype == ZT_F64) return true;
    for (int64_t i = 0; i < zt_type_count(type); i++) {
        float a, b;
        info->decode((const char *)got + i * info->block_bytes, &a, 1);
        info->decode((const char *)want + i * info->block_bytes, &b, 1);
        if (a == b || (isnan(a) && isnan(b))) continue; /* the mean of nothing is NaN */
        num += ((double)a - b) * ((double)a - b);
        den += (double)b * b;
    }
    double most = type->dtype == ZT_F32 ? 1e-9 : type->dtype == ZT_F16 ? 1e-5 : 1e-3;
    if (rounds) most = fmax(most, 1e-5);
    return num <= most * fmax(den, 0.1 * (double)zt_type_count(type));
}

/* A gradient program gives on cpu what it gives on ref, and the same bits for any threads. */
static bool check_engines(const sample *sample_run)
{
    int wrt[ZT_MAX_IN], n = wanted(sample_run, zt_op_info(sample_run->op)->def, wrt);
    zt_prog *program = zt_prog_grad(sample_run->ctx, sample_run->p, wrt, n, &(zt_grad_opts){.seeds = true});
    if (!program) return report_failure(sample_run, "no gradient");
    void *in[2 * ZT_MAX_IN] = {0};
    outputs o[ENGINES] = {0};
    bool good = true;
    int n_in = zt_prog_count(program, ZT_VALUE_IN);
    for (int i = 0; i < n_in; i++) in[i] = input_bytes(sample_run, program, i);
    for (int e = 0; e < ENGINES && good; e++)
        good = !engines[e] || run_on(engines[e], program, (const void *const *)in, &o[e]) ||
               report_failure(sample_run, "does not run");
    for (int i = 0; i < o[REF].n && good; i++) {
        size_t bytes = zt_type_bytes(&o[ONE].type[i]);
        for (int e = THREE; e < DEVICE && good; e++)
            if (engines[e] && memcmp(o[ONE].data[i], o[e].data[i], bytes))
                good = report_failure(sample_run, "other bits with more threads than with 1");
        bool rounds = zt_op_info(sample_run->op)->def->weights != 0;
        if (good && !values_near(&o[REF].type[i], o[ONE].data[i], o[REF].data[i], rounds))
            good = report_failure(sample_run, "cpu differs from ref");
        if (!engines[DEVICE]) continue;
        if (good && memcmp(o[DEVICE].data[i], o[AGAIN].data[i], bytes))
            good = report_failure(sample_run, "the device gives other bits the second time");
        if (good && !values_near(&o[REF].type[i], o[DEVICE].data[i], o[REF].data[i], rounds))
            good = report_failure(sample_run, "the device differs from ref");
    }
    for (int e = 0; e < ENGINES; e++)
        for (int i = 0; i < o[e].n; i++) free(o[e].data[i]);
    for (int i = 0; i < n_in; i++) free(in[i]);
    zt_prog_free(program);
    return good;
}

static void check_on_engines(zt_ctx *ctx, zt_op op)
{
    bool good = true;
    int tried = 0;
    sample s;
    for (int i = 0; sample_open(&s, ctx, op, i); i++, sample_close(&s)) {
        if (!is_small(&s, zt_op_info(op)->def)) continue;
        good = check_engines(&s) && good;
        tried++;
    }
    ok(good && tried > 0, "%s: gradient on cpu%s%s as on ref, %d cases", zt_op_info(op)->name, engines[DEVICE] ? " and " : "",
       engines[DEVICE] ? device : "", tried);
}

/* ---- expansions ------------------------------------------------------------------------------ */

static double distance(const zt_arg *a, const zt_arg *b)
{
    double num = 0, den = 0;
    for (int64_t i = 0; i < zt_type_count(a->type); i++) {
        if (a->i && a->i[i] != b->i[i]) return INFINITY;
        if (!a->f) continue;
        num = fmax(num, fabs(a->f[i] - b->f[i]));
        den = fmax(den, fabs(b->f[i]));
    }
    return num == 0 ? 0 : num / den;
}

static bool check_expansion(const sample *sample_run)
{
    const zt_opinfo *info = zt_op_info(sample_run->op);
    int map[64], in[ZT_MAX_IN], out[ZT_MAX_OUT] = {0};
    for (int k = 0; k < ZT_MAX_OUT; k++) out[k] = ZT_NONE;
    zt_prog *program = zt_prog_like(sample_run->p, map);
    zt_builder *b = zt_builder_new(program, NULL, 0);
    f64run one, many;
    bool good = true;
    for (int k = 0; k < info->n_in; k++) in[k] = sample_run->in[k] < 0 ? ZT_NONE : map[sample_run->in[k]];
    info->def->expand(zt_builder_emit(b), sample_run->c.attrs, in, out);
    zt_builder_free(b);
    if (zt_ctx_status(sample_run->ctx) || !f64run_open(&many, program)) {
        zt_prog_free(program);
        return report_failure(sample_run, "the expansion");
    }
    f64run_open(&one, sample_run->p);
    fill_inputs(sample_run, &one);
    fill_inputs(sample_run, &many);
    f64run_go(&one);
    f64run_go(&many);
    for (int k = 0; k < info->n_out; k++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", k);
        const zt_arg *want = f64run_out(&one, name); /* NULL: the case lacks it */
        if (out[k] == ZT_NONE || !want) continue;
        const zt_arg *got = &many.arg[out[k]];
        if (!zt_type_equal(got->type, want->type))
            good = report_failure(sample_run, "the expansion is of another type");
        else if (!(distance(got, want) <= 1e-12))
            good = report_failure(sample_run, "the expansion differs");
    }
    f64run_close(&one);
    f64run_close(&many);
    zt_prog_free(program);
    return good;
}

static void check_expansions(zt_ctx *ctx, zt_op op)
{
    bool good = true;
    int tried = 0;
    sample s;
    for (int i = 0; sample_open(&s, ctx, op, i); i++, sample_close(&s), tried++) good = check_expansion(&s) && good;
    ok(good && tried > 0, "%s: expansion of %d cases", zt_op_info(op)->name, tried);
}

static void nothing(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    (void)user, (void)plan, (void)step, (void)seconds;
}

static void open_engines(zt_ctx *ctx, bool threads)
{
    zt_engine_opts opts = {.threads = 1, .isa = zt_isa_best()};
    engines[REF] = zt_engine_open(ctx, "ref", &(zt_engine_opts){0});
    engines[ONE] = zt_engine_open(ctx, "cpu", &opts);
    opts.threads = 3;
    if (threads) engines[THREE] = zt_engine_open(ctx, "cpu", &opts);
    for (int e = FORCED; e < DEVICE && threads; e++) {
        opts.threads = e - FORCED + 2;
        engines[e] = zt_engine_trace(zt_engine_open(ctx, "cpu", &opts), nothing, NULL);
    }
    for (int e = DEVICE; e < ENGINES; e++) engines[e] = zt_engine_open(ctx, device, &opts);
    if (!engines[DEVICE]) skip("%s: %s", device, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

int main(int argc, char **argv)
{
    zt_ctx *ctx = zt_ctx_new();
    if (argc > 1) device = argv[1];
    open_engines(ctx, argc < 2);
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        const zt_opdef *def = zt_op_info((zt_op)op)->def;
        if (zt_op_has_gradient((zt_op)op)) check_on_engines(ctx, (zt_op)op);
        if (def->expand && !def->donates) check_expansions(ctx, (zt_op)op);
    }
    for (int e = 0; e < ENGINES; e++) zt_engine_close(engines[e]);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
