/* fft.c - cuFFT, opened at run time, and transforms by it.
 *
 * It neither scales nor weighs, and takes lines one behind the other: what is not so goes through a
 * kernel before, into scratch, and one behind. Its plans are made while a step is sized, since that
 * allocates; each works in scratch of the step.
 */
#include "lib/engine/cuda/fft.h"
#include "lib/engine/cuda/walk.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of its enumerations, and of CUDA's types of data. */
enum { ALLOC_FAILED = 2, FORWARD = -1, INVERSE = 1 };
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { SHORT = 32, MODES = 32, GRIDS = 64 }; /* sums are as good up to so many; calls in a row */

static zt_status told(zt_cu_engine *e, int r, const char *call)
{
    if (r == 0) return ZT_OK;
    if (r == ALLOC_FAILED)
        return zt_fail(e->base.ctx, ZT_ENOMEM, "cuda: cufft%s: out of memory", call);
    return zt_fail(e->base.ctx, ZT_ESYS, "cuda: cufft%s: result %d", call, r);
}

/* ---- the library ----------------------------------------------------------------------------- */

static const char *const symbols[] = {
#define X(symbol, name, params) #symbol,
    ZT_CU_FFT_API(X)
#undef X
    NULL};

zt_status zt_cu_fft_open(zt_cu_engine *e)
{
    const char *name = getenv("ZT_LIBCUFFT");
    if (!name || !*name || e->cu.platform != &zt_cu_nvidia) return ZT_OK;
    e->fft = zt_calloc(e->base.ctx, 1, sizeof *e->fft);
    if (!e->fft) return ZT_ENOMEM;
    zt_status s = zt_cu_beside(e->base.ctx, name, "cuFFT", symbols, &e->fft->call, &e->fft->library);
    if (s) zt_cu_fft_close(e);
    return s;
}

void zt_cu_fft_close(zt_cu_engine *e)
{
    zt_cu_fft *f = e->fft;
    if (!f) return;
    for (int i = 0; i < f->n; i++)
        if (!f->plan[i].refused) f->call.Destroy(f->plan[i].plan);
    if (f->library) dlclose(f->library);
    zt_free(e->base.ctx, f);
    e->fft = NULL;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t bins(int64_t n) { return n / 2 + 1; }

static int numbers(bool wide, bool pairs)
{
    return pairs ? wide ? C_64F : C_32F : wide ? R_64F : R_32F;
}

/* A status other than 0 that is no lack of memory: it takes no such lines. */
static int make(zt_cu_engine *e, zt_cu_fft_plan *p)
{
    const zt_cu_fft_calls *f = &e->fft->call;
    const bool from_pairs = p->kind != ZT_CU_TO_BINS, to_pairs = p->kind != ZT_CU_OF_BINS;
    long long n = p->n, half = bins(p->n), x = p->kind == ZT_CU_OF_BINS ? half : n,
              y = p->kind == ZT_CU_TO_BINS ? half : n;
    int r = f->SetAutoAllocation(p->plan, 0);
    if (!r) r = f->SetStream(p->plan, e->stream);
    if (!r)
        r = f->MakePlan(p->plan, 1, &n, &x, p->step, p->step == 1 ? x : 1,
                        numbers(p->wide, from_pairs), &y, p->step, p->step == 1 ? y : 1,
                        numbers(p->wide, to_pairs), p->lines, &p->room, numbers(p->wide, true));
    return r;
}

static zt_status add_plan(zt_cu_engine *e, zt_cu_fft_plan p)
{
    zt_cu_fft *f = e->fft;
    zt_status s = told(e, f->call.Create(&p.plan), "Create");
    if (s) return s;
    int r = make(e, &p);
    if (r) f->call.Destroy(p.plan);
    if (r == ALLOC_FAILED) return told(e, r, "XtMakePlanMany");
    p.refused = r != 0;
    f->plan[f->n++] = p;
    return ZT_OK;
}

/* NULL: there is none, nor room for one. */
static const zt_cu_fft_plan *plan_of(const zt_cu_fft *f, const zt_cu_fft_plan *like)
{
    for (int i = 0; i < f->n; i++) {
        const zt_cu_fft_plan *p = &f->plan[i];
        if (p->n == like->n && p->lines == like->lines && p->step == like->step &&
            p->kind == like->kind && p->wide == like->wide)
            return p;
    }
    return NULL;
}

/* Steps are sized before they run, so it is there then. */
static zt_status find_plan(zt_cu_call *c, zt_cu_fft_plan like, const zt_cu_fft_plan **out)
{
    zt_cu_engine *e = c->e;
    *out = plan_of(e->fft, &like);
    if (!*out && c->sizing && e->fft->n < ZT_CU_FFT_PLANS) {
        zt_status s = add_plan(e, like);
        if (s) return s;
        *out = plan_of(e->fft, &like);
    }
    if (*out && (*out)->refused) *out = NULL;
    return ZT_OK;
}

/* ---- transforms ------------------------------------------------------------------------------ */

/* Numbers of a line before the transform and behind it, in units of f32 or f64. */
static int64_t width_of(const zt_cu_dft_args *a, bool behind)
{
    if (a->kind == ZT_CU_OF_PAIRS) return 2 * a->n;
    return (a->kind == ZT_CU_TO_BINS) == behind ? 2 * bins(a->n) : a->n;
}

static zt_status exec(zt_cu_call *c, const zt_cu_fft_plan *p, bool inverse, zt_cu_ptr room,
                      zt_cu_ptr x, zt_cu_ptr y)
{
    const zt_cu_fft_calls *f = &c->e->fft->call;
    bool goes;
    zt_status s = zt_cu_foreign(c, &goes);
    if (s || !goes) return s;
    if (p->room) s = told(c->e, f->SetWorkArea(p->plan, (void *)(uintptr_t)room), "SetWorkArea");
    if (s) return s;
    return told(c->e,
                f->Exec(p->plan, (void *)(uintptr_t)x, (void *)(uintptr_t)y,
                        inverse ? INVERSE : FORWARD),
                "XtExec");
}

static zt_status scratch(zt_cu_call *c, int64_t n, bool wide, zt_cu_ptr *at)
{
    *at = zt_cu_scratch(c, (size_t)n * (wide ? 8 : 4));
    return *at ? ZT_OK : ZT_ENOMEM;
}

/* Lines of bins are never given to it as they are: it may write over them. */
static zt_status transform(zt_cu_call *c, const zt_cu_dft_args *a, const zt_cu_fft_plan *p)
{
    const bool wide = p->wide, plain = wide || a->type == ZT_CU_F32;
    const bool lined = plain && a->inner == 1;
    const bool given = lined && (a->kind == ZT_CU_TO_BINS ||
                                 (a->kind == ZT_CU_OF_PAIRS && a->given == a->n));
    const bool weighed = a->scale != 1 || (a->kind == ZT_CU_TO_BINS && a->twice);
    zt_cu_dft_args before = *a, behind = *a;
    zt_cu_ptr room = p->room ? zt_cu_scratch(c, p->room) : 0;
    zt_status s = p->room && !room ? ZT_ENOMEM : ZT_OK;
    before.y = a->x;
    if (!s && !given) s = scratch(c, a->lines * width_of(a, false), wide, &before.y);
    behind.x = lined ? a->y : before.y;
    if (!s && !lined && a->kind != ZT_CU_OF_PAIRS)
        s = scratch(c, a->lines * width_of(a, true), wide, &behind.x);
    if (!s && !given)
        s = zt_cu_launch_each(c, "zt_cu_fft_before", a->lines * width_of(a, false), &before,
                              sizeof before);
    if (!s) s = exec(c, p, a->inverse != 0, room, before.y, behind.x);
    if (!s && (weighed || !lined))
        s = zt_cu_launch_each(c, "zt_cu_fft_behind", a->lines * width_of(a, true), &behind,
                              sizeof behind);
    return s;
}

zt_status zt_cu_fft_transform(zt_cu_call *c, const zt_cu_dft_args *a, bool *done)
{
    const zt_cu_fft_plan *p = NULL;
    *done = false;
    if (!c->e->fft || a->n <= SHORT) return ZT_OK;
    const zt_cu_fft_plan like = {
        .n = a->n, .lines = a->lines, .step = 1, .kind = a->kind, .wide = a->type == ZT_CU_F64};
    zt_status s = find_plan(c, like, &p);
    *done = p != NULL;
    return s || !p ? s : transform(c, a, p);
}

/* ---- the spectral convolution ---------------------------------------------------------------- */

/* A grid's channels are C lines, C apart; grids go one by one, each from a whole pair's address. */
static zt_status grid_plan(zt_cu_call *c, const zt_cu_bins_args *a, int kind,
                           const zt_cu_fft_plan **out)
{
    const bool wide = a->type == ZT_CU_F64;
    const zt_cu_fft_plan like = {.n = a->n, .lines = a->C, .step = a->C, .kind = kind, .wide = wide};
    *out = NULL;
    if (!c->e->fft || (!wide && a->type != ZT_CU_F32) || a->n <= SHORT || a->modes < MODES ||
        a->B < 1 || a->C < 1 || a->B > GRIDS || (a->B > 1 && a->n * a->C % 2))
        return ZT_OK;
    return find_plan(c, like, out);
}

/* All grids, from the numbers at x to whole spectra, or back. */
static zt_status exec_grids(zt_cu_call *c, const zt_cu_bins_args *a, const zt_cu_fft_plan *p,
                            zt_cu_ptr spectra)
{
    const size_t each = p->wide ? 8 : 4, grid = (size_t)(a->n * a->C) * each;
    const size_t spectrum = (size_t)(bins(a->n) * a->C) * 2 * each;
    const bool inverse = p->kind == ZT_CU_OF_BINS;
    const zt_cu_ptr room = p->room ? zt_cu_scratch(c, p->room) : 0;
    zt_status s = p->room && !room ? ZT_ENOMEM : ZT_OK;
    for (size_t b = 0; b < (size_t)a->B && !s; b++) {
        const zt_cu_ptr x = a->x + b * grid, z = spectra + b * spectrum;
        s = exec(c, p, inverse, room, inverse ? z : x, inverse ? x : z);
    }
    return s;
}

/* By whole spectra in scratch: cuFFT makes them and a kernel takes their modes, or a kernel makes
 * them of modes and cuFFT takes them. */
static zt_status by_spectra(zt_cu_call *c, const zt_cu_bins_args *a, int kind, bool *done)
{
    const bool to_bins = kind == ZT_CU_TO_BINS;
    const int64_t n = a->B * bins(a->n) * a->C;
    const zt_cu_fft_plan *p;
    zt_cu_bins_args of = *a;
    zt_status s = grid_plan(c, a, kind, &p);
    *done = p != NULL;
    if (s || !p) return s;
    s = scratch(c, 2 * n, p->wide, &of.t);
    if (!s && !to_bins) s = zt_cu_launch_each(c, "zt_cu_fft_spectra", n, &of, sizeof of);
    if (!s) s = exec_grids(c, a, p, of.t);
    if (!s && to_bins)
        s = zt_cu_launch_each(c, "zt_cu_fft_modes", a->B * a->modes * a->C, &of, sizeof of);
    return s;
}

zt_status zt_cu_fft_bins(zt_cu_call *c, const zt_cu_bins_args *a, bool *done)
{
    return by_spectra(c, a, ZT_CU_TO_BINS, done);
}

zt_status zt_cu_fft_waves(zt_cu_call *c, const zt_cu_bins_args *a, bool *done)
{
    return by_spectra(c, a, ZT_CU_OF_BINS, done);
}
