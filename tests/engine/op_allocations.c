/* op_allocations.c - every op's small cases while memory fails: each allocation of opening an engine,
 * running the op (by the door, recorded; as a program in a session; as its gradient's program) and
 * closing is refused once. What is told is that there is no memory, and nothing is left. Four cases
 * of an op; ZT_LONG: all. */
#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 2000, CASES = 4, MOST = 20000 }; /* elements; cases of an op; allocations tried */

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct attempt {
    zt_ctx *ctx;
    const char *engine;
    zt_op op;
    const zt_opinfo *info;
    zt_case c;
    zt_type out[ZT_MAX_OUT];
    const void *host[ZT_MAX_IN];              /* the inputs' bytes */
    const zt_prog *prog;                      /* of run_program */
    void *result[2 * ZT_MAX_IN + ZT_MAX_OUT]; /* room for its outputs */
} attempt;

static bool is_small(attempt *a)
{
    const zt_type *in[ZT_MAX_IN] = {0};
    int64_t count = 0;
    for (int k = 0; k < a->info->n_in; k++) {
        if (a->c.fill[k] == ZT_FILL_ABSENT) continue;
        in[k] = &a->c.in[k];
        count += zt_type_count(in[k]);
    }
    if (zt_op_infer(NULL, a->op, a->c.attrs, in, a->out)) return false;
    for (int k = 0; k < a->info->n_out; k++) count += zt_type_count(&a->out[k]);
    return count <= SMALL;
}

static void fill(attempt *a)
{
    for (int k = 0; k < a->info->n_in; k++) {
        if (a->c.fill[k] == ZT_FILL_ABSENT) continue;
        void *data = malloc(zt_type_bytes(&a->c.in[k]) + 1);
        zt_case_fill(&a->c, k, 1, data);
        a->host[k] = data;
    }
}

static zt_engine *open_engine(const attempt *a)
{
    return zt_engine_open(a->ctx, a->engine, &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
}

/* ---- what is tried --------------------------------------------------------------------------- */

/* By the door, recorded. */
static void run_door(attempt *a)
{
    zt_engine *engine = open_engine(a);
    zt_run *runner = engine ? zt_run_new(engine, false) : NULL;
    zt_tensor *in[ZT_MAX_IN] = {0}, *out[ZT_MAX_OUT] = {0};
    bool good = runner && !zt_record_begin(runner);
    if (runner) zt_scope_begin(runner);
    for (int k = 0; k < a->info->n_in && good; k++) {
        if (!a->host[k]) continue;
        in[k] = zt_tensor_new(a->ctx, &a->c.in[k]);
        good = in[k] != NULL;
        if (good) memcpy(zt_tensor_data(in[k]), a->host[k], zt_tensor_bytes(in[k]));
    }
    if (good && !zt_run_op(runner, a->op, a->c.attrs, in, out)) zt_prog_free(zt_record_end(runner, out, 1));
    for (int k = 0; k < a->info->n_in; k++) zt_tensor_unref(in[k]);
    if (runner) zt_scope_end(runner);
    zt_run_free(runner);
    zt_engine_close(engine);
}

/* The op as a program; what it uses up is a state. */
static zt_prog *program(const attempt *a)
{
    const int donates = a->info->def->donates;
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    char name[24];
    zt_prog *graph = zt_prog_new(a->ctx);
    if (!graph) return NULL;
    for (int k = 0; k < a->info->n_in; k++) {
        const zt_type *type = &a->c.in[k];
        in[k] = ZT_NONE;
        if (!a->host[k]) continue;
        snprintf(name, sizeof name, "in%d", k);
        in[k] = k < donates ? zt_prog_state(graph, name, type->dtype, type->rank, type->dim)
                            : zt_prog_in(graph, name, type->dtype, type->rank, type->dim);
    }
    bool good = !zt_prog_op(graph, a->op, a->c.attrs, in, NULL, out);
    for (int k = 0; k < donates && good; k++) good = !zt_prog_keep(graph, in[k], out[k]);
    for (int k = 0; k < a->info->n_out && good; k++) {
        snprintf(name, sizeof name, "y%d", k);
        good = !zt_prog_out(graph, name, out[k]);
    }
    if (good) return graph;
    zt_prog_free(graph);
    return NULL;
}

static void run_in_session(attempt *a, zt_engine *engine, const zt_prog *graph)
{
    const void *in[ZT_MAX_IN];
    int count = 0, first = a->info->def->donates;
    for (int k = first; k < a->info->n_in; k++)
        if (a->host[k]) in[count++] = a->host[k];
    zt_session *session = zt_session_open(engine, graph, NULL, NULL);
    if (session) zt_session_step(session, NULL, 0, in, a->result);
    zt_session_close(session);
}

static void run_session(attempt *a)
{
    zt_engine *e = open_engine(a);
    zt_prog *p = e ? program(a) : NULL;
    if (p) run_in_session(a, e, p);
    zt_prog_free(p);
    zt_engine_close(e);
}

static void run_program(attempt *a)
{
    zt_engine *e = open_engine(a);
    if (e) run_in_session(a, e, a->prog);
    zt_engine_close(e);
}

/* ---- each allocation fails once -------------------------------------------------------------- */

static bool report_failure(const attempt *a, int index, const char *how, uint64_t nth, const char *what)
{
    diag("%s case %d on %s, %s: allocation %llu: %s: status %d, %s", a->info->name, index, a->engine, how,
         (unsigned long long)nth, what, (int)zt_ctx_status(a->ctx), zt_ctx_error(a->ctx));
    zt_ctx_clear(a->ctx);
    return false;
}

static bool each_fails(attempt *a, int index, const char *how, void (*run)(attempt *), long *tried)
{
    size_t blocks = zt_mem_get(a->ctx).blocks, held = zt_mem_get(a->ctx).held;
    for (uint64_t nth = 1; nth < MOST; nth++, ++*tried) {
        zt_mem_fail(a->ctx, nth, false);
        run(a);
        zt_mem_fail(a->ctx, 0, false);
        if (zt_mem_get(a->ctx).blocks != blocks || zt_mem_get(a->ctx).held != held)
            return report_failure(a, index, how, nth, "something is left");
        zt_status status = zt_ctx_status(a->ctx);
        if (status == ZT_OK) return nth > 1;
        if (status != ZT_ENOMEM) return report_failure(a, index, how, nth, "another message");
        zt_ctx_clear(a->ctx);
    }
    return report_failure(a, index, how, MOST, "no end");
}

/* The gradient's program of a case, run in a session; true when there is none. */
static bool gradient_fails(attempt *a, int index, long *tried)
{
    int wrt[ZT_MAX_IN], count = 0;
    zt_prog *p = program(a);
    for (int k = 0; k < a->info->n_in; k++) {
        char name[24];
        snprintf(name, sizeof name, "in%d", k);
        if (a->host[k] && zt_dtype_get(a->c.in[k].dtype)->kind == 'F' && !(a->info->def->constant >> k & 1))
            wrt[count++] = zt_prog_find(p, name);
    }
    bool real = zt_dtype_get(a->out[0].dtype)->kind == 'F' && count > 0;
    zt_prog *graph = real ? zt_prog_grad(a->ctx, p, wrt, count, NULL) : NULL;
    bool good = true;
    if (graph) {
        a->prog = graph;
        for (int k = 0; k < count; k++)
            a->result[a->info->n_out + k] = malloc(zt_type_bytes(&zt_prog_value(p, wrt[k])->type) + 1);
        good = each_fails(a, index, "gradient", run_program, tried);
        for (int k = 0; k < count; k++) free(a->result[a->info->n_out + k]);
    }
    zt_ctx_clear(a->ctx); /* some attributes have no gradient */
    zt_prog_free(graph);
    zt_prog_free(p);
    return good;
}

static bool try_case(attempt *a, int index, bool gradient, long *tried)
{
    static const char *const engine[] = {"ref", "cpu"};
    bool good = true;
    fill(a);
    for (int k = 0; k < a->info->n_out; k++) a->result[k] = malloc(zt_type_bytes(&a->out[k]) + 1);
    for (int i = 0; i < 2; i++) {
        a->engine = engine[i];
        good = each_fails(a, index, "door", run_door, tried) && good;
        good = each_fails(a, index, "session", run_session, tried) && good;
        if (gradient) good = gradient_fails(a, index, tried) && good;
    }
    for (int k = 0; k < a->info->n_in; k++) free((void *)(uintptr_t)a->host[k]);
    for (int k = 0; k < a->info->n_out; k++) free(a->result[k]);
    return good;
}

static void try_op(zt_ctx *ctx, zt_op op)
{
    attempt a = {.ctx = ctx, .op = op, .info = zt_op_info(op)};
    bool good = true, has_gradient = zt_op_has_gradient(op);
    int cases = 0;
    long tried = 0;
    int most = getenv("ZT_LONG") ? INT_MAX : CASES;
    for (int i = 0; cases < most && zt_op_case(op, i, &a.c); i++) {
        memset(a.host, 0, sizeof a.host);
        if (!is_small(&a)) continue;
        good = try_case(&a, i, has_gradient && cases < 2, &tried) && good;
        cases++;
    }
    ok(good && cases > 0, "%s: %d cases, %ld allocations that failed", a.info->name, cases, tried);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (int op = 0; op < ZT_OP_COUNT; op++) try_op(ctx, (zt_op)op);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
