/* blas_lt.c - products with weights and biases by cuBLASLt. Curves and residuals are not left to it:
 * a kernel of ours puts them behind, so that a fused op has the bits of the ops that it stands for. */
#include "lib/engine/cuda/blas.h"
#include "lib/engine/cuda/walk.h"

/* Numbers of its enumerations. */
enum { COMPUTE_32F = 68, R_32F = 0, R_16F = 2, R_16BF = 14 };
enum { DESC_TRANSPOSE_A = 3, DESC_EPILOGUE = 7, DESC_BIAS = 8, EPILOGUE_BIAS = 4 };
enum { WISH_ROOM = 1, WISH_REDUCTIONS = 3, OF_COMPUTE_TYPE = 2 /* partial sums stay f32 */ };

/* Fewer rows, of x or of weights, are the kernels' that read weights once and wait for memory. */
enum { FEW = 16 };

/* What describes one product. Its matrices have columns one behind the other: y [n,M] is M by n, and
 * the weights, transposed, come first. */
typedef struct product {
    void *desc, *w, *x, *y, *wish;
    zt_cu_lt_choice choice;
} product;

static int numbers(int32_t t) { return t == ZT_CU_F32 ? R_32F : t == ZT_CU_F16 ? R_16F : R_16BF; }

static bool takes(const zt_cu_call *c, const zt_cu_linear_args *a, unsigned n)
{
    bool all = c->e->blas && c->e->blas->lt && !c->model && !a->x_backs &&
               a->x_type == a->w_type &&
               zt_cu_is_float((zt_dtype)a->w_type) && a->n > FEW && a->K > 0;
    for (unsigned i = 0; i < n && all; i++)
        all = a->product[i].M > FEW && (!a->product[i].b || a->product[i].b_type == a->y_type);
    return all;
}

static int describe(const zt_cu_blas *b, const zt_cu_linear_args *a, const zt_cu_product *p,
                    product *m)
{
    const zt_cu_lt_calls *f = &b->lt_call;
    const int32_t yes = 1, bias = EPILOGUE_BIAS;
    const uint32_t sums = OF_COMPUTE_TYPE;
    const uint64_t room = ZT_CU_BLAS_ROOM;
    const void *from = (const void *)(uintptr_t)p->b;
    const int t = numbers(a->x_type);
    const uint64_t n = (uint64_t)a->n, K = (uint64_t)a->K, M = (uint64_t)p->M;
    int r = f->DescCreate(&m->desc, COMPUTE_32F, R_32F);
    if (!r) r = f->DescSet(m->desc, DESC_TRANSPOSE_A, &yes, sizeof yes);
    if (!r && p->b) r = f->DescSet(m->desc, DESC_EPILOGUE, &bias, sizeof bias);
    if (!r && p->b) r = f->DescSet(m->desc, DESC_BIAS, &from, sizeof from);
    if (!r) r = f->LayoutCreate(&m->w, t, K, M, a->K);
    if (!r) r = f->LayoutCreate(&m->x, t, K, n, a->K);
    if (!r) r = f->LayoutCreate(&m->y, t, M, n, p->M);
    if (!r) r = f->WishCreate(&m->wish);
    if (!r) r = f->WishSet(m->wish, WISH_ROOM, &room, sizeof room);
    return r ? r : f->WishSet(m->wish, WISH_REDUCTIONS, &sums, sizeof sums);
}

static void forget(const zt_cu_blas *b, product *m)
{
    const zt_cu_lt_calls *f = &b->lt_call;
    if (m->wish) f->WishDestroy(m->wish);
    if (m->y) f->LayoutDestroy(m->y);
    if (m->x) f->LayoutDestroy(m->x);
    if (m->w) f->LayoutDestroy(m->w);
    if (m->desc) f->DescDestroy(m->desc);
}

/* Has it a way to make this product? The first it names is the one that it thinks fastest, and the
 * same at every call. */
static bool choose(const zt_cu_blas *b, product *m)
{
    int n = 0;
    int r = b->lt_call.Choose(b->lt, m->desc, m->w, m->x, m->y, m->y, m->wish, 1, &m->choice, &n);
    return r == 0 && n > 0 && m->choice.status == 0;
}

static zt_status multiply(zt_cu_call *c, const zt_cu_linear_args *a, const zt_cu_product *p,
                          const product *m)
{
    const zt_cu_blas *b = c->e->blas;
    const float one = 1, none = 0;
    void *y = (void *)(uintptr_t)p->y;
    bool goes;
    zt_status s = zt_cu_foreign(c, &goes);
    if (s || !goes) return s;
    int r = b->lt_call.Multiply(b->lt, m->desc, &one, (const void *)(uintptr_t)p->w, m->w,
                                (const void *)(uintptr_t)a->x, m->x, &none, y, m->y, y, m->y,
                                m->choice.algorithm, (void *)(uintptr_t)b->room.at, ZT_CU_BLAS_ROOM,
                                c->e->stream);
    return zt_cu_blas_told(c->e, r, "LtMatmul");
}

static zt_status finish(zt_cu_call *c, const zt_cu_linear_args *a, const zt_cu_product *p)
{
    zt_cu_linear_args one = *a;
    one.product[0] = *p;
    if (a->after == ZT_CU_AFTER_NONE) return ZT_OK;
    return zt_cu_launch_each(c, "zt_linear_after", a->n * p->M, &one, sizeof one);
}

/* Where addresses mean nothing, what it would choose is not asked. */
zt_status zt_cu_blas_linear(zt_cu_call *c, const zt_cu_linear_args *a, unsigned n, bool *done)
{
    const zt_cu_blas *b = c->e->blas;
    const bool asks = !c->sizing || c->tape;
    product m[ZT_CU_PRODUCTS] = {0};
    zt_status s = ZT_OK;
    *done = takes(c, a, n);
    if (!*done) return ZT_OK;
    for (unsigned i = 0; i < n && asks && *done && !s; i++) {
        s = zt_cu_blas_told(c->e, describe(b, a, &a->product[i], &m[i]), "LtMatmulDescCreate");
        *done = !s && choose(b, &m[i]);
    }
    for (unsigned i = 0; i < n && *done && !s; i++) {
        s = multiply(c, a, &a->product[i], &m[i]);
        if (!s) s = finish(c, a, &a->product[i]);
    }
    for (unsigned i = 0; i < n; i++) forget(b, &m[i]);
    return s;
}
