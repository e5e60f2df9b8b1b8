/* expert.c - kernels of products by expert (lib/ops/expert.c).
 *
 * Rows are sorted by expert; then each expert is one product (gemm_quant/product.h) of its rows, read and written where
 * they are. So a matrix that no row names is not read, and one that many name is read once for all of them. A row's
 * sums are those of linear, which do not depend on the rows beside it.
 *
 *   few rows     one phase: every thread sorts for itself, and brings rows into their form for each expert
 *   more         sort (one item); bring rows into their form (an expert an item); multiply
 *
 * An item of multiplying is a group of 16 columns of y for all rows of the a-th expert that has any: item i is group
 * i % group_count of expert i / group_count.
 */
#include "lib/engine/cpu/isa/gemm_quant/product.h"
#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/pack.h"

#include <string.h>

enum {
    LINE = 64,
    FEW_ROWS = 64,
    OWN_ROWS = 2 /* rows of activations, at most, that a product has every thread make (acts_per_thread) */
};

static size_t whole_lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* ---- rows by expert -------------------------------------------------------------------------- */

/* Indices of `i`, as numbers from 0, and what they read. */
typedef struct expert_rows {
    int64_t experts, row_count, per_token; /* per_token: indices that share a row of x; 1: none do */
    int64_t active_limit;                  /* experts that may have rows */
    int32_t *begin;                        /* [experts + 1]: where an expert's rows begin in the two lists */
    int32_t *to, *from;                    /* [row_count]: the number of the index; the row of x */
    int32_t *active;                       /* [active_limit]: experts that have rows, in order */
    int32_t *active_count;
} expert_rows;

static size_t list_bytes(const expert_rows *rows)
{
    return whole_lines((size_t)(rows->experts + 2 * rows->row_count + rows->active_limit + 2) * sizeof(int32_t));
}

/* Lists at `room`, list_bytes of it. */
static expert_rows rows_at(const zt_cpu_call *call, int64_t experts, void *room)
{
    const zt_type *x = &call->in[0].type;
    expert_rows rows = {.experts = experts, .row_count = zt_type_count(&call->in[2].type)};
    rows.per_token = x->rank == 2 && call->in[2].type.dim[1] > 0 ? call->in[2].type.dim[1] : 1;
    rows.active_limit = experts < rows.row_count ? experts : rows.row_count;
    rows.begin = room;
    rows.to = rows.begin + experts + 1;
    rows.from = rows.to + rows.row_count;
    rows.active = rows.from + rows.row_count;
    rows.active_count = rows.active + rows.active_limit;
    return rows;
}

static bool is_expert(const expert_rows *rows, int32_t index) { return index >= 0 && index < rows->experts; }

/* Fills the lists; an index that names no expert is in none. */
static void sort_rows(expert_rows *rows, const int32_t *index)
{
    int32_t *next = rows->begin + 1, sum = 0; /* one place on, so that counting back ends at the beginnings */
    memset(rows->begin, 0, (size_t)(rows->experts + 1) * sizeof *rows->begin);
    for (int64_t r = 0; r < rows->row_count; r++)
        if (is_expert(rows, index[r])) next[index[r]]++;
    *rows->active_count = 0;
    for (int64_t e = 0; e < rows->experts; e++) {
        int32_t count = next[e];
        if (count) rows->active[(*rows->active_count)++] = (int32_t)e;
        next[e] = sum;
        sum += count;
    }
    for (int64_t r = 0; r < rows->row_count; r++) {
        if (!is_expert(rows, index[r])) continue;
        int32_t at = next[index[r]]++;
        rows->to[at] = (int32_t)r;
        rows->from[at] = (int32_t)(r / rows->per_token);
    }
}

static void report_indices(zt_cpu_call *call, const expert_rows *rows, const int32_t *index)
{
    for (int64_t r = 0; r < rows->row_count; r++)
        if (!is_expert(rows, index[r])) zt_cpu_runtime_error(call, "expert", index[r], rows->experts);
}

static int64_t rows_of_expert(const expert_rows *rows, int64_t expert) { return rows->begin[expert + 1] - rows->begin[expert]; }

/* ---- one expert's product -------------------------------------------------------------------- */

typedef struct expert_product {
    zt_cpu_arg x, w, b; /* matrices: all rows of x, the expert's weights and bias */
    zt_product product;
} expert_product;

static size_t matrix_bytes(const zt_cpu_call *call)
{
    const zt_cpu_arg *w = &call->in[1];
    zt_type matrix = zt_type_make(w->type.dtype, 2, w->type.dim + 1);
    size_t groups = (size_t)(matrix.dim[0] + ZT_PACK_ROWS - 1) / ZT_PACK_ROWS;
    return w->packed ? groups * zt_pack_group_bytes(matrix.dtype, matrix.dim[1]) : zt_type_bytes(&matrix);
}

/* `rows` rows of x from the list `from` by the weights of `expert`, into *made: its product points into it. */
static void make_product(const zt_cpu_call *call, int64_t expert, const int32_t *from, int64_t count, uint8_t *shared,
                         expert_product *made)
{
    const zt_type *x = &call->in[0].type, *w = &call->in[1].type;
    const int64_t rows = x->rank == 2 ? x->dim[0] : x->dim[0] * x->dim[1];
    made->x = (zt_cpu_arg){.type = zt_type_make(x->dtype, 2, (int64_t[]){rows, w->dim[2]}), .data = call->in[0].data};
    made->w = (zt_cpu_arg){.type = zt_type_make(w->dtype, 2, w->dim + 1), .packed = call->in[1].packed};
    made->w.data = call->in[1].data ? (char *)call->in[1].data + (size_t)expert * matrix_bytes(call) : NULL;
    made->b = (zt_cpu_arg){0};
    if (call->in[3].data) {
        made->b.type = zt_type_make(call->in[3].type.dtype, 1, w->dim + 1);
        made->b.data = (char *)call->in[3].data + (size_t)expert * zt_type_bytes(&made->b.type);
    }
    const char *act = ((const zt_expert_linear_attrs *)call->attrs)->act.s;
    made->product = ZT_SYM(zt_product_make_rows)(&made->x, from, count, &made->w, &made->b, act, call->tile, shared);
}

/* ---- expert_linear --------------------------------------------------------------------------- */

/* Of all rows as those of one expert: bounds of what any expert's product needs. */
static void make_largest(const zt_cpu_call *call, int64_t rows, expert_product *made)
{
    static const int32_t none[1];
    make_product(call, 0, none, rows, NULL, made);
}

/* Where the a-th active expert has its packed weights and activations in `shared`, behind the lists. */
static size_t product_at(const expert_rows *rows, const zt_product *product, int64_t first_row, int64_t active)
{
    size_t acts = whole_lines((size_t)(first_row * product->parts * product->act_row_bytes));
    return list_bytes(rows) + (size_t)active * (product->packed_bytes + 2 * LINE) + acts;
}

static bool expert_linear_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    zt_type x = zt_type_make(in[0]->dtype, 2, (int64_t[]){1, in[1]->dim[2]}), w = zt_type_make(in[1]->dtype, 2, in[1]->dim + 1);
    return zt_type_count(in[2]) <= INT32_MAX / 2 && in[1]->dim[0] <= INT32_MAX / 4 && out[0].dtype == in[0]->dtype &&
           ZT_SYM(zt_product_supports)(&x, &w, in[3]);
}

static void expert_linear_setup(zt_cpu_call *call)
{
    expert_rows rows = rows_at(call, call->in[1].type.dim[0], NULL);
    expert_product largest;
    make_largest(call, rows.row_count, &largest);
    const zt_product *product = &largest.product;
    bool few = call->in[1].packed && rows.row_count <= FEW_ROWS;
    call->n_phases = few ? 1 : 3;
    call->items[0] = few ? 0 : 1;
    call->items[1] = rows.active_limit;
    call->items[call->n_phases - 1] = rows.active_limit * product->group_count;
    size_t acts = whole_lines((size_t)(rows.row_count * product->parts * product->act_row_bytes));
    size_t own_acts = whole_lines((size_t)(OWN_ROWS * product->act_row_bytes));
    call->shared_bytes = few ? 0 : product_at(&rows, product, rows.row_count, rows.active_limit) + 2 * LINE;
    call->local_bytes = whole_lines(product->local_bytes) + (few ? list_bytes(&rows) + acts : own_acts);
}

/* The products of groups begin..end-1 for all rows of an expert. A single row is written in place. */
static void multiply_expert(const zt_cpu_call *call, const expert_product *made, const uint8_t *acts, const int32_t *to,
                            int64_t begin, int64_t end, uint8_t *local)
{
    const zt_product *product = &made->product;
    zt_product_out out = {.at = call->out[0].data, .row_stride = product->M, .rows = to};
    if (product->tokens == 1) {
        out.at += (size_t)(to[0] * product->M) * (size_t)zt_dtype_get(made->x.type.dtype)->block_bytes;
        out.rows = NULL;
    }
    for (int64_t token = 0; token < product->tokens; token += product->block_tokens) {
        int64_t last = token + product->block_tokens;
        ZT_SYM(zt_product_multiply)
        (product, acts, &out, token, last < product->tokens ? last : product->tokens, begin, end, local);
    }
}

/* Few rows: the thread's own lists, and room for activations, behind the product's scratch. */
static const uint8_t *make_acts(const expert_product *made, uint8_t *room, uint8_t *local)
{
    zt_product product = made->product;
    product.shared = room;
    if (!product.acts_per_thread) ZT_SYM(zt_product_prepare)(&product, 0, product.prepare_items, local);
    return ZT_SYM(zt_product_activations)(&product, room, local);
}

/* Items begin..end-1 of multiplying. Activations of few rows are made now, at acts_room; else they are in `shared`, unless
 * every thread makes them. A row that was made for one expert serves the next that reads it alone. */
static void multiply_items(const zt_cpu_call *call, const expert_rows *rows, int64_t begin, int64_t end, bool few,
                           uint8_t *acts_room, uint8_t *local)
{
    const int64_t groups = (call->in[1].type.dim[1] + ZT_PACK_ROWS - 1) / ZT_PACK_ROWS;
    int32_t made_row = -1;
    while (begin < end && begin / groups < *rows->active_count) {
        int64_t active = begin / groups, group = begin % groups, expert = rows->active[active], first = rows->begin[expert];
        int64_t count = end - begin < groups - group ? end - begin : groups - group, tokens = rows_of_expert(rows, expert);
        expert_product made;
        make_product(call, expert, rows->from + first, tokens, NULL, &made);
        if (!few) made.product.shared = (uint8_t *)call->shared + product_at(rows, &made.product, first, active);
        const uint8_t *acts = acts_room;
        if (!few)
            acts = ZT_SYM(zt_product_activations)(&made.product, acts_room, local);
        else if (tokens > 1 || made_row != rows->from[first])
            acts = make_acts(&made, acts_room, local);
        made_row = tokens == 1 ? rows->from[first] : -1;
        multiply_expert(call, &made, acts, rows->to + first, group, group + count, local);
        begin += count;
    }
}

static void prepare_items(const zt_cpu_call *call, const expert_rows *rows, int64_t begin, int64_t end, uint8_t *local)
{
    for (int64_t active = begin; active < end && active < *rows->active_count; active++) {
        int64_t expert = rows->active[active], first = rows->begin[expert];
        expert_product made;
        make_product(call, expert, rows->from + first, rows_of_expert(rows, expert), NULL, &made);
        made.product.shared = (uint8_t *)call->shared + product_at(rows, &made.product, first, active);
        ZT_SYM(zt_product_prepare)(&made.product, 0, made.product.prepare_items, local);
    }
}

static void expert_linear_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    expert_product largest;
    bool few = call->n_phases == 1;
    make_largest(call, zt_type_count(&call->in[2].type), &largest);
    uint8_t *room = (uint8_t *)local + whole_lines(largest.product.local_bytes);
    expert_rows rows = rows_at(call, call->in[1].type.dim[0], few ? room : call->shared);
    if (phase == 0) sort_rows(&rows, call->in[2].data);
    if (phase == 0 && begin == 0) report_indices(call, &rows, call->in[2].data);
    if (phase == 1) prepare_items(call, &rows, begin, end, local);
    if (phase != call->n_phases - 1) return;
    multiply_items(call, &rows, begin, end, few, room + (few ? list_bytes(&rows) : 0), local);
}

/* ---- expert_linear_backward ------------------------------------------------------------------ */

static bool backward_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32 && in[1]->dtype == ZT_F32 && zt_type_count(in[2]) <= INT32_MAX / 2 &&
           in[3]->dim[0] <= INT32_MAX / 4;
}

/* An item is an expert; before that one item sorts. */
static void backward_setup(zt_cpu_call *call)
{
    expert_rows rows = rows_at(call, call->in[3].type.dim[0], NULL);
    call->n_phases = 2;
    call->items[0] = 1;
    call->items[1] = rows.experts;
    call->shared_bytes = list_bytes(&rows);
}

/* y += a x */
static void add_scaled(float *y, float a, const float *x, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) vf_store(y + i, vf_fma(vf_set(a), vf_load(x + i), vf_load(y + i)));
    int rest = (int)(count - i);
    if (rest) vf_store_n(y + i, rest, vf_fma(vf_set(a), vf_load_n(x + i, rest), vf_load_n(y + i, rest)));
}

static void backward_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    expert_rows rows = rows_at(call, call->in[3].type.dim[0], call->shared);
    const int64_t M = call->in[3].type.dim[1], K = call->in[3].type.dim[2];
    const float *x = call->in[0].data, *dy = call->in[1].data;
    (void)local;
    if (phase == 0) {
        sort_rows(&rows, call->in[2].data);
        report_indices(call, &rows, call->in[2].data);
        return;
    }
    for (int64_t expert = begin; expert < end; expert++) {
        float *dw = (float *)call->out[0].data + expert * M * K;
        memset(dw, 0, (size_t)(M * K) * sizeof *dw);
        for (int64_t m = 0; m < M; m++)
            for (int32_t at = rows.begin[expert]; at < rows.begin[expert + 1]; at++)
                add_scaled(dw + m * K, dy[rows.to[at] * M + m], x + rows.from[at] * K, K);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_expert)[] = {
    {.op = ZT_OP_expert_linear, .has = expert_linear_has, .setup = expert_linear_setup, .run = expert_linear_run, .uneven = true},
    {.op = ZT_OP_expert_linear_backward, .has = backward_has, .setup = backward_setup, .run = backward_run, .uneven = true},
    {0},
};
