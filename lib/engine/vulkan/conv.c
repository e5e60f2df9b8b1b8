/* conv.c - convolution and its gradients. */
#include "lib/engine/vulkan/matmul.h"
#include "lib/engine/vulkan/window.h"

/* As shaders/conv.comp has them; summed at once of a filter's gradient, whose sums are long. */
enum { RESULT, DATA, FILTER, PART = 2048, MOST_PARTS = 1024 };

/* large [N,B,in], small [N,A,out], w [A,B/groups,taps]: one of them is y. */
typedef struct convolution {
    int kind;
    int64_t N, A, B, groups;
    zt_window window;
} convolution;

static convolution convolution_of(int kind, const zt_window_lists *lists, int64_t groups, const zt_type *large,
                                  const zt_type *small, const zt_type *w)
{
    return (convolution){kind,          large->dim[0], small->dim[1],
                         large->dim[1], groups,        zt_window_of(lists, large, small, w->dim + 2)};
}

static convolution describe_conv(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_conv_attrs *conv = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(conv);
    return convolution_of(RESULT, &lists, conv->groups, in[0], &out[0], in[1]);
}

static convolution describe_transpose(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_conv_transpose_attrs *conv = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(conv);
    return convolution_of(DATA, &lists, conv->groups, &out[0], in[0], in[1]);
}

static convolution describe_filter(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_conv_backward_filter_attrs *conv = attrs;
    const zt_window_lists lists = ZT_WINDOW_LISTS(conv);
    return convolution_of(FILTER, &lists, conv->groups, in[0], in[1], &out[0]);
}

/* Rows and columns of a group's product, and how long its sums are. */
static void sizes_of(const convolution *conv, int64_t *rows, int64_t *columns, int64_t *sum_length)
{
    const int64_t a_each = conv->A / conv->groups, b_each = conv->B / conv->groups, taps = conv->window.taps;
    const int64_t large = conv->N * conv->window.n_in, small = conv->N * conv->window.n_out;
    *rows = conv->kind == DATA ? b_each : a_each;
    *columns = conv->kind == RESULT ? small : conv->kind == DATA ? large : b_each * taps;
    *sum_length = conv->kind == RESULT ? b_each * taps : conv->kind == DATA ? a_each * taps : small;
}

static void set_pass(const zt_vk_engine *engine, zt_vk_call *call, const convolution *conv, int64_t part, int64_t parts)
{
    int64_t rows, columns, sum_length;
    sizes_of(conv, &rows, &columns, &sum_length);
    call->shader = ZT_VK_SHADER_conv;
    call->spec[0] = (uint32_t)conv->kind;
    call->word[0] = (uint32_t)conv->N;
    call->word[1] = (uint32_t)conv->A;
    call->word[2] = (uint32_t)conv->B;
    call->word[3] = (uint32_t)conv->groups;
    call->word[4] = (uint32_t)part;
    call->word[5] = (uint32_t)parts;
    zt_vk_set_tiles(engine, call, 6, rows, columns, conv->groups * parts);
}

/* y of the whole sums, whose operands are w, large and bias; or small and large. */
static zt_status set_whole(zt_vk_engine *engine, zt_vk_call *call, const convolution *conv, zt_vk_arg left, zt_vk_arg right,
                           zt_vk_arg bias)
{
    zt_status status = zt_vk_set_window(engine, call, &conv->window);
    if (status) return status;
    set_pass(engine, call, conv, INT32_MAX, 1);
    ZT_VK_ARGS(call, left, right, bias, zt_vk_table(0), zt_vk_out(0));
    return ZT_OK;
}

static zt_status set_conv(zt_vk_engine *engine, zt_vk_call *call)
{
    const convolution conv = describe_conv(call->attrs, call->in, call->out);
    return set_whole(engine, call, &conv, zt_vk_in(1), zt_vk_in(0), zt_vk_in(2));
}

static zt_status set_transpose(zt_vk_engine *engine, zt_vk_call *call)
{
    const convolution conv = describe_transpose(call->attrs, call->in, call->out);
    return set_whole(engine, call, &conv, zt_vk_in(1), zt_vk_in(0), zt_vk_in(2));
}

/* Long sums in parts of one size, which are summed by another pass. */
static zt_status set_filter(zt_vk_engine *engine, zt_vk_call *call)
{
    const convolution conv = describe_filter(call->attrs, call->in, call->out);
    const int64_t sum_length = conv.N * conv.window.n_out, count = zt_type_count(call->out);
    int64_t part = PART;
    while (sum_length / part >= MOST_PARTS) part *= 2;
    const int64_t parts = (sum_length + part - 1) / part;
    if (parts <= 1 || count * parts > INT32_MAX) return set_whole(engine, call, &conv, zt_vk_in(1), zt_vk_in(0), zt_vk_none());
    zt_status status = zt_vk_set_window(engine, call, &conv.window);
    if (status) return status;
    const zt_vk_arg sums = zt_vk_scratch(call, (size_t)(count * parts) * zt_vk_sum_bytes(call->out->dtype));
    set_pass(engine, call, &conv, part, parts);
    ZT_VK_ARGS(call, zt_vk_in(1), zt_vk_in(0), zt_vk_none(), zt_vk_table(0), sums);
    status = zt_vk_then(engine, call);
    if (status) return status;
    call->shader = ZT_VK_SHADER_conv_parts;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)parts;
    ZT_VK_ARGS(call, sums, zt_vk_out(0));
    zt_vk_spread(engine, call, count, 64);
    return ZT_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define HAS(NAME)                                                                                                                \
    static bool has_##NAME(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])        \
    {                                                                                                                            \
        if (!zt_vk_is_real(engine, in[0]->dtype)) return false;                                                                  \
        const convolution conv = describe_##NAME(attrs, in, out);                                                                \
        return zt_vk_window_fits(&conv.window);                                                                                  \
    }
HAS(conv)
HAS(transpose)
HAS(filter)

const zt_vk_kernel zt_vk_conv[] = {
    {.op = ZT_OP_conv, .has = has_conv, .set = set_conv},
    {.op = ZT_OP_conv_transpose, .has = has_transpose, .set = set_transpose},
    {.op = ZT_OP_conv_backward_filter, .has = has_filter, .set = set_filter},
    {0},
};
