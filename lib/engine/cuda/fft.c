/* fft.c - cuFFT, opened at run time, and transforms by it.
 *
 * It neither scales nor weighs, and takes lines one behind the other: what is not so goes through a
 * kernel before, into scratch, and one behind. Its plans are made while a step is sized, since that
 * allocates; each works in scratch of the step.
 */
#include "lib/engine/cuda/fft.h"
#include "lib/engine/cuda/strides.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of its enumerations, and of CUDA's types of data. */
enum { ALLOC_FAILED = 2, FORWARD = -1, INVERSE = 1 };
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { SHORT = 32, MODES = 32, GRIDS = 64 }; /* sums are as good up to so many; calls in a row */

static zt_status check_result(zt_cu_engine *engine, int result, const char *call)
{
    if (result == 0) return ZT_OK;
    if (result == ALLOC_FAILED) return zt_fail(engine->base.ctx, ZT_ENOMEM, "cuda: cufft%s: out of memory", call);
    return zt_fail(engine->base.ctx, ZT_ESYS, "cuda: cufft%s: result %d", call, result);
}

/* ---- the library ----------------------------------------------------------------------------- */

static const char *const symbols[] = {
#define X(symbol, name, params) #symbol,
    ZT_CU_FFT_API(X)
#undef X
        NULL};

zt_status zt_cu_fft_open(zt_cu_engine *engine)
{
    const char *name = getenv("ZT_LIBCUFFT");
    if (!name || !*name || engine->cu.platform != &zt_cu_nvidia) return ZT_OK;
    engine->fft = zt_calloc(engine->base.ctx, 1, sizeof *engine->fft);
    if (!engine->fft) return ZT_ENOMEM;
    zt_status status = zt_cu_beside(engine->base.ctx, name, "cuFFT", symbols, &engine->fft->call, &engine->fft->library);
    if (status) zt_cu_fft_close(engine);
    return status;
}

void zt_cu_fft_close(zt_cu_engine *engine)
{
    zt_cu_fft *fft = engine->fft;
    if (!fft) return;
    for (int i = 0; i < fft->n; i++)
        if (!fft->plan[i].refused) fft->call.Destroy(fft->plan[i].plan);
    if (fft->library) dlclose(fft->library);
    zt_free(engine->base.ctx, fft);
    engine->fft = NULL;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t bin_count(int64_t length) { return length / 2 + 1; }

static int number_type(bool wide, bool pairs) { return pairs ? wide ? C_64F : C_32F : wide ? R_64F : R_32F; }

/* A status other than 0 that is no lack of memory: it takes no such lines. */
static int make_plan(zt_cu_engine *engine, zt_cu_fft_plan *plan)
{
    const zt_cu_fft_calls *calls = &engine->fft->call;
    const bool from_pairs = plan->kind != ZT_CU_TO_BINS, to_pairs = plan->kind != ZT_CU_OF_BINS;
    long long length = plan->n, half = bin_count(plan->n), input_length = plan->kind == ZT_CU_OF_BINS ? half : length,
              output_length = plan->kind == ZT_CU_TO_BINS ? half : length;
    int result = calls->SetAutoAllocation(plan->plan, 0);
    if (!result) result = calls->SetStream(plan->plan, engine->stream);
    if (!result)
        result =
            calls->MakePlan(plan->plan, 1, &length, &input_length, plan->step, plan->step == 1 ? input_length : 1,
                            number_type(plan->wide, from_pairs), &output_length, plan->step, plan->step == 1 ? output_length : 1,
                            number_type(plan->wide, to_pairs), plan->lines, &plan->room, number_type(plan->wide, true));
    return result;
}

static zt_status add_fft_plan(zt_cu_engine *engine, zt_cu_fft_plan plan)
{
    zt_cu_fft *fft = engine->fft;
    zt_status status = check_result(engine, fft->call.Create(&plan.plan), "Create");
    if (status) return status;
    int result = make_plan(engine, &plan);
    if (result) fft->call.Destroy(plan.plan);
    if (result == ALLOC_FAILED) return check_result(engine, result, "XtMakePlanMany");
    plan.refused = result != 0;
    fft->plan[fft->n++] = plan;
    return ZT_OK;
}

/* NULL: there is none, nor room for one. */
static const zt_cu_fft_plan *plan_of(const zt_cu_fft *fft, const zt_cu_fft_plan *like)
{
    for (int i = 0; i < fft->n; i++) {
        const zt_cu_fft_plan *plan = &fft->plan[i];
        if (plan->n == like->n && plan->lines == like->lines && plan->step == like->step && plan->kind == like->kind &&
            plan->wide == like->wide)
            return plan;
    }
    return NULL;
}

/* Steps are sized before they run, so it is there then. */
static zt_status find_plan(zt_cu_call *call, zt_cu_fft_plan like, const zt_cu_fft_plan **found)
{
    zt_cu_engine *engine = call->engine;
    *found = plan_of(engine->fft, &like);
    if (!*found && call->sizing && engine->fft->n < ZT_CU_FFT_PLANS) {
        zt_status status = add_fft_plan(engine, like);
        if (status) return status;
        *found = plan_of(engine->fft, &like);
    }
    if (*found && (*found)->refused) *found = NULL;
    return ZT_OK;
}

/* ---- transforms ------------------------------------------------------------------------------ */

/* Numbers of a line before the transform and behind it, in units of f32 or f64. */
static int64_t width_of(const zt_cu_dft_args *args, bool behind)
{
    if (args->kind == ZT_CU_OF_PAIRS) return 2 * args->n;
    return (args->kind == ZT_CU_TO_BINS) == behind ? 2 * bin_count(args->n) : args->n;
}

static zt_status run_transform(zt_cu_call *call, const zt_cu_fft_plan *plan, bool inverse, zt_cu_ptr work_area, zt_cu_ptr input,
                               zt_cu_ptr output)
{
    const zt_cu_fft_calls *calls = &call->engine->fft->call;
    bool goes;
    zt_status status = zt_cu_foreign(call, &goes);
    if (status || !goes) return status;
    if (plan->room)
        status = check_result(call->engine, calls->SetWorkArea(plan->plan, (void *)(uintptr_t)work_area), "SetWorkArea");
    if (status) return status;
    return check_result(call->engine,
                        calls->Exec(plan->plan, (void *)(uintptr_t)input, (void *)(uintptr_t)output, inverse ? INVERSE : FORWARD),
                        "XtExec");
}

static zt_status alloc_scratch(zt_cu_call *call, int64_t number_count, bool wide, zt_cu_ptr *address)
{
    *address = zt_cu_scratch(call, (size_t)number_count * (wide ? 8 : 4));
    return *address ? ZT_OK : ZT_ENOMEM;
}

/* Lines of bins are never given to it as they are: it may write over them. */
static zt_status transform_lines(zt_cu_call *call, const zt_cu_dft_args *args, const zt_cu_fft_plan *plan)
{
    const bool wide = plan->wide, plain = wide || args->type == ZT_CU_F32;
    const bool lined = plain && args->inner == 1;
    const bool given = lined && (args->kind == ZT_CU_TO_BINS || (args->kind == ZT_CU_OF_PAIRS && args->given == args->n));
    const bool weighed = args->scale != 1 || (args->kind == ZT_CU_TO_BINS && args->twice);
    zt_cu_dft_args before = *args, behind = *args;
    zt_cu_ptr room = plan->room ? zt_cu_scratch(call, plan->room) : 0;
    zt_status status = plan->room && !room ? ZT_ENOMEM : ZT_OK;
    before.y = args->x;
    if (!status && !given) status = alloc_scratch(call, args->lines * width_of(args, false), wide, &before.y);
    behind.x = lined ? args->y : before.y;
    if (!status && !lined && args->kind != ZT_CU_OF_PAIRS)
        status = alloc_scratch(call, args->lines * width_of(args, true), wide, &behind.x);
    if (!status && !given)
        status = zt_cu_launch_each(call, "zt_cu_fft_before", args->lines * width_of(args, false), &before, sizeof before);
    if (!status) status = run_transform(call, plan, args->inverse != 0, room, before.y, behind.x);
    if (!status && (weighed || !lined))
        status = zt_cu_launch_each(call, "zt_cu_fft_behind", args->lines * width_of(args, true), &behind, sizeof behind);
    return status;
}

zt_status zt_cu_fft_transform(zt_cu_call *call, const zt_cu_dft_args *args, bool *done)
{
    const zt_cu_fft_plan *plan = NULL;
    *done = false;
    if (!call->engine->fft || args->n <= SHORT) return ZT_OK;
    const zt_cu_fft_plan like = {
        .n = args->n, .lines = args->lines, .step = 1, .kind = args->kind, .wide = args->type == ZT_CU_F64};
    zt_status status = find_plan(call, like, &plan);
    *done = plan != NULL;
    return status || !plan ? status : transform_lines(call, args, plan);
}

/* ---- the spectral convolution ---------------------------------------------------------------- */

/* A grid's channels are C lines, C apart; grids go one by one, each from a whole pair's address. */
static zt_status grid_plan(zt_cu_call *call, const zt_cu_bins_args *args, int kind, const zt_cu_fft_plan **out)
{
    const bool wide = args->type == ZT_CU_F64;
    const zt_cu_fft_plan like = {.n = args->n, .lines = args->C, .step = args->C, .kind = kind, .wide = wide};
    *out = NULL;
    if (!call->engine->fft || (!wide && args->type != ZT_CU_F32) || args->n <= SHORT || args->modes < MODES || args->B < 1 ||
        args->C < 1 || args->B > GRIDS || (args->B > 1 && args->n * args->C % 2))
        return ZT_OK;
    return find_plan(call, like, out);
}

/* All grids, from the numbers at x to whole spectra, or back. */
static zt_status exec_grids(zt_cu_call *call, const zt_cu_bins_args *args, const zt_cu_fft_plan *plan, zt_cu_ptr spectra)
{
    const size_t each = plan->wide ? 8 : 4, grid = (size_t)(args->n * args->C) * each;
    const size_t spectrum = (size_t)(bin_count(args->n) * args->C) * 2 * each;
    const bool inverse = plan->kind == ZT_CU_OF_BINS;
    const zt_cu_ptr room = plan->room ? zt_cu_scratch(call, plan->room) : 0;
    zt_status status = plan->room && !room ? ZT_ENOMEM : ZT_OK;
    for (size_t grid_index = 0; grid_index < (size_t)args->B && !status; grid_index++) {
        const zt_cu_ptr grid_at = args->x + grid_index * grid, spectrum_at = spectra + grid_index * spectrum;
        status = run_transform(call, plan, inverse, room, inverse ? spectrum_at : grid_at, inverse ? grid_at : spectrum_at);
    }
    return status;
}

/* By whole spectra in scratch: cuFFT makes them and a kernel takes their modes, or a kernel makes
 * them of modes and cuFFT takes them. */
static zt_status by_spectra(zt_cu_call *call, const zt_cu_bins_args *args, int kind, bool *done)
{
    const bool to_bins = kind == ZT_CU_TO_BINS;
    const int64_t number_count = args->B * bin_count(args->n) * args->C;
    const zt_cu_fft_plan *plan;
    zt_cu_bins_args spectra_args = *args;
    zt_status status = grid_plan(call, args, kind, &plan);
    *done = plan != NULL;
    if (status || !plan) return status;
    status = alloc_scratch(call, 2 * number_count, plan->wide, &spectra_args.t);
    if (!status && !to_bins)
        status = zt_cu_launch_each(call, "zt_cu_fft_spectra", number_count, &spectra_args, sizeof spectra_args);
    if (!status) status = exec_grids(call, args, plan, spectra_args.t);
    if (!status && to_bins)
        status = zt_cu_launch_each(call, "zt_cu_fft_modes", args->B * args->modes * args->C, &spectra_args, sizeof spectra_args);
    return status;
}

zt_status zt_cu_fft_bins(zt_cu_call *call, const zt_cu_bins_args *args, bool *done)
{
    return by_spectra(call, args, ZT_CU_TO_BINS, done);
}

zt_status zt_cu_fft_waves(zt_cu_call *call, const zt_cu_bins_args *args, bool *done)
{
    return by_spectra(call, args, ZT_CU_OF_BINS, done);
}
