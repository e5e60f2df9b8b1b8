/* vulkan_rows.c - rows of the engine on Vulkan beyond their cases (conformance.c): matrices that do
 * not come as data, or come as data and are read in another shape. Skipped, aloud, where there is
 * no adapter. */
#include "lib/run/run.h"
#include "tests/engine/device.h"

#include <string.h>

enum { N = 3, K = 256, M = 40, MOST = M * K * 4 };

typedef struct trial {
    zt_ctx *ctx;
    zt_engine *e;
    zt_type w;
    float x[N * K];
    int32_t i[N];
    uint8_t bytes[MOST];
} trial;

static zt_status find_weight(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const trial *t = user;
    *type = t->w;
    *handle = 0;
    return strcmp(name, "w") ? ZT_ENOENT : ZT_OK;
}

static zt_status read_bytes(void *user, int64_t handle, size_t at, void *dst, size_t n)
{
    const trial *t = user;
    memcpy(dst, t->bytes + at, n);
    return handle ? ZT_EBUG : ZT_OK;
}

/* How the matrix comes: as data, as an input, or as data of twice the rows, half as long. */
typedef enum source { DATA, INPUT, RESHAPED, N_SOURCES } source;

static int matrix(zt_prog *program, trial *tried, source from, zt_dtype type)
{
    const int64_t dim[] = {M, K}, folded[] = {M / 2, 2 * K};
    zt_reshape_attrs to = {.shape = {2, {M, K}}};
    tried->w = zt_type_make(type, 2, from == RESHAPED ? folded : dim);
    if (from == INPUT) return zt_prog_in(program, "w", type, 2, dim);
    int w = zt_prog_data(program, "w", type, 2, tried->w.dim, "w");
    return from == RESHAPED ? zt_program_reshape(program, NULL, w, &to) : w;
}

/* y of x or rows i times the matrix from there. */
static bool run_linear(trial *tried, source from, zt_dtype type, const char *act, float *y)
{
    zt_prog *program = zt_prog_new(tried->ctx);
    const int64_t x_dim[] = {N, K}, i_dim[] = {N};
    zt_linear_attrs a = zt_linear_defaults();
    int x = act ? zt_prog_in(program, "x", ZT_F32, 2, x_dim) : zt_prog_in(program, "i", ZT_I32, 1, i_dim);
    int w = matrix(program, tried, from, type);
    if (act) snprintf(a.act.s, sizeof a.act.s, "%s", act);
    zt_prog_out(program, "y",
                act ? zt_program_linear(program, NULL, x, w, ZT_NONE, &a) : zt_program_gather(program, NULL, w, x, NULL));
    zt_store store = {.user = tried, .find = find_weight, .read = read_bytes};
    zt_session *session = zt_session_open(tried->e, program, &store, &(zt_session_opts){.strict = true});
    const void *in[] = {act ? (const void *)tried->x : tried->i, tried->bytes};
    void *out[] = {y};
    bool good = session && !zt_session_step(session, NULL, 0, in, out);
    if (!good) diag("%s", zt_ctx_error(tried->ctx));
    zt_ctx_clear(tried->ctx);
    zt_session_close(session);
    zt_prog_free(program);
    return good;
}

/* However it comes, it is the same matrix: the same bits. */
static void test_sources(trial *tried, zt_dtype type, const char *act)
{
    static float y[N_SOURCES][N * (K > M ? K : M)];
    bool same = true;
    memset(y, 0, sizeof y);
    for (int from = 0; from < N_SOURCES; from++)
        same = run_linear(tried, (source)from, type, act, y[from]) && same && !memcmp(y[from], y[DATA], sizeof y[0]);
    ok(same && y[DATA][1] != 0, "%s %s: data, input and reshaped data give the same bits", act ? act : "gather",
       zt_dtype_get(type)->name);
}

int main(void)
{
    static const zt_dtype types[] = {ZT_F32,  ZT_F16,  ZT_BF16, ZT_Q4_0, ZT_Q4_1, ZT_Q5_0,
                                     ZT_Q5_1, ZT_Q8_0, ZT_Q4_K, ZT_Q5_K, ZT_Q6_K};
    static trial t = {.i = {7, 0, M - 1}};
    zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){N, K});
    t.ctx = zt_ctx_new();
    t.e = device_open(t.ctx, "vulkan");
    for (size_t i = 0; t.e && i < sizeof types / sizeof *types; i++) {
        zt_case op_case = {.in = {x, zt_type_make(types[i], 2, (int64_t[]){M, K})}};
        op_case.fill[0] = op_case.fill[1] = ZT_FILL_NORMAL;
        zt_case_fill(&op_case, 0, 1, t.x);
        zt_case_fill(&op_case, 1, 2, t.bytes);
        test_sources(&t, types[i], "f32");
        test_sources(&t, types[i], "q8");
        test_sources(&t, types[i], NULL);
    }
    return device_done(t.ctx, t.e);
}
