/* cuda_nan_rows.c - on cuda what is no number stays with the rows that see it: attention over a cache
 * whose later values are infinite or NaN, of many rows at once and of each alone. */
#include "tests/engine/device.h"
#include "tests/common/one_op.h"

#include <math.h>
#include <stdlib.h>

enum { N = 70, H = 4, G = 2, D = 64, CTX = 128, POS0 = 20, ODD = 60, ODD_COLUMN = 5 };

static zt_ctx *ctx;
static zt_engine *engine;
static float q[N * H * D], whole[N * H * D], alone[H * D];
static uint16_t k[CTX * G * D], v[CTX * G * D];
static int32_t pos[N];

static uint32_t draw(void)
{
    static uint32_t s = 12345;
    return (s = s * 1664525 + 1013904223) >> 8;
}

static void fill(void)
{
    for (int i = 0; i < N * H * D; i++) q[i] = (float)draw() / 8e6f - 1;
    for (int i = 0; i < CTX * G * D; i++) { /* 0.5 to 1, of either sign */
        k[i] = (uint16_t)(0x3800 | (draw() >> 6 & 0x83ff));
        v[i] = (uint16_t)(0x3800 | (draw() >> 6 & 0x83ff));
    }
    for (int i = 0; i < N; i++) pos[i] = POS0 + i;
    v[(ODD * G) * D + ODD_COLUMN] = 0x7c00;           /* infinity, in key head 0 */
    v[((ODD + 9) * G + 1) * D + ODD_COLUMN] = 0x7e00; /* NaN, in key head 1 */
}

static bool attend(int from, int count, float *y)
{
    static const zt_attention_attrs attrs = {.head = D};
    zt_type in[4] = {{.dtype = ZT_F32, .rank = 2, .dim = {count, H * D}},
                     {.dtype = ZT_F16, .rank = 2, .dim = {CTX, G * D}},
                     {.dtype = ZT_F16, .rank = 2, .dim = {CTX, G * D}},
                     {.dtype = ZT_I32, .rank = 1, .dim = {count}}};
    oneop call = {.op = ZT_OP_attention, .attrs = &attrs, .result = {y}};
    const void *data[] = {q + from * H * D, k, v, pos + from};
    for (int i = 0; i < 4; i++) call.in[i] = &in[i], call.data[i] = data[i];
    return oneop_made(engine, &call);
}

/* Has a row NaN just where it sees what is no number? */
static bool is_right(int row, const float *y)
{
    for (int i = 0; i < H * D; i++) {
        int group = i / D / (H / G), seen = pos[row] >= ODD + 9 * group;
        bool odd = seen && i % D == ODD_COLUMN;
        if (odd ? !isnan(y[i]) : !isfinite(y[i])) {
            diag("row %d, number %d: %g", row, i, (double)y[i]);
            return false;
        }
    }
    return true;
}

int main(void)
{
    ctx = zt_ctx_new();
    engine = device_open(ctx, "cuda");
    if (!engine) return device_done(ctx, NULL);
    fill();
    bool right = attend(0, N, whole), same = right;
    for (int row = 0; row < N && right; row++) right = is_right(row, whole + row * H * D);
    ok(right, "only rows that see it have what is no number");
    for (int row = 3; row < N && same; row += 11) {
        same = attend(row, 1, alone);
        for (int i = 0; i < H * D && same; i++) same = !memcmp(&alone[i], &whole[row * H * D + i], 4);
    }
    ok(same, "and each alone has the same bits");
    return device_done(ctx, engine);
}
