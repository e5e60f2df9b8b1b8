/* loss.c - losses of values and of classes, and what the latter pass back. Sums over all elements are made by parts, which
 * a last pass adds up. */
#include "lib/engine/vulkan/vk.h"

enum {
    GROUP = 64,
    EACH = 4096, /* elements of a part: shaders/loss_pair.comp, loss_sum.comp */
    MOST_SUMMED = 1 << 19
};

static bool float_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype);
}

/* What sums and weights are kept in. */
static zt_dtype summed(const zt_vk_call *call) { return zt_vk_summed(call->in[0]->dtype); }
static size_t sum_bytes(const zt_vk_call *call) { return zt_vk_sum_bytes(call->in[0]->dtype); }

/* y = sum a / sum b, or without b sum a / by. */
typedef struct loss_sum {
    zt_vk_arg a, b, y;
    int64_t a_count, b_count;
    int64_t by;
    zt_dtype a_type;
    bool wide; /* y is of the type of sums, else of x's */
} loss_sum;

static void set_sum(zt_vk_call *call, const loss_sum *sum)
{
    call->shader = ZT_VK_SHADER_loss_sum;
    call->word[0] = (uint32_t)sum->a_count;
    call->word[1] = (uint32_t)sum->b_count;
    call->word[2] = (uint32_t)sum->by;
    call->word[3] = zt_vk_floats(sum->a_type);
    call->word[4] = sum->wide;
    call->groups[0] = call->groups[1] = call->groups[2] = 1;
    ZT_VK_ARGS(call, sum->a, sum->b, sum->y);
}

/* Of many numbers of the type of sums the sums of parts, which then stand for them. */
static zt_status add_parts(zt_vk_engine *engine, zt_vk_call *call, zt_vk_arg *numbers, int64_t *count)
{
    int64_t parts = (*count + EACH - 1) / EACH;
    if (*count <= MOST_SUMMED || numbers->kind == ZT_VK_ARG_NONE) return ZT_OK;
    zt_vk_arg sums = zt_vk_scratch(call, (size_t)parts * sum_bytes(call));
    call->shader = ZT_VK_SHADER_loss_sum;
    call->spec[0] = 1;
    call->word[0] = (uint32_t)*count;
    zt_vk_spread(engine, call, parts, 1);
    ZT_VK_ARGS(call, *numbers, zt_vk_none(), sums);
    *numbers = sums;
    *count = parts;
    return zt_vk_then(engine, call);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The constant KIND of shaders/loss_pair.comp. */
typedef enum pair_kind { MSE, SMOOTH_L1, BCE } pair_kind;

static zt_status set_pair(zt_vk_engine *engine, zt_vk_call *call, pair_kind kind, const zt_enum_string *reduction, double beta)
{
    int64_t count = zt_type_count(call->in[0]), parts = (count + EACH - 1) / EACH;
    bool each = reduction->s[0] == 'n';
    call->shader = ZT_VK_SHADER_loss_pair;
    call->spec[0] = !each;
    call->spec[1] = kind;
    call->word[0] = (uint32_t)count;
    zt_vk_put_number(call, 1, 2, beta);
    zt_vk_spread(engine, call, each ? count : parts, each ? GROUP : 1);
    if (each) return ZT_OK;
    zt_vk_arg sums = zt_vk_scratch(call, (size_t)parts * sum_bytes(call));
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), sums);
    zt_status status = zt_vk_then(engine, call);
    if (status) return status;
    set_sum(
        call,
        &(loss_sum){
            .a = sums, .y = zt_vk_out(0), .a_count = parts, .by = reduction->s[0] == 'm' ? count : 1, .a_type = summed(call)});
    return ZT_OK;
}

static zt_status set_mse(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_pair(engine, call, MSE, &((const zt_mse_attrs *)call->attrs)->reduction, 0);
}

static zt_status set_smooth_l1(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_smooth_l1_attrs *attrs = call->attrs;
    return set_pair(engine, call, SMOOTH_L1, &attrs->reduction, attrs->beta);
}

static zt_status set_bce_with_logits(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_pair(engine, call, BCE, &((const zt_bce_with_logits_attrs *)call->attrs)->reduction, 0);
}

/* ---- classes --------------------------------------------------------------------------------- */

/* The constant KIND of shaders/loss_classes.comp, and its flags. */
typedef enum classes_kind { ROWS, LINES, WEIGHTS, CLASSES_BACK } classes_kind;
enum { NLL = 1, WIDE = 2, DY_EACH = 4, MEAN = 8, ALL = 16, NONE_IGNORED = 32 };

/* What a loss of classes is made of: `weight` is the input that holds it. */
typedef struct class_loss {
    int weight;
    int64_t positions, classes, ignore;
    double smoothing;
    char reduction; /* n, s, m */
    bool nll;
} class_loss;

static class_loss loss_of(const zt_vk_call *call, int weight, int64_t ignore, double smoothing, const zt_enum_string *reduction)
{
    return (class_loss){.weight = weight,
                        .positions = zt_type_count(call->in[1]),
                        .classes = call->in[0]->dim[1],
                        .ignore = ignore,
                        .smoothing = smoothing,
                        .reduction = reduction->s[0]};
}

static void put_classes(zt_vk_call *call, classes_kind kind, const class_loss *loss, uint32_t flags)
{
    const zt_type *x = call->in[0];
    int64_t inner = 1;
    for (int axis = 2; axis < x->rank; axis++) inner *= x->dim[axis];
    bool ignores = loss->ignore >= INT32_MIN && loss->ignore <= INT32_MAX;
    call->shader = ZT_VK_SHADER_loss_classes;
    call->spec[0] = kind;
    call->word[0] = (uint32_t)loss->positions;
    call->word[1] = (uint32_t)loss->classes;
    call->word[2] = (uint32_t)inner;
    call->word[3] = ignores ? (uint32_t)(int32_t)loss->ignore : 0;
    zt_vk_put_number(call, 4, 6, loss->smoothing);
    call->word[5] = flags | (loss->nll ? NLL : 0) | (ignores ? 0 : NONE_IGNORED);
}

static zt_status set_forward(zt_vk_engine *engine, zt_vk_call *call, const class_loss *loss)
{
    bool each = loss->reduction == 'n', mean = loss->reduction == 'm', rows = !loss->nll && loss->classes >= 64;
    zt_vk_arg losses = each ? zt_vk_out(0) : zt_vk_scratch(call, (size_t)loss->positions * sum_bytes(call));
    zt_vk_arg weights = mean ? zt_vk_scratch(call, (size_t)loss->positions * sum_bytes(call)) : zt_vk_none();
    put_classes(call, rows ? ROWS : LINES, loss, each ? 0 : WIDE);
    zt_vk_spread(engine, call, loss->positions, rows ? 1 : GROUP);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(loss->weight), losses, loss->nll ? zt_vk_none() : zt_vk_out(1), weights);
    if (each) return ZT_OK;
    zt_status status = zt_vk_then(engine, call);
    if (status) return status;
    loss_sum sum = {.a = losses,
                    .b = weights,
                    .y = zt_vk_out(0),
                    .a_count = loss->positions,
                    .b_count = loss->positions,
                    .by = 1,
                    .a_type = summed(call)};
    status = add_parts(engine, call, &sum.a, &sum.a_count);
    if (!status) status = add_parts(engine, call, &sum.b, &sum.b_count);
    if (status) return status;
    set_sum(call, &sum);
    return ZT_OK;
}

static zt_status set_cross_entropy(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_cross_entropy_attrs *attrs = call->attrs;
    class_loss loss = loss_of(call, 2, attrs->ignore_index, attrs->label_smoothing, &attrs->reduction);
    return set_forward(engine, call, &loss);
}

static zt_status set_nll(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_nll_attrs *attrs = call->attrs;
    class_loss loss = loss_of(call, 2, attrs->ignore_index, 0, &attrs->reduction);
    loss.nll = true;
    return set_forward(engine, call, &loss);
}

/* The sum of the weights of the targets that count, as one number. */
static zt_status add_total(zt_vk_engine *engine, zt_vk_call *call, const class_loss *loss, zt_vk_arg total)
{
    zt_vk_arg weights = zt_vk_scratch(call, (size_t)loss->positions * sum_bytes(call));
    put_classes(call, WEIGHTS, loss, 0);
    zt_vk_spread(engine, call, loss->positions, GROUP);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(loss->weight), weights);
    zt_status status = zt_vk_then(engine, call);
    loss_sum sum = {.a = weights, .y = total, .a_count = loss->positions, .by = 1, .a_type = summed(call), .wide = true};
    if (!status) status = add_parts(engine, call, &sum.a, &sum.a_count);
    if (status) return status;
    set_sum(call, &sum);
    return zt_vk_then(engine, call);
}

static zt_status set_back(zt_vk_engine *engine, zt_vk_call *call, const class_loss *loss, zt_vk_arg lse, zt_vk_arg dy)
{
    const zt_type *weight = call->in[loss->weight];
    zt_vk_arg sums = zt_vk_scratch(call, 2 * sum_bytes(call)), all = sums;
    bool mean = loss->reduction == 'm', smooth = weight && loss->smoothing > 0;
    zt_status status = mean ? add_total(engine, call, loss, sums) : ZT_OK;
    all.offset += sum_bytes(call);
    if (!status && smooth) {
        set_sum(
            call,
            &(loss_sum){
                .a = zt_vk_in(loss->weight), .y = all, .a_count = loss->classes, .by = 1, .a_type = weight->dtype, .wide = true});
        status = zt_vk_then(engine, call);
    }
    if (status) return status;
    put_classes(call, CLASSES_BACK, loss, (loss->reduction == 'n' ? DY_EACH : 0) | (mean ? MEAN : 0) | (smooth ? ALL : 0));
    zt_vk_spread(engine, call, loss->positions * loss->classes, GROUP);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(loss->weight), lse, dy, sums, zt_vk_out(0));
    return ZT_OK;
}

static zt_status set_cross_entropy_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_cross_entropy_backward_attrs *attrs = call->attrs;
    class_loss loss = loss_of(call, 4, attrs->ignore_index, attrs->label_smoothing, &attrs->reduction);
    return set_back(engine, call, &loss, zt_vk_in(2), zt_vk_in(3));
}

static zt_status set_nll_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_nll_backward_attrs *attrs = call->attrs;
    class_loss loss = loss_of(call, 3, attrs->ignore_index, 0, &attrs->reduction);
    loss.nll = true;
    return set_back(engine, call, &loss, zt_vk_none(), zt_vk_in(2));
}

const zt_vk_kernel zt_vk_loss[] = {
    {.op = ZT_OP_mse, .has = float_has, .set = set_mse},
    {.op = ZT_OP_smooth_l1, .has = float_has, .set = set_smooth_l1},
    {.op = ZT_OP_bce_with_logits, .has = float_has, .set = set_bce_with_logits},
    {.op = ZT_OP_cross_entropy, .has = float_has, .set = set_cross_entropy},
    {.op = ZT_OP_cross_entropy_backward, .has = float_has, .set = set_cross_entropy_backward},
    {.op = ZT_OP_nll, .has = float_has, .set = set_nll},
    {.op = ZT_OP_nll_backward, .has = float_has, .set = set_nll_backward},
    {0},
};
