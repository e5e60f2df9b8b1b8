/* norm.c - rows of norms, of heads turned by tables, of softmax and its kin. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/cu.h"

#include <string.h>

/* A kernel of each type of numbers. */
static const char *of_type(zt_dtype t, const char *const names[4])
{
    return names[t == ZT_F32 ? 0 : t == ZT_F16 ? 1 : t == ZT_BF16 ? 2 : 3];
}

static int64_t last_dim(const zt_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

/* ---- norms ----------------------------------------------------------------------------------- */

static bool has_float(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)attrs, (void)out;
    int64_t n = zt_type_count(in[0]);
    return (zt_cu_is_float(in[0]->dtype) || in[0]->dtype == ZT_F64) && n <= (int64_t)e->max_grid[0];
}

/* Threads for a row of K, which the order of its sum depends on. */
static unsigned threads_of(int64_t K)
{
    unsigned n = 32;
    while (n < 512 && (int64_t)n * 8 < K) n *= 2;
    return n;
}

/* At most what a block has that makes a norm on its way (persistent_kernel.cu). */
unsigned zt_cu_norm_team(int64_t K)
{
    unsigned n = threads_of(K);
    return n < ZT_CU_NORM_TEAM ? n : ZT_CU_NORM_TEAM;
}

static const char *const rms_names[] = {"zt_norm_f32", "zt_norm_f16", "zt_norm_bf16",
                                        "zt_norm_f64"};
static const char *const layer_names[] = {"zt_layer_f32", "zt_layer_f16", "zt_layer_bf16",
                                          "zt_layer_f64"};

static zt_status launch_rows(zt_cu_call *c, zt_dtype t, const char *const names[4],
                             zt_cu_norm_args *a)
{
    const zt_cu_ptr all = a->x | a->before | a->g | a->after | a->y | a->sum;
    a->wide = a->K % 4 == 0 && all % 32 == 0;
    a->team = (int32_t)zt_cu_norm_team(a->K);
    if (a->rows == 0 || a->K == 0) return ZT_OK;
    return zt_cu_launch(c, of_type(t, names), (zt_cu_dim){(unsigned)a->rows, 1, 1},
                        (zt_cu_dim){(unsigned)a->team, 1, 1}, 0, a, sizeof *a);
}

static zt_status launch_norm(zt_cu_call *c, zt_dtype t, zt_cu_norm_args *a)
{
    return launch_rows(c, t, rms_names, a);
}

static zt_cu_norm_args norm_of(const zt_cu_call *c, double eps, int64_t dims)
{
    int64_t count = zt_type_count(c->in[0]), K = dims ? dims : last_dim(c->in[0]);
    return (zt_cu_norm_args){
        .x = c->x[0], .y = c->y[0], .K = K, .rows = K ? count / K : 0, .eps = eps};
}

static zt_status emit_rms_norm(zt_cu_call *c)
{
    const zt_rms_norm_attrs *at = c->attrs;
    zt_cu_norm_args a = norm_of(c, at->eps, at->dims);
    a.g = c->x[1];
    a.rstd = c->y[1];
    return launch_norm(c, c->in[0]->dtype, &a);
}

zt_status zt_cu_rms_norm(zt_cu_call *c, const zt_type *type, zt_cu_ptr x, zt_cu_ptr g, double eps,
                         int64_t dims, zt_cu_ptr y)
{
    int64_t K = dims ? dims : last_dim(type);
    zt_cu_norm_args a = {.x = x, .g = g, .y = y, .K = K, .rows = K ? zt_type_count(type) / K : 0};
    a.eps = eps;
    return launch_norm(c, type->dtype, &a);
}

static zt_status emit_add_rms_norm(zt_cu_call *c)
{
    zt_cu_norm_args a = norm_of(c, ((const zt_add_rms_norm_attrs *)c->attrs)->eps, 0);
    a.before = c->x[1];
    a.g = c->x[2];
    a.sum = c->y[1];
    a.rstd = c->y[2];
    return launch_norm(c, c->in[0]->dtype, &a);
}

static zt_status emit_norm_add(zt_cu_call *c)
{
    zt_cu_norm_args a = norm_of(c, ((const zt_norm_add_attrs *)c->attrs)->eps, 0);
    a.g = c->x[1];
    a.after = c->x[2];
    return launch_norm(c, c->in[0]->dtype, &a);
}

static zt_status emit_layer_norm(zt_cu_call *c)
{
    zt_cu_norm_args a = norm_of(c, ((const zt_layer_norm_attrs *)c->attrs)->eps, 0);
    a.g = c->x[1];
    a.after = c->x[2];
    a.sum = c->y[1]; /* the mean */
    a.rstd = c->y[2];
    return launch_rows(c, c->in[0]->dtype, layer_names, &a);
}

/* Rows without columns still have a norm: 1 / sqrt(eps), which nobody multiplies by. */
static bool has_norm(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    return has_float(e, attrs, in, out) && last_dim(in[0]) > 0;
}

/* ---- turned by tables ----------------------------------------------------------------------- */

static zt_status launch_turn(zt_cu_call *c, zt_cu_rotate_args *a)
{
    static const char *const names[] = {"zt_rotate_f32", "zt_rotate_f16", "zt_rotate_bf16",
                                        "zt_rotate_f64"};
    const zt_type *x = c->in[0];
    a->x = c->x[0];
    a->y = c->y[0];
    a->K = last_dim(x);
    a->rows = a->K ? zt_type_count(x) / a->K : 0;
    a->heads = a->heads > 0 ? a->heads : 1;
    a->tables = a->tables > 0 ? a->tables : 1;
    return zt_cu_launch(c, of_type(x->dtype, names), zt_cu_grid(a->rows, 4), (zt_cu_dim){128, 1, 1},
                        0, a, sizeof *a);
}

static zt_status emit_rope_table(zt_cu_call *c)
{
    const zt_rope_table_attrs *at = c->attrs;
    zt_cu_rotate_args a = {.cos = c->x[1],
                         .sin = c->x[2],
                         .half = c->in[1]->dim[1],
                         .tables = c->in[1]->dim[0],
                         .per = 1,
                         .neighbours = !strcmp(at->pair.s, "neighbours")};
    return launch_turn(c, &a);
}

static zt_status emit_qk_norm_rope(zt_cu_call *c)
{
    const zt_qk_norm_rope_attrs *at = c->attrs;
    const zt_type *x = c->in[0], *table = c->in[3];
    int64_t half = last_dim(table), heads = x->dim[x->rank - 2];
    zt_cu_rotate_args a = {.wq = c->x[1],
                         .wk = c->x[2],
                         .cos = c->x[3],
                         .sin = c->x[4],
                         .half = half,
                         .tables = half ? zt_type_count(table) / half : 1,
                         .per = heads > 0 ? heads : 1,
                         .heads = heads,
                         .q_heads = at->q_heads,
                         .eps = at->eps,
                         .neighbours = !strcmp(at->pair.s, "neighbours")};
    return launch_turn(c, &a);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Lines along an axis. */
static zt_cu_softmax_args lines_of(const zt_cu_call *c, int64_t axis, double scale, bool log)
{
    const zt_type *x = c->in[0];
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    zt_cu_softmax_args a = {
        .x = c->x[0], .y = c->y[0], .n = x->dim[at], .inner = 1, .scale = scale, .log = log};
    for (int d = at + 1; d < x->rank; d++) a.inner *= x->dim[d];
    a.lines = a.n ? zt_type_count(x) / a.n : 0;
    return a;
}

static zt_status launch_softmax(zt_cu_call *c, int64_t axis, double scale, bool log)
{
    static const char *const lines[] = {"zt_softmax_f32", "zt_softmax_f16", "zt_softmax_bf16",
                                        "zt_softmax_f64"};
    static const char *const across[] = {"zt_softmax_across_f32", "zt_softmax_across_f16",
                                         "zt_softmax_across_bf16", "zt_softmax_across_f64"};
    const zt_type *x = c->in[0];
    zt_cu_softmax_args a = lines_of(c, axis, scale, log);
    if (a.lines == 0) return ZT_OK;
    if (a.inner > 1)
        return zt_cu_launch(c, of_type(x->dtype, across), zt_cu_grid(a.lines, 128),
                            (zt_cu_dim){128, 1, 1}, 0, &a, sizeof a);
    return zt_cu_launch(c, of_type(x->dtype, lines), (zt_cu_dim){(unsigned)a.lines, 1, 1},
                        (zt_cu_dim){threads_of(a.n), 1, 1}, 0, &a, sizeof a);
}

static zt_status emit_softmax(zt_cu_call *c)
{
    return launch_softmax(c, ((const zt_softmax_attrs *)c->attrs)->axis, 1, false);
}

static zt_status emit_log_softmax(zt_cu_call *c)
{
    return launch_softmax(c, ((const zt_log_softmax_attrs *)c->attrs)->axis, 1, true);
}

static zt_status emit_scaled_softmax(zt_cu_call *c)
{
    const zt_scaled_softmax_attrs *at = c->attrs;
    return launch_softmax(c, at->axis, at->scale, false);
}

static zt_status emit_entmax(zt_cu_call *c)
{
    static const char *const names[] = {"zt_entmax_f32", "zt_entmax_f16", "zt_entmax_bf16",
                                        "zt_entmax_f64"};
    const zt_entmax_attrs *at = c->attrs;
    zt_cu_softmax_args a = lines_of(c, at->axis, at->alpha, false);
    return zt_cu_launch(c, of_type(c->in[0]->dtype, names), (zt_cu_dim){(unsigned)a.lines, 1, 1},
                        (zt_cu_dim){32, 1, 1}, 0, &a, sizeof a);
}

const zt_cu_row zt_cu_norm[] = {
    {ZT_OP_rms_norm, has_norm, emit_rms_norm, 0},
    {ZT_OP_add_rms_norm, has_norm, emit_add_rms_norm, 0},
    {ZT_OP_norm_add, has_norm, emit_norm_add, 0},
    {ZT_OP_layer_norm, has_norm, emit_layer_norm, 0},
    {ZT_OP_rope_table, has_float, emit_rope_table, 0},
    {ZT_OP_qk_norm_rope, has_float, emit_qk_norm_rope, 0},
    {ZT_OP_softmax, has_float, emit_softmax, 0},
    {ZT_OP_log_softmax, has_float, emit_log_softmax, 0},
    {ZT_OP_scaled_softmax, has_float, emit_scaled_softmax, 0},
    {ZT_OP_entmax, has_float, emit_entmax, 0},
    {0},
};
