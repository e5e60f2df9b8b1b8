/* linear_fused.c - kernels of rows with products and what is done to them (lib/ops/linear_fused.c): x is
 * brought into its form once for all products that read that form; the weights' groups are one list
 * of items, so that threads stay balanced over all of them.
 *
 * A product is linear's, and what comes after it is the kernel of its elementwise op, run on a
 * piece of the product while that is in the caches. So the bits are those of the expansion.
 */
#include "lib/ops/linear.h"
#include "lib/engine/cpu/isa/gemm_quant/product.h"

#include <string.h>

enum { LINE = 64, MAX_PRODUCTS = 3, PIECE_ELEMENTS = 4096 /* elements of a product that are worked on at once */ };

static size_t whole_lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* ---- products of one x ----------------------------------------------------------------------- */

typedef struct product_set {
    int count;
    zt_product product[MAX_PRODUCTS];
    int acts_from[MAX_PRODUCTS];  /* the first product with activations like this one's */
    size_t acts_at[MAX_PRODUCTS]; /* in a thread's scratch: activations of each acts_from */
    size_t scratch_at, bytes;     /* products' own scratch, behind activations; with both */
} product_set;

/* Where x is one that another product brings into its form, only the weights may want packing. */
static int64_t prepare_items_of(const product_set *set, int k)
{
    const zt_product *product = &set->product[k];
    return set->acts_from[k] == k ? product->prepare_items : product->packs_weights ? product->group_count : 0;
}

/* Products of in[0] by the weights that are there of n from in[w] on, with biases from in[b] on; the
 * first with an act of its own. */
static product_set make_product_set(const zt_cpu_call *call, int count, int first_weight, int first_bias, const char *act,
                                    const char *first_act)
{
    product_set set = {0};
    size_t shared = 0, scratch = 0;
    for (int k = 0; k < count; k++) {
        if (!call->in[first_weight + k].data) continue;
        zt_product *product = &set.product[set.count];
        *product = ZT_SYM(zt_product_make)(&call->in[0], &call->in[first_weight + k], &call->in[first_bias + k],
                                           k ? act : first_act, call->tile, (uint8_t *)call->shared + shared);
        shared += whole_lines(product->shared_bytes);
        if (whole_lines(product->local_bytes) > scratch) scratch = whole_lines(product->local_bytes);
        set.acts_from[set.count] = set.count;
        for (int i = set.count - 1; i >= 0; i--)
            if (ZT_SYM(zt_product_same_acts)(&set.product[i], product)) set.acts_from[set.count] = i;
        set.acts_at[set.count] = set.scratch_at;
        if (set.acts_from[set.count] == set.count && product->acts_per_thread) set.scratch_at += whole_lines(product->acts_bytes);
        set.count++;
    }
    set.bytes = set.scratch_at + scratch;
    return set;
}

static size_t shared_bytes_of(const product_set *set)
{
    size_t bytes = 0;
    for (int k = 0; k < set->count; k++) bytes += whole_lines(set->product[k].shared_bytes);
    return bytes;
}

/* `items` of the last phase. */
static void set_up_call(zt_cpu_call *call, const product_set *set, int64_t items, size_t more)
{
    int64_t first = 0;
    for (int k = 0; k < set->count; k++) first += prepare_items_of(set, k);
    call->n_phases = first ? 2 : 1;
    call->items[0] = first;
    call->items[call->n_phases - 1] = items;
    call->shared_bytes = shared_bytes_of(set);
    call->local_bytes = set->bytes + more;
}

static void run_prepare_phase(const product_set *set, int64_t begin, int64_t end, uint8_t *local)
{
    for (int k = 0; k < set->count && begin < end; k++) {
        int64_t items = prepare_items_of(set, k), last = end < items ? end : items;
        if (begin < last) ZT_SYM(zt_product_prepare)(&set->product[k], begin, last, local + set->scratch_at);
        begin = begin > items ? begin - items : 0;
        end -= items;
    }
}

/* The activations that product k reads; `made`: those that this thread has made already. */
static const uint8_t *activations_of(const product_set *set, int k, unsigned *made, uint8_t *local)
{
    int from = set->acts_from[k];
    const zt_product *product = &set->product[from];
    if (*made >> from & 1 && product->acts_per_thread && !product->acts_in_place) return local + set->acts_at[from];
    *made |= 1u << from;
    return ZT_SYM(zt_product_activations)(product, local + set->acts_at[from], local + set->scratch_at);
}

/* ---- linears --------------------------------------------------------------------------------- */

static bool linears_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    for (int k = 0; k < MAX_PRODUCTS; k++)
        if (in[1 + k] && !ZT_SYM(zt_product_supports)(in[0], in[1 + k], in[4 + k])) return false;
    return true;
}

static product_set linears_set(const zt_cpu_call *call)
{
    const zt_linears_attrs *attrs = call->attrs;
    return make_product_set(call, MAX_PRODUCTS, 1, 4, attrs->act.s, zt_linears_act(attrs, 0)->s);
}

static void linears_setup(zt_cpu_call *call)
{
    product_set set = linears_set(call);
    int64_t items = 0;
    for (int k = 0; k < set.count; k++) items += set.product[k].multiply_items;
    set_up_call(call, &set, items, 0);
}

static void linears_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    product_set set = linears_set(call);
    unsigned made = 0;
    if (phase != call->n_phases - 1) {
        run_prepare_phase(&set, begin, end, local);
        return;
    }
    for (int k = 0; k < set.count && begin < end; k++) {
        int64_t items = set.product[k].multiply_items, last = end < items ? end : items;
        // clang-format off
        if (begin < last && call->out[k].data)
            ZT_SYM(zt_product_multiply_items)(&set.product[k], activations_of(&set, k, &made, local), call->out[k].data, begin, last,
                                              (uint8_t *)local + set.scratch_at);
        // clang-format on
        begin = begin > items ? begin - items : 0;
        end -= items;
    }
}

static int linears_prefetch(const zt_cpu_call *call, int64_t begin, int64_t end, zt_cpu_prefetch pieces_out[])
{
    product_set set = linears_set(call);
    int pieces = 0;
    for (int k = 0; k < set.count && begin < end; k++) {
        int64_t items = set.product[k].multiply_items, last = end < items ? end : items;
        if (begin < last) pieces += ZT_SYM(zt_product_prefetch)(&set.product[k], begin, last, &pieces_out[pieces]);
        begin = begin > items ? begin - items : 0;
        end -= items;
    }
    return pieces;
}

/* ---- products, and an elementwise op on them ------------------------------------------------- */

/* A kernel of this instruction set for the op that comes after. */
static const zt_cpu_kernel *find_kernel(const zt_after *after)
{
    static const zt_cpu_kernel *const lists[] = {ZT_SYM(zt_cpu_elementwise_unary), ZT_SYM(zt_cpu_elementwise_binary)};
    for (int i = 0; i < 2; i++)
        for (const zt_cpu_kernel *kernel = lists[i]; kernel->run; kernel++)
            if (kernel->op == after->op) return kernel; /* the first of each takes the floats that x may have */
    return NULL;
}

static const zt_after add_after = {"add", ZT_OP_add, NULL};

/* A row: its products, what comes after, and the input that this reads beside them (0: none). */
typedef struct after_set {
    product_set products;
    const zt_after *after;
    const zt_cpu_kernel *kernel;
    int beside_input;
    int64_t block, groups; /* as a product's, of all of them */
    int64_t groups_at_once;
    size_t piece_bytes, room_bytes; /* of a piece's elements; with the kernel's scratch */
    zt_cpu_call piece_call;         /* of the kernel, on a piece */
} after_set;

static after_set make_after_set(const zt_cpu_call *call, product_set set, const zt_after *after, int beside_input)
{
    after_set made = {.products = set, .after = after, .kernel = find_kernel(after), .beside_input = beside_input};
    int64_t tokens, at_once = 1;
    made.groups = set.product[0].group_count;
    made.block = set.product[0].block_tokens;
    for (int k = 0; k < set.count; k++) {
        if (set.product[k].block_tokens < made.block) made.block = set.product[k].block_tokens;
        if (set.product[k].groups_at_once > at_once) at_once = set.product[k].groups_at_once;
    }
    tokens = set.product[0].tokens < made.block ? set.product[0].tokens : made.block;
    made.groups_at_once = PIECE_ELEMENTS / 16 / (tokens > 0 ? tokens : 1) / at_once * at_once;
    if (made.groups_at_once < at_once) made.groups_at_once = at_once;
    if (made.groups_at_once > made.groups) made.groups_at_once = made.groups;
    zt_type piece_type = zt_type_make(call->in[0].type.dtype, 2, (int64_t[]){tokens, 16 * made.groups_at_once});
    made.piece_bytes = whole_lines(zt_type_bytes(&piece_type));
    made.piece_call = (zt_cpu_call){.kernel = made.kernel, .op = after->op, .attrs = after->attrs, .n_phases = 1};
    made.piece_call.in[0].type = made.piece_call.in[1].type = made.piece_call.out[0].type = piece_type;
    made.kernel->setup(&made.piece_call);
    made.room_bytes = 2 * made.piece_bytes + whole_lines(made.piece_call.local_bytes);
    return made;
}

static void after_setup(zt_cpu_call *call, const after_set *set)
{
    int64_t tokens = set->products.product[0].tokens;
    set_up_call(call, &set->products, (tokens + set->block - 1) / set->block * set->groups, set->room_bytes);
}

/* Rows of `bytes` from one step to another. They are few lines each: line by line is faster than a
 * call. */
static void copy_rows(const char *from, size_t from_step, char *to, size_t to_step, int64_t rows, size_t bytes)
{
    for (int64_t r = 0; r < rows; r++, from += from_step, to += to_step) {
        size_t i = 0;
        for (; i + LINE <= bytes; i += LINE) memcpy(to + i, from + i, LINE);
        if (i < bytes) memcpy(to + i, from + i, bytes - i);
    }
}

/* Rows of `bytes`, a step apart, will be written: to the second-level cache, as the first has few
 * places for what is so far apart. */
static void prefetch_rows(const char *to, size_t step, int64_t rows, size_t bytes)
{
    for (int64_t r = 0; r < rows; r++, to += step)
        for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch(to + i, 1, 2);
}

/* Rows t..last-1 and groups g..end-1 of y. */
static void run_piece(const zt_cpu_call *call, after_set *set, const uint8_t *const *acts, int64_t first, int64_t last,
                      int64_t begin, int64_t end, uint8_t *local)
{
    int64_t M = set->products.product[0].M, first_column = 16 * begin, columns = (16 * end < M ? 16 * end : M) - first_column;
    size_t size = (size_t)zt_dtype_get(call->in[0].type.dtype)->block_bytes;
    size_t at = (size_t)(first * M + first_column) * size, step = (size_t)M * size, bytes = (size_t)columns * size;
    uint8_t *room = local + set->products.bytes, *element[] = {room, room + set->piece_bytes};
    zt_product_out out = {.row_stride = columns, .first_token = first, .first_column = first_column};
    int in = 0;
    if (!set->products.product[0].acts_per_thread) prefetch_rows((char *)call->out[0].data + at, step, last - first, bytes);
    if (set->beside_input)
        copy_rows((const char *)call->in[set->beside_input].data + at, step, (char *)element[in++], bytes, last - first, bytes);
    for (int k = 0; k < set->products.count; k++) {
        out.at = (char *)element[in++];
        ZT_SYM(zt_product_multiply)
        (&set->products.product[k], acts[k], &out, first, last, begin, end, local + set->products.scratch_at);
    }
    zt_cpu_call *piece = &set->piece_call;
    for (int k = 0; k < 2; k++) {
        piece->in[k].type.dim[0] = piece->out[0].type.dim[0] = last - first;
        piece->in[k].type.dim[1] = piece->out[0].type.dim[1] = columns;
        piece->in[k].data = k < in ? element[k] : NULL;
    }
    piece->out[0].data = element[0];
    set->kernel->setup(piece);
    set->kernel->run(piece, 0, 0, piece->items[0], room + 2 * set->piece_bytes);
    copy_rows((char *)element[0], bytes, (char *)call->out[0].data + at, step, last - first, bytes);
}

static void after_run(zt_cpu_call *call, after_set *set, int phase, int64_t begin, int64_t end, uint8_t *local)
{
    const uint8_t *acts[MAX_PRODUCTS];
    unsigned made = 0;
    int64_t tokens = set->products.product[0].tokens;
    if (phase != call->n_phases - 1) {
        run_prepare_phase(&set->products, begin, end, local);
        return;
    }
    for (int k = 0; k < set->products.count; k++) acts[k] = activations_of(&set->products, k, &made, local);
    while (begin < end) {
        int64_t token = begin / set->groups * set->block, group = begin % set->groups;
        int64_t last = token + set->block < tokens ? token + set->block : tokens, count = set->groups_at_once;
        if (count > set->groups - group) count = set->groups - group;
        if (count > end - begin) count = end - begin;
        run_piece(call, set, acts, token, last, group, group + count, local);
        begin += count;
    }
}

static int after_prefetch(const after_set *set, int64_t begin, int64_t end, zt_cpu_prefetch pieces_out[])
{
    int pieces = 0;
    for (int k = 0; k < set->products.count; k++)
        pieces += ZT_SYM(zt_product_prefetch)(&set->products.product[k], begin, end, &pieces_out[pieces]);
    return pieces;
}

/* ---- the rows -------------------------------------------------------------------------------- */

static bool one_product_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return ZT_SYM(zt_product_supports)(in[0], in[1], in[2]);
}

static bool add_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return ZT_SYM(zt_product_supports)(in[0], in[1], in[3]);
}

static bool gated_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return ZT_SYM(zt_product_supports)(in[0], in[1], in[3]) && ZT_SYM(zt_product_supports)(in[0], in[2], in[4]);
}

static after_set gated_set(const zt_cpu_call *call)
{
    const zt_gated_linear_attrs *attrs = call->attrs;
    return make_after_set(call, make_product_set(call, 2, 1, 3, attrs->act.s, attrs->act.s), zt_gate_after(&attrs->gate), 0);
}

static after_set act_set(const zt_cpu_call *call)
{
    const zt_linear_act_attrs *attrs = call->attrs;
    return make_after_set(call, make_product_set(call, 1, 1, 2, attrs->act.s, attrs->act.s), zt_curve_after(&attrs->curve), 0);
}

static after_set add_set(const zt_cpu_call *call)
{
    const zt_linear_add_attrs *attrs = call->attrs;
    return make_after_set(call, make_product_set(call, 1, 1, 3, attrs->act.s, attrs->act.s), &add_after, 2);
}

// clang-format off
#define AFTER(name)                                                                                \
    static void name##_setup(zt_cpu_call *call)                                                       \
    {                                                                                              \
        after_set a = name##_set(call);                                                               \
        after_setup(call, &a);                                                                        \
    }                                                                                              \
    static void name##_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)     \
    {                                                                                              \
        after_set a = name##_set(call);                                                               \
        after_run(call, &a, phase, begin, end, local);                                                \
    }                                                                                              \
    static int name##_prefetch(const zt_cpu_call *call, int64_t begin, int64_t end, zt_cpu_prefetch to[])   \
    {                                                                                              \
        after_set a = name##_set(call);                                                               \
        return after_prefetch(&a, begin, end, to);                                                    \
    }
// clang-format on
AFTER(gated)
AFTER(act)
AFTER(add)

#define KERNEL(OP, name, has_it)                                                                                                 \
    {                                                                                                                            \
        .op = OP, .has = has_it, .setup = name##_setup, .run = name##_run, .prefetch = name##_prefetch                           \
    }
const zt_cpu_kernel ZT_SYM(zt_cpu_linear_fused)[] = {
    KERNEL(ZT_OP_linears, linears, linears_has),
    KERNEL(ZT_OP_gated_linear, gated, gated_has),
    KERNEL(ZT_OP_linear_act, act, one_product_has),
    KERNEL(ZT_OP_linear_add, add, add_has),
    {0},
};
