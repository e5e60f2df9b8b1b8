/* masked_attention.c - what attention does not see may be anything: NaN and infinities in keys and values
 * that causality, a window, a length or a mask hides change no bit of what comes out, forward and
 * back, on any engine. (attention_ops.c has the same for single ops on ref and cpu.) */
#include "lib/run/run.h"
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>

/* Two heads of queries on one of keys. Keys 40, 70 and 99 are hidden: causally from the queries
 * before, by masks from all, by a window from those more than 20 away; by a length 70 and 99. */
enum { HEADS = 2, N = 100, MOST = 160, LENGTH = 70, WINDOW = 20, OUTS = 4 };
static const int odd[] = {40, 70, 99};

typedef enum hiding { CAUSAL, BOOLS, ADDED, SHORT, NEAR, N_HIDINGS } hiding;
static const char *const words[N_HIDINGS] = {"causality", "a mask of bools", "a mask of -infinity", "a length", "a window"};

static float numbers[4][HEADS * N * MOST]; /* q, k, v, dy */
static unsigned char in[4][sizeof numbers[0]], out[2][OUTS][sizeof numbers[0]], mask[N * 4];

static bool is_odd(hiding h, int64_t key)
{
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (odd[i] == key) return h != SHORT || key >= LENGTH;
    return false;
}

static void fill(hiding h, bool dirty, zt_dtype dtype, int64_t D)
{
    const zt_dtype_info *info = zt_dtype_get(dtype);
    for (int k = 0; k < 4; k++) {
        int64_t heads = k == 1 || k == 2 ? 1 : HEADS;
        for (int64_t i = 0; i < heads * N * D; i++) numbers[k][i] = sinf((float)(i * (2 * k + 3)) + (float)k);
        for (int64_t i = 0; i < N * D && dirty && heads == 1; i++)
            if (is_odd(h, i / D)) numbers[k][i] = k == 1 || i % 3 ? NAN : -INFINITY;
        info->encode(numbers[k], in[k], heads * N * D);
    }
}

static void fill_mask(hiding h, zt_dtype dtype)
{
    const zt_dtype_info *info = zt_dtype_get(h == BOOLS ? ZT_BOOL : dtype);
    for (int j = 0; j < N; j++) {
        float x = is_odd(h, j) ? -INFINITY : 0;
        if (h == BOOLS)
            mask[j] = !is_odd(h, j);
        else
            info->encode(&x, mask + (size_t)j * info->block_bytes, 1);
    }
}

/* y, dq, dk and dv of one program. */
static bool run_attention(zt_ctx *ctx, zt_engine *engine, hiding h, zt_dtype dtype, int64_t D, void *const outs[])
{
    static const int32_t length = LENGTH;
    static const char *const names[] = {"q", "k", "v"};
    const int64_t q_dim[] = {1, HEADS, N, D}, k_dim[] = {1, 1, N, D}, one = 1, n = N;
    bool masked = h == BOOLS || h == ADDED;
    zt_sdpa_attrs a = zt_sdpa_defaults();
    zt_prog *graph = zt_prog_new(ctx);
    int x[3], m = ZT_NONE, len = ZT_NONE;
    const void *ins[6] = {in[0], in[1], in[2]};
    int n_in = 3;
    a.causal = h == CAUSAL;
    if (h == NEAR) a.left = a.right = WINDOW;
    for (int k = 0; k < 3; k++) x[k] = zt_prog_in(graph, names[k], dtype, 4, k ? k_dim : q_dim);
    if (masked) m = zt_prog_in(graph, "mask", h == BOOLS ? ZT_BOOL : dtype, 1, &n);
    if (masked) ins[n_in++] = mask;
    if (h == SHORT) len = zt_prog_in(graph, "len", ZT_I32, 1, &one);
    if (h == SHORT) ins[n_in++] = &length;
    zt_prog_out(graph, "y", zt_program_sdpa(graph, NULL, x[0], x[1], x[2], m, len, &a, NULL));
    ins[n_in] = in[3];
    zt_prog *program = zt_prog_grad(ctx, graph, x, 3, &(zt_grad_opts){.seeds = true});
    zt_session *session = program ? zt_session_open(engine, program, NULL, NULL) : NULL;
    bool good = session && !zt_session_step(session, NULL, 0, ins, outs);
    if (!good) diag("%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_session_close(session);
    zt_prog_free(program);
    zt_prog_free(graph);
    return good;
}

/* Does query i see any of those keys? */
static bool sees(hiding h, int i)
{
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        if (h == CAUSAL && odd[k] <= i) return true;
        if (h == NEAR && abs(i - odd[k]) <= WINDOW) return true;
    }
    return false;
}

/* Has a query that does see one, or by a seen query's gradient a key, not the bits any more? Else
 * nothing was tried. */
static bool is_hidden(zt_ctx *ctx, zt_engine *engine, hiding h, zt_dtype dtype, int64_t D)
{
    size_t row = (size_t)D * zt_dtype_get(dtype)->block_bytes;
    bool good = true, differ = false, any = false;
    fill_mask(h, dtype);
    for (int dirty = 0; dirty < 2; dirty++) {
        void *outs[OUTS];
        for (int k = 0; k < OUTS; k++) outs[k] = out[dirty][k];
        fill(h, dirty, dtype, D);
        good = good && run_attention(ctx, engine, h, dtype, D, outs);
    }
    for (int i = 0; i < HEADS * N && good; i++)
        for (int k = 0; k < 2; k++) { /* y, dq */
            size_t at = (size_t)i * row;
            bool same = !memcmp(out[0][k] + at, out[1][k] + at, row);
            any |= sees(h, i % N);
            if (sees(h, i % N))
                differ |= !same;
            else
                good = good && same;
        }
    /* What all hide has no gradient, and takes none from others. */
    for (int k = 2; k < OUTS && !any; k++) good = good && !memcmp(out[0][k], out[1][k], N * row);
    return good && differ == any;
}

static void test_programs(zt_ctx *ctx, zt_engine *engine, const char *name)
{
    static const zt_dtype types[] = {ZT_F32, ZT_F16, ZT_BF16};
    static const int64_t columns[] = {40, 33, 72, MOST};
    for (int h = 0; h < N_HIDINGS; h++) {
        bool good = true;
        for (int i = 0; i < 2; i++) { /* not every size of every type: in turn */
            zt_dtype dtype = types[(h + i) % 3];
            int64_t D = columns[(2 * h + i) % 4];
            bool fine = is_hidden(ctx, engine, (hiding)h, dtype, D);
            if (!fine) diag("%s of %lld columns", zt_dtype_get(dtype)->name, (long long)D);
            good = good && fine;
        }
        ok(good, "%s: what %s hides changes nothing, forward and back", name, words[h]);
    }
}

/* ---- over a cache ---------------------------------------------------------------------------- */

enum { D = 64, CTX = 128, ROWS = 20, FIRST = 50, SEEN = 30 };

/* Rows at positions from FIRST on, with a window of SEEN; the cache is full of NaN where none of
 * them looks. */
static bool cache_hides(zt_engine *engine, zt_dtype t)
{
    static const zt_attention_attrs attrs = {.head = D, .window = SEEN};
    const zt_dtype_info *info = zt_dtype_get(t);
    zt_type type[4] = {{.dtype = ZT_F32, .rank = 2, .dim = {ROWS, HEADS * D}},
                       {.dtype = t, .rank = 2, .dim = {CTX, D}},
                       {.dtype = t, .rank = 2, .dim = {CTX, D}},
                       {.dtype = ZT_I32, .rank = 1, .dim = {ROWS}}};
    static float x[3][CTX * D];
    int32_t pos[ROWS];
    bool good = true;
    for (int i = 0; i < ROWS; i++) pos[i] = FIRST + i;
    for (int dirty = 0; dirty < 2; dirty++) {
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < CTX * D; i++) {
                bool unseen = i / D <= FIRST - SEEN || i / D >= FIRST + ROWS;
                x[k][i] = dirty && k && unseen ? NAN : sinf((float)(i * (k + 3)));
            }
            if (k) info->encode(x[k], in[k], CTX * D);
        }
        oneop call = {.op = ZT_OP_attention, .attrs = &attrs, .data = {x[0], in[1], in[2], pos}, .result = {out[dirty][0]}};
        for (int k = 0; k < 4; k++) call.in[k] = &type[k];
        good = good && !zt_op_infer(NULL, call.op, call.attrs, call.in, call.out) && !oneop_run(engine, &call);
    }
    return good && !memcmp(out[0][0], out[1][0], ROWS * HEADS * D * sizeof(float));
}

int main(void)
{
    static const char *const names[] = {"cpu", "cuda", "vulkan"};
    zt_ctx *ctx = zt_ctx_new();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zt_engine *engine = zt_engine_open(ctx, names[i], &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
        if (!engine) skip("%s: %s", names[i], zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        if (!engine) continue;
        test_programs(ctx, engine, names[i]);
        ok(cache_hides(engine, ZT_F32) && cache_hides(engine, ZT_F16), "%s: what a window over a cache hides changes nothing",
           names[i]);
        zt_engine_close(engine);
    }
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
