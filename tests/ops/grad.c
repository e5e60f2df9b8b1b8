/* grad.c - gradients: every row with a vjp or an expansion, all its small cases, against central
 * differences of the reference loops in f64; second gradients; what the pass refuses. */
#include "lib/run/run.h"
#include "tests/ops/op_sample.h"

#include <math.h>

enum { COORDINATES = 40, LARGE = 300, FEW = 10 };

static const double tolerance = 1e-6; /* of the largest entry of the gradient */

/* ---- central differences --------------------------------------------------------------------- */

/* The output that a gradient is of; NULL: all with a cotangent d.y among the inputs. */
static const char *only;

/* The cotangent d.y of an output, among the inputs; -1: it has none, or `only` is another. */
static int cotangent(const zt_prog *p, const zt_output *out)
{
    char name[80];
    if (only && strcmp(only, out->name)) return -1;
    snprintf(name, sizeof name, "d.%s", out->name);
    int d = zt_prog_find(p, name);
    return d >= 0 && zt_prog_value(p, d)->kind == ZT_VALUE_IN ? d : -1;
}

/* Steps up to the last that makes an output with a cotangent: what a slope needs. */
static int steps_of(const zt_prog *program)
{
    int n = 0;
    for (int o = 0; o < zt_prog_n_outputs(program); o++) {
        const zt_value *v = zt_prog_value(program, zt_prog_output(program, o)->value);
        if (v->kind == ZT_VALUE_OP && cotangent(program, zt_prog_output(program, o)) >= 0 && v->index >= n) n = v->index + 1;
    }
    return n;
}

/* The sum of outputs y times their cotangents d.y, in a run of the gradient program's first count
 * steps. */
static double weighed(f64run *r, int count)
{
    double sum = 0;
    f64run_steps(r, count);
    for (int o = 0; o < zt_prog_n_outputs(r->p); o++) {
        const zt_output *out = zt_prog_output(r->p, o);
        int d = cotangent(r->p, out);
        if (d < 0) continue;
        const zt_arg *y = &r->arg[out->value], *dy = &r->arg[d];
        for (int64_t i = 0; i < zt_type_count(y->type); i++)
            if (!isinf(y->f[i])) sum += y->f[i] * dy->f[i]; /* the logarithm of nothing stays so */
    }
    return sum;
}

/* (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h */
static double slope(f64run *r, double *x, double h)
{
    static const double at[] = {1, -1, 2, -2}, by[] = {8, -8, -1, 1};
    double was = *x, sum = 0;
    int count = steps_of(r->p);
    for (int i = 0; i < 4; i++) {
        *x = was + at[i] * h;
        sum += by[i] * weighed(r, count);
    }
    *x = was;
    return sum / (12 * h);
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* Is dx the slope at COORDINATES entries of x, FEW where it is large? Where a kink is within 2h, a
 * smaller h decides. */
static bool is_gradient(f64run *r, zt_arg *x, const double *dx, double *worst)
{
    int64_t count = zt_type_count(x->type), step = count / (count > LARGE ? FEW : COORDINATES) + 1;
    double scale = fmax(largest(dx, count), 1e-2);
    for (int64_t i = 0; i < count; i += step) {
        double error = INFINITY;
        for (double h = 1e-3; h > 1e-7 && !(error <= tolerance); h /= 30)
            error = fmin(error, fabs(slope(r, &x->f[i], h) - dx[i]) / scale);
        *worst = fmax(*worst, error);
        if (!(error <= tolerance)) {
            diag("entry %lld: gradient %.12g, slope %.12g", (long long)i, dx[i], slope(r, &x->f[i], 1e-4));
            return false;
        }
    }
    return true;
}

/* Every input's gradient of a gradient program. */
static bool check_program(const sample *sample_run, const zt_prog *program, const int *wrt, int total, const char *prefix,
                          double *worst)
{
    f64run r;
    bool good = f64run_open(&r, program);
    if (!good) return false;
    fill_inputs(sample_run, &r);
    f64run_go(&r);
    double *dx[ZT_MAX_IN] = {0};
    for (int i = 0; i < total && good; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", prefix, zt_prog_value(program, wrt[i])->name);
        const zt_arg *d = f64run_out(&r, name);
        int64_t count = d ? zt_type_count(d->type) : 0;
        good = d && zt_type_equal(d->type, r.arg[wrt[i]].type);
        dx[i] = malloc((size_t)count * sizeof(double) + 8);
        for (int64_t e = 0; e < count && good; e++) {
            dx[i][e] = d->f[e];
            good = isfinite(d->f[e]);
        }
    }
    for (int i = 0; i < total && good; i++) good = is_gradient(&r, &r.arg[wrt[i]], dx[i], worst);
    for (int i = 0; i < total; i++) free(dx[i]);
    f64run_close(&r);
    return good;
}

/* The gradient of output `first` (NULL: of all), and the gradient of the gradient (which an op on
 * the way may not have). */
static bool check_outputs(const sample *sample_run, const char *first, double *worst, int *seconds)
{
    const zt_opdef *def = zt_op_info(sample_run->op)->def;
    int wrt[ZT_MAX_IN], n = wanted(sample_run, def, wrt);
    zt_prog *program =
        zt_prog_grad(sample_run->ctx, sample_run->p, wrt, n, &(zt_grad_opts){.of = &first, .n_of = first != NULL, .seeds = true});
    if (!program) return report_failure(sample_run, "no gradient");
    bool good = check_program(sample_run, program, wrt, n, "d.", worst) || report_failure(sample_run, "not the slope");
    if (good && n > 0) {
        char name[32];
        snprintf(name, sizeof name, "d.%s", zt_prog_value(sample_run->p, wrt[0])->name);
        const char *of[] = {name};
        zt_prog *gg = zt_prog_grad(sample_run->ctx, program, wrt, n, &(zt_grad_opts){.of = of, .n_of = 1, .seeds = true});
        if (gg) {
            double unused = 0;
            only = name;
            good = check_program(sample_run, gg, wrt, n, "d.d.", &unused) || report_failure(sample_run, "second gradient");
            only = NULL;
            ++*seconds;
        } else if (zt_ctx_status(sample_run->ctx) != ZT_ENOTSUP) {
            good = report_failure(sample_run, "second gradient");
        }
        zt_ctx_clear(sample_run->ctx);
        zt_prog_free(gg);
    }
    zt_prog_free(program);
    return good;
}

/* A gradient may go another way where what is kept for it has a cotangent too. */
static bool check_sample(const sample *s, double *worst, int *seconds)
{
    return check_outputs(s, NULL, worst, seconds) && (zt_prog_n_outputs(s->p) < 2 || check_outputs(s, "y0", worst, seconds));
}

static void check_row(zt_ctx *ctx, zt_op op)
{
    const zt_opinfo *info = zt_op_info(op);
    int tried = 0, seconds = 0;
    double worst = 0;
    bool good = true;
    sample s;
    for (int i = 0; sample_open(&s, ctx, op, i); i++, sample_close(&s)) {
        if (!is_small(&s, info->def)) continue;
        tried++;
        good = check_sample(&s, &worst, &seconds) && good;
    }
    ok(good && tried > 0, "%s: gradient of %d cases within %.1e, second gradient of %d", info->name, tried, worst, seconds);
}

/* ---- programs -------------------------------------------------------------------------------- */

static bool prints(const zt_prog *program, zt_ctx *ctx, const char *part)
{
    zt_str text;
    zt_str_init(&text, ctx);
    bool found = program && zt_prog_print(program, &text) == ZT_OK && strstr(text.data, part);
    if (!found && program) diag("%s", text.data);
    zt_str_fini(&text);
    return found;
}

static zt_prog *parse(zt_ctx *ctx, const char *text) { return zt_prog_parse(ctx, "test", text, strlen(text)); }

static void symbols_stay(zt_ctx *ctx)
{
    static const char text[] = "zt program 1\nin    x: f32[n,4]\nin    w: f32[n+1,4]\n"
                               "in    b: f32[4]\nh = linear x w\ny = mul h h\nz = add x b\n"
                               "out   y = y\nout   z = z\n";
    const zt_binding three[] = {{"n", 3}};
    zt_prog *graph = parse(ctx, text);
    int wrt[] = {zt_prog_find(graph, "x"), zt_prog_find(graph, "w"), zt_prog_find(graph, "b")};
    zt_prog *program = zt_prog_grad(ctx, graph, wrt, 3, &(zt_grad_opts){.sample = three, .n_sample = 1});
    ok(program && prints(program, ctx, "in    w: f32[n+1,4]") && prints(program, ctx, "out   d.b = "),
       "a gradient has the symbols of its program: %s", zt_ctx_error(ctx));
    zt_bound *bound = program ? zt_prog_bind(program, (zt_binding[]){{"n", 7}}, 1) : NULL;
    ok(bound != NULL, "and binds to other numbers than the sample's");
    zt_bound_free(bound);
    zt_prog_free(program);
    program = zt_prog_grad(ctx, graph, wrt, 3, NULL);
    ok(!program && strstr(zt_ctx_error(ctx), "no sample value for symbol 'n'"), "a sample is needed");
    zt_ctx_clear(ctx);
    zt_prog_free(graph);
}

static void refusal(zt_ctx *ctx, const char *text, const char *wrt, zt_status status, const char *words)
{
    zt_prog *graph = parse(ctx, text);
    int v = graph ? zt_prog_find(graph, wrt) : -1;
    zt_prog *program = graph ? zt_prog_grad(ctx, graph, &v, 1, NULL) : NULL;
    if (!ok(graph && !program && zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), words), "refused: %s", words))
        diag("%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_prog_free(program);
    zt_prog_free(graph);
}

static void refusals(zt_ctx *ctx)
{
    refusal(ctx,
            "zt program 1\nin    x: f32[2,4]\nin    p: i32[2]\nstate c: f32[8,4]\n"
            "c1 = kv_put c x p\ny = add x x\nkeep  c = c1\nout   y = y\n",
            "x", ZT_ENOTSUP, "state 'c'");
    refusal(ctx, "zt program 1\nin    x: i32[2]\ny = cast x\nout   y = y\n", "x", ZT_EUSAGE,
            "'x' cannot have a gradient: its dtype is i32");
    refusal(ctx, "zt program 1\nin    x: f32[2,4]\ny = argmax x\nout   y = y\n", "x", ZT_EUSAGE, "0 of the 0 requested outputs");
    refusal(ctx, "zt program 1\nin    x: f32[2,4]\ny = add x x\nout   y = y\n", "u", ZT_EUSAGE, "value -1 is not in the program");
    refusal(ctx, "zt program 1\nin    x: f32[2,4]\ni = argmax x\ny = add x x\nout   y = y\n", "i", ZT_EUSAGE,
            "'i' cannot have a gradient: its dtype is i32");
}

static void unreached_is_zero(zt_ctx *ctx)
{
    zt_prog *graph = parse(ctx, "zt program 1\nin    x: f32[2]\nin    u: f32[3]\ny = add x x\n"
                                "out   y = y\n");
    int wrt[] = {zt_prog_find(graph, "x"), zt_prog_find(graph, "u")};
    zt_prog *program = zt_prog_grad(ctx, graph, wrt, 2, NULL);
    f64run r;
    bool good = program && f64run_open(&r, program);
    if (good) {
        f64run_go(&r);
        good = f64run_out(&r, "d.x")->f[1] == 2 && f64run_out(&r, "d.u")->f[2] == 0;
        f64run_close(&r);
    }
    ok(good, "x + x has gradient 2 in x, 0 in what it does not depend on");
    zt_prog_free(program);
    zt_prog_free(graph);
}

static void of_what_ops_make(zt_ctx *ctx)
{
    zt_prog *graph = parse(ctx, "zt program 1\nin    x: f32[2]\nh = mul x x\ny = mul h h\nout   y = y\n");
    int wrt[] = {zt_prog_find(graph, "h"), zt_prog_find(graph, "x")};
    zt_prog *program = zt_prog_grad(ctx, graph, wrt, 2, NULL);
    f64run r;
    bool good = program && f64run_open(&r, program);
    if (good) {
        r.arg[zt_prog_find(program, "x")].f[1] = 3;
        f64run_go(&r);
        good = f64run_out(&r, "d.h")->f[1] == 18 && f64run_out(&r, "d.x")->f[1] == 108;
        f64run_close(&r);
    }
    ok(good, "the gradient of what an op makes, and on through it");
    zt_prog_free(program);
    zt_prog_free(graph);
}

/* Of every row's first case: each allocation of the pass refused once leaves a message, and no
 * block. */
static bool allocations_fail(zt_op op)
{
    bool good = true, done = false;
    sample s;
    zt_ctx *ctx = zt_ctx_new();
    if (!sample_open(&s, ctx, op, 0)) return false;
    int wrt[ZT_MAX_IN], n = wanted(&s, zt_op_info(op)->def, wrt);
    size_t blocks = zt_mem_get(ctx).blocks;
    for (uint64_t nth = 1; nth < 10000 && good && !done; nth++) {
        zt_mem_fail(ctx, nth, false);
        zt_prog *program = zt_prog_grad(ctx, s.p, wrt, n, &(zt_grad_opts){.seeds = true});
        zt_mem_fail(ctx, 0, false);
        done = program != NULL && zt_ctx_status(ctx) == ZT_OK;
        good = done || (!program && zt_ctx_status(ctx) == ZT_ENOMEM);
        zt_prog_free(program);
        zt_ctx_clear(ctx);
        good = good && zt_mem_get(ctx).blocks == blocks;
    }
    sample_close(&s);
    good = good && done && zt_mem_get(ctx).blocks == 0;
    zt_ctx_free(ctx);
    return good;
}

static void every_allocation_fails(void)
{
    bool good = true;
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        if (!zt_op_has_gradient((zt_op)op) || allocations_fail((zt_op)op)) continue;
        diag("%s: a failing allocation", zt_op_info((zt_op)op)->name);
        good = false;
    }
    ok(good, "each allocation of the pass fails cleanly, for every row");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        bool has = zt_op_has_gradient((zt_op)op);
        if (has) check_row(ctx, (zt_op)op);
        if (!has) diag("%s has no gradient", zt_op_info((zt_op)op)->name);
    }
    symbols_stay(ctx);
    refusals(ctx);
    unreached_is_zero(ctx);
    of_what_ops_make(ctx);
    every_allocation_fails();
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
