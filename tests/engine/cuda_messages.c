/* cuda_messages.c - what a kernel finds wrong with its numbers is told on cuda as on the cpu, word for
 * word, whichever thread came upon it first: the first in the order of the reference loop. */
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
static zt_engine *engines[2]; /* cpu, cuda */

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

/* One case with two bad numbers in it: 1 they say the same, 0 they do not, -1 none says anything.
 */
static int check(int f, zt_case *op_case, int index)
{
    const zt_opinfo *info = zt_op_info(faulty[f].op);
    const zt_type *at = &op_case->in[faulty[f].input];
    const int64_t count = zt_type_count(at);
    oneop call = {.op = faulty[f].op, .attrs = op_case->attrs};
    void *data[ZT_MAX_IN] = {0};
    char text[2][400];
    if (op_case->fill[faulty[f].input] == ZT_FILL_ABSENT || count < 1 || zt_dtype_is_float(at->dtype)) return -1;
    /* What cuda leaves to the cpu: indices of i64, and tables of integers. */
    if (at->dtype == ZT_I64 || (faulty[f].op == ZT_OP_gather && !zt_dtype_is_float(op_case->in[0].dtype))) return -1;
    for (int k = 0; k < info->n_in; k++) {
        if (op_case->fill[k] == ZT_FILL_ABSENT) continue;
        call.in[k] = &op_case->in[k];
        call.data[k] = data[k] = calloc(1, zt_type_bytes(&op_case->in[k]) + 8);
        zt_case_fill(op_case, k, 1, data[k]);
    }
    put_index(at, data[faulty[f].input], count / 2, faulty[f].bad[0]);
    put_index(at, data[faulty[f].input], count - 1, faulty[f].bad[1]);
    int good = -1;
    /* At what gives nothing the cpu does not look. */
    if (!zt_op_infer(NULL, call.op, call.attrs, call.in, call.out) && zt_type_count(&call.out[0]) > 0) {
        run_both(&call, text);
        good = strcmp(text[0], text[1]) == 0;
        if (!good) diag("%s case %d: cpu '%s', cuda '%s'", info->name, index, text[0], text[1]);
        if (good && (!text[0][0] || !strcmp(text[0], "no kernel"))) good = -1;
    }
    for (int k = 0; k < info->n_in; k++) free(data[k]);
    return good;
}

int main(void)
{
    ctx = zt_ctx_new();
    engines[1] = device_open(ctx, "cuda");
    if (!engines[1]) return device_done(ctx, NULL);
    engines[0] = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    for (int f = 0; f < (int)(sizeof faulty / sizeof faulty[0]); f++) {
        int told = 0, wrong = 0;
        zt_case op_case;
        for (int i = 0; zt_op_case(faulty[f].op, i, &op_case); i++) {
            int r = check(f, &op_case, i);
            told += r == 1;
            wrong += r == 0;
        }
        ok(told > 0 && !wrong, "%s: %d lines as the cpu's", zt_op_info(faulty[f].op)->name, told);
    }
    zt_engine_close(engines[0]);
    return device_done(ctx, engines[1]);
}
