/* times.c - a fuzz target for the times that zt-trace reads: any bytes are refused with one line, or each step of the program has
 * finite seconds and an engine's name, and slices lie one after the other.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tools/zt-trace/profile.h"

#include "tests/fuzz/pair.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

static void check_profile(const trace_profile *profile)
{
    for (int i = 0; i < zt_prog_n_steps(profile->program); i++)
        must(isfinite(profile->seconds[i]) && profile->seconds[i] >= 0 && (profile->seconds[i] == 0 || profile->ran_on[i]));
    for (size_t i = 0; i < profile->n_slices; i++) {
        const trace_slice *slice = &profile->slices[i];
        must(slice->step >= 0 && slice->step < zt_prog_n_steps(profile->program) && slice->end >= slice->begin);
        must(i == 0 || slice->begin >= profile->slices[i - 1].begin);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char text[] = "zt program 1\nin a: f32[4]\nb = add a a\nc = mul b a\nout c = c\n";
    double seconds[8] = {0};
    const char *ran_on[8] = {0};
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_prog *program = zt_prog_parse(ctx, "program", text, sizeof text - 1);
    must(program && zt_prog_n_steps(program) == 2);
    zt_cli cli = {.ctx = ctx, .engine = "auto"};
    trace_profile profile = {.cli = &cli, .program = program, .seconds = seconds, .ran_on = ran_on};
    pair_put_only("times", bytes, count);
    zt_status status = trace_times_read(&profile, pair_path("times"));
    must(status == zt_ctx_status(ctx) && (status == ZT_OK || status == ZT_EDATA));
    must(!strchr(zt_ctx_error(ctx), '\n'));
    if (status == ZT_OK) check_profile(&profile);
    zt_free(ctx, profile.slices);
    zt_prog_free(program);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
