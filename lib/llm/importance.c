/* importance.c - importance matrix: a pass that adds sums of squares to a program, and the texts fed through it. */
#include "lib/base/require.h"
#include "lib/llm/importance.h"

#include "lib/llm/arch/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct summed_matrix {
    const char *tensor; /* the program's */
    int output;
    int rows;         /* the output that counts rows by expert; -1: a matrix of all rows */
    int64_t matrices; /* experts, or 1 */
} summed_matrix;

typedef struct sums { /* of one output */
    int64_t count;
    float *step; /* of the last text */
    double *total;
} sums;

struct zt_importance {
    zt_ctx *ctx;
    zt_hyper hyper;
    int64_t window, rows; /* rows: of the cache, whole blocks */
    zt_prog *prog;
    zt_session *session;
    summed_matrix *matrix;
    int64_t n_matrices, tokens;
    sums *sum;
    int n_sums;
    int32_t *iota, *zero, *last; /* [window or blocks] what the inputs are but for ids */
    int32_t *from, *to;          /* [window or blocks] states of recurrent layers: a text begins with zeros, none is kept */
    float *none;                 /* zeros in the shape of experts' sums: [most_none], for n_none inputs behind the others */
    int64_t most_none;
    int n_none;
    void **out;
};

enum { MAX_NONE = 4 }; /* experts' sums have two lengths: of a token's state, and of an expert */

/* ---- the program ----------------------------------------------------------------------------- */

/* Its steps, with x's sum of squares as an output for each x that a matrix is multiplied with. */
typedef struct sums_pass {
    const zt_prog *from;
    zt_prog *to;
    int *map;       /* [values of from] in `to` */
    int *output;    /* [values of from] of that x's sums; -1: none yet */
    int *by_expert; /* the same of sums by expert; their counts come next */
    int none[MAX_NONE];
    zt_importance *importance;
} sums_pass;

static zt_status copy_step(sums_pass *pass, const zt_step *step)
{
    const zt_opinfo *info = zt_op_info(step->op);
    const char *names[ZT_MAX_OUT];
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    for (int slot = 0; slot < info->n_in; slot++) in[slot] = step->in[slot] < 0 ? ZT_NONE : pass->map[step->in[slot]];
    for (int slot = 0; slot < info->n_out; slot++)
        names[slot] = step->out[slot] < 0 ? "_" : zt_prog_value(pass->from, step->out[slot])->name;
    zt_status status = zt_prog_op(pass->to, step->op, step->attrs, in, names, out);
    for (int slot = 0; slot < info->n_out && status == ZT_OK; slot++)
        if (step->out[slot] >= 0) pass->map[step->out[slot]] = out[slot];
    return status;
}

static int add_output(sums_pass *pass, int value)
{
    char name[32];
    snprintf(name, sizeof name, "sum%d", pass->importance->n_sums);
    if (value < 0 || zt_prog_out(pass->to, name, value) != ZT_OK) return -1;
    return pass->importance->n_sums++;
}

/* Index of the output that holds the sums of squares of a value of `from`; added if it is not there yet. */
static int sums_output(sums_pass *pass, int value)
{
    zt_sum_attrs rows = {.axes = {1, {0}}};
    if (pass->output[value] >= 0) return pass->output[value];
    int squares = zt_program_sum(pass->to, NULL, zt_program_mul(pass->to, NULL, pass->map[value], pass->map[value]), &rows);
    return pass->output[value] = add_output(pass, squares);
}

/* An input of zeros f32[experts, 1, columns]: the shape of sums by expert. */
static int zeros_input(sums_pass *pass, int64_t experts, int64_t columns)
{
    zt_importance *importance = pass->importance;
    char name[32];
    for (int i = 0; i < importance->n_none; i++) {
        const int64_t *dim = zt_prog_value(pass->to, pass->none[i])->type.dim;
        if (dim[0] == experts && dim[2] == columns) return pass->none[i];
    }
    if (importance->n_none == MAX_NONE) return zt_fail(importance->ctx, ZT_EBUG, "too many shapes of experts"), -1;
    snprintf(name, sizeof name, "experts%d", importance->n_none);
    if (experts * columns > importance->most_none) importance->most_none = experts * columns;
    return pass->none[importance->n_none++] = zt_prog_in(pass->to, name, ZT_F32, 3, (int64_t[]){experts, 1, columns});
}

/* Index of the output that holds an expert_linear's sums by expert; the one behind it counts rows. Both are the gradient
 * of weights: of one row by expert, with cotangents of 1, of squares and of ones. */
static int expert_sums_output(sums_pass *pass, const zt_step *step)
{
    zt_prog *to = pass->to;
    const zt_type *weights = &zt_prog_value(pass->from, step->in[1])->type;
    int x = pass->map[step->in[0]], index = pass->map[step->in[2]], y = pass->map[step->out[0]];
    if (pass->by_expert[step->in[0]] >= 0) return pass->by_expert[step->in[0]];
    int zeros = zeros_input(pass, weights->dim[0], weights->dim[2]);
    int one_column = zt_program_slice(to, NULL, y, &(zt_slice_attrs){.axis = 2, .from = 0, .to = 1});
    int ones = zt_program_fill_like(to, NULL, one_column, &(zt_fill_like_attrs){1});
    int one_zero = zt_program_slice(to, NULL, zeros, &(zt_slice_attrs){.axis = 2, .from = 0, .to = 1});
    int squares = zt_program_expert_linear_backward(to, NULL, zt_program_mul(to, NULL, x, x), ones, index, zeros);
    int counts = zt_program_expert_linear_backward(to, NULL, ones, ones, index, one_zero);
    int output = add_output(pass, squares);
    if (output < 0 || add_output(pass, counts) < 0) return -1;
    return pass->by_expert[step->in[0]] = output;
}

static bool is_matrix(const sums_pass *pass, const zt_step *step)
{
    bool product = step->op == ZT_OP_linear || step->op == ZT_OP_expert_linear;
    return product && zt_prog_value(pass->from, step->in[1])->kind == ZT_VALUE_DATA;
}

static zt_status copy_steps(sums_pass *pass)
{
    zt_importance *importance = pass->importance;
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_n_steps(pass->from) && status == ZT_OK; i++)
        status = copy_step(pass, zt_prog_step(pass->from, i));
    for (int value = 0; value < zt_prog_n_values(pass->from) && status == ZT_OK; value++)
        if (zt_prog_value(pass->from, value)->kind == ZT_VALUE_STATE && zt_prog_value(pass->from, value)->keep >= 0)
            status = zt_prog_keep(pass->to, pass->map[value], pass->map[zt_prog_value(pass->from, value)->keep]);
    for (int i = 0; i < zt_prog_n_steps(pass->from) && status == ZT_OK; i++) {
        const zt_step *step = zt_prog_step(pass->from, i);
        if (!is_matrix(pass, step)) continue;
        bool experts = step->op == ZT_OP_expert_linear;
        int output = experts ? expert_sums_output(pass, step) : sums_output(pass, step->in[0]);
        const zt_value *weight = zt_prog_value(pass->to, pass->map[step->in[1]]);
        importance->matrix[importance->n_matrices++] =
            (summed_matrix){weight->tensor, output, experts ? output + 1 : -1, experts ? weight->type.dim[0] : 1};
        status = output < 0 ? zt_ctx_status(importance->ctx) : ZT_OK;
    }
    return status;
}

static zt_status make_sums_program(zt_importance *importance, const zt_prog *from)
{
    int value_count = zt_prog_n_values(from);
    sums_pass pass = {.from = from, .importance = importance};
    pass.map = zt_alloc_array(importance->ctx, (size_t)value_count + 1, sizeof *pass.map);
    pass.output = zt_alloc_array(importance->ctx, (size_t)value_count + 1, sizeof *pass.output);
    importance->matrix = zt_calloc(importance->ctx, (size_t)zt_prog_n_steps(from) + 1, sizeof *importance->matrix);
    pass.by_expert = zt_alloc_array(importance->ctx, (size_t)value_count + 1, sizeof *pass.by_expert);
    if (pass.map && pass.output && pass.by_expert && importance->matrix)
        pass.to = importance->prog = zt_prog_like(from, pass.map);
    for (int value = 0; value < value_count && pass.to; value++) pass.output[value] = pass.by_expert[value] = -1;
    zt_status status = pass.to ? copy_steps(&pass) : zt_ctx_status(importance->ctx);
    zt_free(importance->ctx, pass.map);
    zt_free(importance->ctx, pass.output);
    zt_free(importance->ctx, pass.by_expert);
    return status;
}

/* ---- open and close -------------------------------------------------------------------------- */

static zt_status build_program(zt_importance *importance, zt_gguf *gguf)
{
    zt_status status = zt_hyper_read(gguf, &importance->hyper);
    if (status == ZT_OK) status = zt_weights_check(gguf, &importance->hyper);
    if (status == ZT_OK && importance->hyper.parts & ZT_PART_POSITIONS && importance->window > importance->hyper.ctx_train)
        status =
            zt_fail(importance->ctx, ZT_EUSAGE, "%s: a window of %" PRId64 " tokens exceeds the model's %" PRId64 " positions",
                    zt_gguf_name(gguf), importance->window, importance->hyper.ctx_train);
    if (status != ZT_OK) return status;
    zt_prog *from = zt_llm_build(
        gguf, &importance->hyper,
        &(zt_build_opts){
            .exact = true, .kv = ZT_F32, .kv_values = ZT_F32, .n_seq = 1, .slots = 1, .ctx = importance->window, .embed = true});
    status = from ? make_sums_program(importance, from) : zt_ctx_status(importance->ctx);
    zt_prog_free(from);
    return status;
}

/* Allocates the sums; their lengths come from the program bound for one token. */
static zt_status make_sums(zt_importance *importance)
{
    zt_binding symbols[] = {{"n", 1}, {"m", 1}, {"ctx", importance->rows}};
    zt_bound *bound = zt_prog_bind(importance->prog, symbols, 3);
    importance->sum = zt_calloc(importance->ctx, (size_t)importance->n_sums + 1, sizeof *importance->sum);
    importance->out = zt_calloc(importance->ctx, (size_t)importance->n_sums + 1, sizeof *importance->out);
    zt_status status = bound && importance->sum && importance->out ? ZT_OK : zt_ctx_status(importance->ctx);
    for (int i = 0; i < importance->n_sums && status == ZT_OK; i++) {
        sums *sum = &importance->sum[i];
        sum->count = zt_type_count(&bound->type[zt_prog_output(importance->prog, i)->value]);
        sum->step = zt_calloc(importance->ctx, (size_t)sum->count, sizeof *sum->step);
        sum->total = zt_calloc(importance->ctx, (size_t)sum->count, sizeof *sum->total);
        importance->out[i] = sum->step;
        status = sum->step && sum->total ? ZT_OK : ZT_ENOMEM;
    }
    zt_bound_free(bound);
    return status;
}

static zt_status make_inputs(zt_importance *importance)
{
    size_t count = (size_t)importance->rows;
    importance->iota = zt_alloc_array(importance->ctx, count, sizeof *importance->iota);
    importance->zero = zt_calloc(importance->ctx, count, sizeof *importance->zero);
    importance->last = zt_alloc_array(importance->ctx, count, sizeof *importance->last);
    importance->from = zt_alloc_array(importance->ctx, count, sizeof *importance->from);
    importance->to = zt_alloc_array(importance->ctx, count, sizeof *importance->to);
    if (!importance->iota || !importance->from || !importance->to) return ZT_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        importance->iota[i] = (int32_t)i;
        importance->from[i] = i ? ZT_STATE_CONTINUED : ZT_STATE_ZEROS;
        importance->to[i] = -1;
    }
    importance->none = zt_calloc(importance->ctx, (size_t)importance->most_none + 1, sizeof *importance->none);
    return importance->zero && importance->last && importance->none ? ZT_OK : ZT_ENOMEM;
}

zt_importance *zt_importance_open(zt_gguf *gguf, zt_engine *engine, int64_t window)
{
    if (!gguf) return NULL;
    ZT_REQUIRE(zt_gguf_ctx(gguf), engine, NULL);
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    zt_store store = zt_gguf_store(gguf);
    if (window < 1 || window > INT32_MAX - ZT_KV_BLOCK) {
        zt_fail(ctx, ZT_EUSAGE, "invalid window: %" PRId64 " tokens", window);
        return NULL;
    }
    zt_importance *importance = zt_calloc(ctx, 1, sizeof *importance);
    if (!importance) return NULL;
    importance->ctx = ctx;
    importance->window = window;
    importance->rows = (window + ZT_KV_BLOCK - 1) / ZT_KV_BLOCK * ZT_KV_BLOCK;
    zt_binding fixed = {"ctx", importance->rows};
    zt_session_opts session_opts = {.fixed = &fixed, .n_fixed = 1};
    if (build_program(importance, gguf) == ZT_OK && make_sums(importance) == ZT_OK && make_inputs(importance) == ZT_OK)
        importance->session = zt_session_open(engine, importance->prog, &store, &session_opts);
    if (importance->session) return importance;
    zt_importance_close(importance);
    return NULL;
}

void zt_importance_close(zt_importance *importance)
{
    if (!importance) return;
    zt_session_close(importance->session);
    zt_prog_free(importance->prog);
    for (int i = 0; i < importance->n_sums && importance->sum; i++) {
        zt_free(importance->ctx, importance->sum[i].step);
        zt_free(importance->ctx, importance->sum[i].total);
    }
    zt_free(importance->ctx, importance->sum);
    zt_free(importance->ctx, importance->out);
    zt_free(importance->ctx, importance->matrix);
    zt_free(importance->ctx, importance->iota);
    zt_free(importance->ctx, importance->zero);
    zt_free(importance->ctx, importance->last);
    zt_free(importance->ctx, importance->from);
    zt_free(importance->ctx, importance->to);
    zt_free(importance->ctx, importance->none);
    zt_free(importance->ctx, importance);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static zt_status check_text(const zt_importance *importance, const int32_t *ids, int64_t token_count)
{
    if (token_count < 1 || token_count > importance->window)
        return zt_fail(importance->ctx, ZT_EUSAGE, "text of %" PRId64 " tokens, expected 1 to %" PRId64, token_count,
                       importance->window);
    for (int64_t i = 0; i < token_count; i++)
        if (ids[i] < 0 || ids[i] >= importance->hyper.vocab)
            return zt_fail(importance->ctx, ZT_EUSAGE, "token id %" PRId32 " is out of range, expected 0 to %" PRId64, ids[i],
                           importance->hyper.vocab - 1);
    return ZT_OK;
}

zt_status zt_importance_feed(zt_importance *importance, const int32_t *ids, int64_t token_count)
{
    if (!importance) return ZT_EUSAGE;
    ZT_REQUIRE(importance->ctx, ids || !token_count, ZT_EUSAGE);
    zt_binding symbols[] = {{"n", token_count}, {"m", token_count}};
    const void *decoder[7 + MAX_NONE] = {ids, importance->iota, importance->zero, importance->iota,
                                         importance->iota}; /* table: the identity */
    const void *encoder[] = {ids, importance->zero, importance->iota, importance->last};
    zt_status status = check_text(importance, ids, token_count);
    int count = 5;
    if (importance->hyper.recurrent) decoder[count++] = importance->from;
    if (importance->hyper.recurrent) decoder[count++] = importance->to;
    for (int i = 0; i < importance->n_none; i++) decoder[count++] = importance->none;
    for (int64_t i = 0; i < token_count && status == ZT_OK; i++) importance->last[i] = (int32_t)(token_count - 1);
    if (status == ZT_OK)
        status = zt_session_step(importance->session, symbols, 2, importance->hyper.arch->encoder ? encoder : decoder,
                                 importance->out);
    if (status != ZT_OK) return status;
    for (int i = 0; i < importance->n_sums; i++)
        for (int64_t column = 0; column < importance->sum[i].count; column++)
            importance->sum[i].total[column] += (double)importance->sum[i].step[column];
    importance->tokens += token_count;
    return ZT_OK;
}

int64_t zt_importance_count(const zt_importance *importance) { return importance ? importance->n_matrices : 0; }

zt_importance_of zt_importance_get(const zt_importance *importance, int64_t index)
{
    if (!importance || index < 0 || index >= importance->n_matrices) return (zt_importance_of){0};
    const summed_matrix *matrix = &importance->matrix[index];
    const sums *u = &importance->sum[matrix->output];
    const double *rows = matrix->rows >= 0 ? importance->sum[matrix->rows].total : NULL;
    return (zt_importance_of){matrix->tensor, u->count / matrix->matrices, u->total, importance->tokens, matrix->matrices, rows};
}
