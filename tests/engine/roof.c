/* roof.c - the measured roof: every figure there, and those that must not be far apart. */
#include "lib/zt/all.h"
#include "tests/common/tap.h"

#include <string.h>

static bool rates(const double r[2]) { return r[0] > 1e7 && r[1] > 1e7 && r[0] < 1e15 && r[1] < 1e15; }

static void test_levels(const zt_roof *r, bool brief)
{
    bool sound = r->n_levels >= 1 && r->n_levels <= ZT_ROOF_LEVELS, copies = true, rising = true;
    for (int i = 0; i < r->n_levels; i++) {
        const zt_roof_level *l = &r->level[i];
        sound = sound && l->name[0] && l->bytes > 0 && l->sharers >= 1 && l->set > 0;
        sound = sound && rates(l->read);
        copies = copies && (brief ? l->copy[0] == 0 && l->copy[1] == 0 : rates(l->copy));
        rising = rising && (i == 0 || l->bytes >= l[-1].bytes);
    }
    ok(sound, "every level has a size and a rate of reading");
    ok(copies, "and of copying, unless brief");
    ok(rising && !strcmp(r->level[r->n_levels - 1].name, "memory"), "the nearest first");
}

static void test_peaks(const zt_roof *r, zt_isa isa, bool brief)
{
    bool sound = r->n_peaks >= 1, only = true;
    int f32 = 0;
    for (int i = 0; i < r->n_peaks; i++) {
        const zt_roof_peak *p = &r->peak[i];
        sound = sound && rates(p->rate) && p->how[0] && p->set[0] && p->isa <= isa;
        only = only && (!brief || p->isa == isa);
        f32 += p->kind == ZT_ROOF_F32;
    }
    ok(sound && only, "arithmetic of %s", brief ? "one instruction set" : "all instruction sets");
    ok(f32 == (brief ? 1 : (int)isa + 1), "f32 of each");
}

static void test_measure(zt_ctx *ctx, zt_isa isa, bool brief)
{
    zt_roof r;
    zt_roof_opts o = {.threads = 2, .isa = isa, .seconds = 0.02, .brief = brief};
    ok(!zt_roof_measure(ctx, &o, &r) && r.threads == 2, "measured at %s%s", zt_isa_name(isa), brief ? ", brief" : "");
    test_levels(&r, brief);
    test_peaks(&r, isa, brief);
    ok(zt_mem_get(ctx).blocks == 0, "no block is left");
}

/* On made figures: what is asked of a roof. */
static void test_asked(void)
{
    zt_roof r = {.threads = 4, .n_levels = 3, .n_peaks = 3};
    r.level[0] = (zt_roof_level){.name = "L1d", .bytes = 1000, .sharers = 1};
    r.level[1] = (zt_roof_level){.name = "L2", .bytes = 8000, .sharers = 4};
    r.level[2] = (zt_roof_level){.name = "memory", .bytes = 100000, .sharers = 4};
    ok(zt_roof_level_of(&r, 4000) == &r.level[0], "four threads have four caches of their own");
    ok(zt_roof_level_of(&r, 4004) == &r.level[1] && zt_roof_level_of(&r, 8000) == &r.level[1], "and share one");
    ok(zt_roof_level_of(&r, 8001) == &r.level[2] && zt_roof_level_of(&r, 1 << 30) == &r.level[2],
       "what no cache holds is in memory");
    r.peak[0] = (zt_roof_peak){.isa = ZT_ISA_SCALAR, .kind = ZT_ROOF_F32, .rate = {1, 2}};
    r.peak[1] = (zt_roof_peak){.isa = ZT_ISA_AVX2, .kind = ZT_ROOF_F32, .rate = {4, 7}};
    r.peak[2] = (zt_roof_peak){.isa = ZT_ISA_AVX2, .kind = ZT_ROOF_INT8, .rate = {8, 15}};
    ok(zt_roof_rate(&r, ZT_ROOF_F32) == 7 && zt_roof_rate(&r, ZT_ROOF_INT8) == 15, "the best rate");
    ok(zt_roof_rate(&r, ZT_ROOF_BF16) == 7, "no instructions for it: f32's");
    r.peak[2].kind = ZT_ROOF_BF16, r.peak[2].rate[1] = 3;
    ok(zt_roof_rate(&r, ZT_ROOF_BF16) == 7, "slow ones: f32's");
}

static void test_refused(zt_ctx *ctx)
{
    zt_roof r;
    ok(zt_roof_measure(ctx, &(zt_roof_opts){.threads = 257}, &r) == ZT_EUSAGE, "257 threads");
    zt_ctx_clear(ctx);
    zt_mem_limit(ctx, 8 << 20);
    ok(!zt_roof_measure(ctx, &(zt_roof_opts){.threads = 2, .seconds = 0.01, .brief = true}, &r), "a memory limit is kept");
    zt_mem_limit(ctx, 4096);
    ok(zt_roof_measure(ctx, &(zt_roof_opts){.threads = 1}, &r) == ZT_ENOMEM, "none at all: memory");
    zt_ctx_clear(ctx);
    zt_mem_limit(ctx, 0);
    ok(zt_mem_get(ctx).blocks == 0, "and no block is left");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) test_measure(ctx, (zt_isa)isa, true);
    test_measure(ctx, zt_isa_best(), false);
    test_asked();
    test_refused(ctx);
    zt_ctx_free(ctx);
    return tap_done();
}
