/* eager_ops.c - every op through the eager door, by its cases: a destination given (zt_run_into) holds
 * what the op gives without one, whatever lay there, and inputs stay as they were; nothing in for
 * nothing out; wrong shapes and dtypes are refused in one clear sentence, or run on cpu as on
 * ref. */
#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 40000, WRONG_CASES = 12 }; /* elements of a case; cases that are made wrong */

static zt_ctx *ctx;
static zt_run *runs[2]; /* on ref, on cpu */

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct eager {
    zt_op op;
    const zt_opinfo *info;
    zt_case c;
    int index;
    zt_tensor *in[ZT_MAX_IN];
    void *was[ZT_MAX_IN]; /* their bytes */
} eager;

static bool report_failure(const eager *e, const char *what)
{
    diag("%s case %d: %s: %s", e->info->name, e->index, what, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    return false;
}

/* The inputs' tensors; false: there are too many elements. */
static bool fill(eager *chain)
{
    int64_t count = 0;
    for (int k = 0; k < chain->info->n_in; k++) {
        chain->in[k] = NULL;
        chain->was[k] = NULL;
    }
    for (int k = 0; k < chain->info->n_in; k++) {
        const zt_type *type = &chain->c.in[k];
        if (chain->c.fill[k] == ZT_FILL_ABSENT) continue;
        if ((count += zt_type_count(type)) > MANY) return false;
        chain->in[k] = zt_tensor_new(ctx, type);
        zt_case_fill(&chain->c, k, 1 + (uint64_t)chain->index, zt_tensor_data(chain->in[k]));
        chain->was[k] = malloc(zt_type_bytes(type) + 1);
        if (zt_type_bytes(type)) memcpy(chain->was[k], zt_tensor_data(chain->in[k]), zt_type_bytes(type));
    }
    return true;
}

static void drop(eager *e)
{
    for (int k = 0; k < e->info->n_in; k++) {
        zt_tensor_unref(e->in[k]);
        free(e->was[k]);
    }
}

static bool case_open(eager *e, zt_op op, int i)
{
    *e = (eager){.op = op, .info = zt_op_info(op), .index = i};
    return zt_op_case(op, i, &e->c);
}

static bool inputs_are_whole(const eager *e)
{
    for (int k = 0; k < e->info->n_in; k++)
        if (e->in[k] && memcmp(e->was[k], zt_tensor_data(e->in[k]), zt_tensor_bytes(e->in[k]))) return false;
    return true;
}

/* ---- a destination --------------------------------------------------------------------------- */

static bool into(const eager *chain, zt_run *runner, const zt_tensor *want, int old)
{
    zt_tensor *dst = zt_tensor_new(ctx, zt_tensor_type(want)), *out[ZT_MAX_OUT];
    size_t bytes = zt_tensor_bytes(want);
    if (bytes) memset(zt_tensor_data(dst), old, bytes);
    zt_run_into(runner, dst);
    bool good = zt_run_op(runner, chain->op, chain->c.attrs, chain->in, out) == ZT_OK && out[0] == dst &&
                (!bytes || !memcmp(zt_tensor_data(dst), zt_tensor_data(want), bytes));
    zt_tensor_unref(dst);
    return good;
}

static bool wrong_into(const eager *chain, zt_run *runner, const zt_tensor *want)
{
    zt_type type = *zt_tensor_type(want);
    zt_tensor *out[ZT_MAX_OUT];
    type.dtype = type.dtype == ZT_F64 ? ZT_I64 : ZT_F64;
    zt_tensor *dst = zt_tensor_new(ctx, &type);
    zt_run_into(runner, dst);
    bool good = zt_run_op(runner, chain->op, chain->c.attrs, chain->in, out) == ZT_ESHAPE && !out[0] &&
                strstr(zt_ctx_error(ctx), "dst has type");
    zt_ctx_clear(ctx);
    zt_tensor_unref(dst);
    return good;
}

static bool check_into(const eager *chain, zt_run *runner)
{
    zt_tensor *out[ZT_MAX_OUT];
    zt_scope_begin(runner);
    bool good = zt_run_op(runner, chain->op, chain->c.attrs, chain->in, out) == ZT_OK || report_failure(chain, "does not run");
    if (good) good = inputs_are_whole(chain) || report_failure(chain, "an input was written");
    if (good)
        good = (into(chain, runner, out[0], 0xFF) && into(chain, runner, out[0], 0x3C)) || report_failure(chain, "into a tensor");
    if (good) good = wrong_into(chain, runner, out[0]) || report_failure(chain, "into a tensor of another type");
    if (good) good = inputs_are_whole(chain) || report_failure(chain, "an input was written");
    zt_scope_end(runner);
    return good;
}

/* ---- nothing in ------------------------------------------------------------------------------ */

static bool check_missing(const eager *chain, zt_run *runner)
{
    for (int k = 0; k < chain->info->def->n_required; k++) {
        zt_tensor *in[ZT_MAX_IN], *out[ZT_MAX_OUT] = {0};
        char words[80];
        memcpy(in, chain->in, sizeof in);
        in[k] = NULL;
        snprintf(words, sizeof words, "op %s: missing input %s", chain->info->name, chain->info->in_name[k]);
        zt_status st = zt_run_op(runner, chain->op, chain->c.attrs, in, out);
        bool good = st == ZT_EUSAGE && !strcmp(zt_ctx_error(ctx), words);
        /* What follows a failure does nothing, and the first message stays. */
        good =
            good && zt_run_op(runner, chain->op, chain->c.attrs, chain->in, out) && !out[0] && !strcmp(zt_ctx_error(ctx), words);
        if (!good) return report_failure(chain, "without an input");
        zt_ctx_clear(ctx);
    }
    return true;
}

/* ---- wrong types ----------------------------------------------------------------------------- */

/* Variant v of an input's type: another dtype, a dimension more, one less, each dimension longer by
 * one; false: there are no more. */
static bool vary(const zt_type *was, int v, zt_type *type)
{
    *type = *was;
    if (v == 0) type->dtype = zt_dtype_is_float(was->dtype) ? ZT_BOOL : ZT_F32;
    if (v == 1) type->dtype = was->dtype == ZT_F16 ? ZT_I32 : ZT_F16;
    if (v == 2 && was->rank < ZT_MAX_RANK) {
        memmove(type->dim + 1, was->dim, (size_t)was->rank * sizeof was->dim[0]);
        type->dim[0] = 1;
        type->rank++;
    }
    if (v == 3 && was->rank > 0) {
        memmove(type->dim, was->dim + 1, (size_t)(was->rank - 1) * sizeof was->dim[0]);
        type->dim[--type->rank] = 0;
    }
    if (v >= 4 && v - 4 < was->rank) type->dim[v - 4]++;
    return v < 4 + was->rank;
}

/* "op linear: w has 64 columns, but x has 63 (x f32[2,63], w q8_0[5,64])" */
static bool is_a_sentence(const eager *chain, zt_status st)
{
    const char *text = zt_ctx_error(ctx);
    char start[64];
    snprintf(start, sizeof start, "op %s: ", chain->info->name);
    return (st == ZT_ESHAPE || st == ZT_EUSAGE || st == ZT_ENOTSUP) && !strncmp(text, start, strlen(start)) &&
           strlen(text) > strlen(start) + 10 && strlen(text) < 600 && !strpbrk(text, "\n\t") && !strstr(text, "(null)") &&
           strchr(text, '[') && strchr(text, '(');
}

/* What is not refused runs on both engines, or fails on both for what lies in the inputs. */
static bool runs_alike(const eager *chain)
{
    zt_status st[2];
    for (int i = 0; i < 2; i++) {
        zt_tensor *out[ZT_MAX_OUT];
        zt_scope_begin(runs[i]);
        st[i] = zt_run_op(runs[i], chain->op, chain->c.attrs, chain->in, out);
        zt_scope_end(runs[i]);
        if (i == 0 || st[1] == st[0]) zt_ctx_clear(ctx);
    }
    return st[0] == st[1] && (st[0] == ZT_OK || st[0] == ZT_EDATA);
}

/* A table of blocks is filled only where it is one. */
static bool can_fill(const eager *e)
{
    for (int k = 0; k < e->info->n_in; k++) {
        const zt_type *t = &e->c.in[k];
        if (e->c.fill[k] == ZT_FILL_PERM && (t->rank != 2 || !zt_type_count(t))) return false;
    }
    return true;
}

static bool check_variant(eager *chain, int *refused)
{
    const zt_type *in[ZT_MAX_IN] = {0};
    zt_type out[ZT_MAX_OUT];
    bool good = true;
    for (int k = 0; k < chain->info->n_in; k++) {
        if (chain->c.fill[k] == ZT_FILL_ABSENT) continue;
        in[k] = &chain->c.in[k];
        if (!zt_type_check(NULL, in[k], NULL)) return true; /* no type at all */
    }
    zt_status st = zt_op_infer(ctx, chain->op, chain->c.attrs, in, out);
    if (st) good = is_a_sentence(chain, st) || report_failure(chain, "refused without the right words");
    *refused += st != ZT_OK;
    zt_ctx_clear(ctx);
    if (st || !can_fill(chain)) return good;
    if (fill(chain)) good = runs_alike(chain) || report_failure(chain, "an odd shape");
    drop(chain);
    return good;
}

static bool check_wrong(const eager *chain, int *refused)
{
    bool good = true;
    for (int k = 0; k < chain->info->n_in; k++) {
        if (chain->c.fill[k] == ZT_FILL_ABSENT) continue;
        eager odd = *chain;
        for (int v = 0; vary(&chain->c.in[k], v, &odd.c.in[k]); v++) good = check_variant(&odd, refused) && good;
    }
    return good;
}

/* Ops that take whatever there is. */
static bool takes_all(zt_op op) { return op == ZT_OP_logical_not || op == ZT_OP_cast; }

/* ---- walking --------------------------------------------------------------------------------- */

static void check_op(zt_op op)
{
    const zt_opinfo *info = zt_op_info(op);
    bool good[2] = {true, true}, missing = true, wrong = true;
    int count = 0, refused = 0;
    eager e;
    for (int i = 0; case_open(&e, op, i); i++) {
        bool small = fill(&e);
        for (int r = 0; small && r < 2; r++) good[r] = check_into(&e, runs[r]) && good[r];
        if (small && count == 0) missing = check_missing(&e, runs[1]);
        drop(&e);
        if (small && count++ < WRONG_CASES) wrong = check_wrong(&e, &refused) && wrong;
    }
    ok(count > 0 && good[0] && good[1], "%s: into a destination, %d cases on ref and cpu", info->name, count);
    ok(missing, "%s: nothing in for nothing out", info->name);
    ok(wrong && (refused > 0 || takes_all(op)), "%s: %d wrong types are refused in words", info->name, refused);
}

int main(void)
{
    ctx = zt_ctx_new();
    zt_engine *engines[2] = {zt_engine_open(ctx, "ref", &(zt_engine_opts){0}),
                             zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()})};
    for (int i = 0; i < 2; i++) runs[i] = zt_run_new(engines[i], false);
    for (int op = 0; op < ZT_OP_COUNT; op++) check_op((zt_op)op);
    for (int i = 0; i < 2; i++) {
        zt_run_free(runs[i]);
        zt_engine_close(engines[i]);
    }
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
