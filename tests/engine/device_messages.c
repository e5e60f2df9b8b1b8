/* device_messages.c - what a kernel finds wrong with its numbers is reported on cuda and on vulkan as on the cpu, word for
 * word, whichever thread finds it first: the first in the order of the reference loop. */
#include "tests/engine/device.h"
#include "tests/common/one_op.h"

#include <stdlib.h>

/* Ops and their input of indices, classes or divisors; what is put there, twice. */
static const struct {
    zt_op op;
    int input;
    int64_t bad[2];
} faulty[] = {
    {ZT_OP_gather, 1, {70000, -1}},
    {ZT_OP_scatter_add, 1, {70000, -1}},
    {ZT_OP_gather_elements, 1, {-3, 70000}},
    {ZT_OP_scatter_add_elements, 1, {-3, 70000}},
    {ZT_OP_scatter_elements, 1, {70000, 70001}},
    {ZT_OP_gather_nd, 1, {70000, -1}},
    {ZT_OP_scatter_nd, 1, {-9, 70000}},
    {ZT_OP_one_hot, 0, {70000, -1}},
    {ZT_OP_max_unpool, 1, {70000, -1}},
    {ZT_OP_plane_gather, 1, {70000, -1}},
    {ZT_OP_cross_entropy, 1, {70000, -1}},
    {ZT_OP_cross_entropy_backward, 1, {70000, -1}},
    {ZT_OP_nll, 1, {70000, -1}},
    {ZT_OP_nll_backward, 1, {70000, -1}},
    {ZT_OP_kv_put, 2, {70000, -1}},
    {ZT_OP_kv_put, 3, {70000, -1}},
    {ZT_OP_attention, 3, {70000, -1}},
    {ZT_OP_rope_put, 5, {70000, -1}},
    {ZT_OP_div, 1, {0, 0}},
    {ZT_OP_mod, 1, {0, 0}},
    {ZT_OP_fmod, 1, {0, 0}},
};

static zt_ctx *ctx;
static const char *device;
static zt_engine *engines[2]; /* cpu, the device */

/* Element i of a value of an integer type; the low bytes are those of any width. */
static void put_index(const zt_type *t, void *data, int64_t i, int64_t v)
{
    size_t bytes = (size_t)zt_dtype_get(t->dtype)->block_bytes;
    memcpy((char *)data + (size_t)i * bytes, &v, bytes);
}

/* Both engines on the same bytes; text: what each says, "" where it runs. */
static void run_both(const oneop *call, char text[2][400])
{
    const zt_opinfo *info = zt_op_info(call->op);
    for (int e = 0; e < 2; e++) {
        oneop one = *call;
        for (int k = 0; k < info->n_out; k++) one.result[k] = calloc(1, zt_type_bytes(&one.out[k]) + 8);
        text[e][0] = 0;
        if (!oneop_has(engines[e], &one))
            strcpy(text[e], "no kernel");
        else if (oneop_run(engines[e], &one))
            snprintf(text[e], sizeof text[e], "%s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        for (int k = 0; k < info->n_out; k++) free(one.result[k]);
    }
}

/* One case with two bad numbers in it. */
typedef enum verdict { SAME, OTHER, SILENT, NO_KERNEL, VERDICTS } verdict;

static verdict check(int f, zt_case *op_case, int index)
{
    const zt_opinfo *info = zt_op_info(faulty[f].op);
    const zt_type *at = &op_case->in[faulty[f].input];
    const int64_t count = zt_type_count(at);
    oneop call = {.op = faulty[f].op, .attrs = op_case->attrs};
    void *data[ZT_MAX_IN] = {0};
    char text[2][400];
    if (op_case->fill[faulty[f].input] == ZT_FILL_ABSENT || count < 1 || zt_dtype_is_float(at->dtype)) return SILENT;
    for (int k = 0; k < info->n_in; k++) {
        if (op_case->fill[k] == ZT_FILL_ABSENT) continue;
        call.in[k] = &op_case->in[k];
        call.data[k] = data[k] = calloc(1, zt_type_bytes(&op_case->in[k]) + 8);
        zt_case_fill(op_case, k, 1, data[k]);
    }
    put_index(at, data[faulty[f].input], count / 2, faulty[f].bad[0]);
    put_index(at, data[faulty[f].input], count - 1, faulty[f].bad[1]);
    verdict found = SILENT;
    /* At what gives nothing the cpu does not look. */
    if (!zt_op_infer(NULL, call.op, call.attrs, call.in, call.out) && zt_type_count(&call.out[0]) > 0) {
        run_both(&call, text);
        found = strcmp(text[0], text[1]) ? OTHER : text[0][0] ? SAME : SILENT;
        if (!strcmp(text[0], "no kernel") || !strcmp(text[1], "no kernel")) found = NO_KERNEL;
        if (found == OTHER) diag("%s case %d: cpu '%s', %s '%s'", info->name, index, text[0], device, text[1]);
    }
    for (int k = 0; k < info->n_in; k++) free(data[k]);
    return found;
}

static void check_device(const char *name)
{
    device = name;
    engines[1] = device_open(ctx, name);
    if (!engines[1]) return;
    for (int f = 0; f < (int)(sizeof faulty / sizeof faulty[0]); f++) {
        const char *op = zt_op_info(faulty[f].op)->name;
        int count[VERDICTS] = {0};
        zt_case op_case;
        for (int i = 0; zt_op_case(faulty[f].op, i, &op_case); i++) count[check(f, &op_case, i)]++;
        if (!count[SAME] && !count[OTHER] && count[NO_KERNEL])
            skip("%s: %s has no kernel", op, name);
        else
            ok(count[SAME] > 0 && !count[OTHER], "%s: %d messages of %s as the cpu's", op, count[SAME], name);
    }
    zt_engine_close(engines[1]);
}

int main(void)
{
    ctx = zt_ctx_new();
    engines[0] = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    check_device("cuda");
    check_device("vulkan");
    return device_done(ctx, engines[0]);
}
