/* cost.c - what programs cost (lib/run/cost.h): arithmetic by kind, bytes that cannot be left out,
 * the least time of a roof.
 */
#include "lib/run/cost.h"
#include "tests/common/tap.h"

#include <math.h>
#include <string.h>

static zt_ctx *ctx;

static zt_cost_whole cost_of(const char *body, int64_t filled, double runs)
{
    zt_str text;
    zt_cost_whole w = {0};
    zt_str_init(&text, ctx);
    zt_str_printf(&text, "zt program 1\n%s", body);
    zt_prog *program = zt_prog_parse(ctx, "p", text.data, text.len);
    zt_bound *bound = program ? zt_prog_bind(program, &(zt_binding){"n", 3}, 1) : NULL;
    int *root = bound ? zt_cost_roots(ctx, program) : NULL;
    ok(root && !zt_cost_add(ctx, bound, root, filled, runs, &w), "costs (%s)", zt_ctx_error(ctx));
    zt_free(ctx, root);
    zt_bound_free(bound);
    zt_prog_free(program);
    zt_str_fini(&text);
    return w;
}

static void kinds(void)
{
    static const struct {
        const char *type, *act;
        zt_roof_kind kind;
        double times;
    } table[] = {{"f32", "", ZT_ROOF_F32, 1},         {"f16", "", ZT_ROOF_F32, 1},          {"bf16", "", ZT_ROOF_BF16, 1},
                 {"q4_0", "act=q8", ZT_ROOF_INT8, 1}, {"q4_0", "act=q16", ZT_ROOF_INT8, 2}, {"q4_0", "act=f32", ZT_ROOF_F32, 1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char body[256];
        snprintf(body, sizeof body, "in x: f32[n,64]\ndata w: %s[16,64] \"w\"\ny = linear x w %s\nout y = y\n", table[i].type,
                 table[i].act);
        zt_cost_whole w = cost_of(body, -1, 1);
        double all = 0;
        for (int k = 0; k < ZT_ROOF_KINDS; k++) all += w.flops[k];
        double of_kind = w.flops[table[i].kind];
        ok(of_kind == 2 * 3 * 64 * 16 * table[i].times && all == of_kind, "%s %s: %.0f of kind %d", table[i].type, table[i].act,
           of_kind, table[i].kind);
    }
}

static void bytes(void)
{
    zt_cost_whole w = cost_of("in x: f32[n,8]\na = exp x\nb = add a x\ny = mul b x\n"
                              "out y = y\n",
                              -1, 1);
    ok(w.bytes == 2 * 3 * 8 * 4, "an input that is read thrice counts once, and what is between not at all: %.0f", w.bytes);
    w = cost_of("data t: f32[1000,8] \"t\"\nin i: i32[n]\ny = gather t i\nout y = y\n", -1, 1);
    ok(w.bytes < 400, "of a table the rows that are wanted: %.0f", w.bytes);
    w = cost_of("data t: f32[1000,8] \"t\"\nin i: i32[n]\ng = gather t i\ny = linear g t\n"
                "out y = y\n",
                -1, 2);
    ok(w.bytes >= 2 * 32000 && w.bytes < 2 * (32000 + 3 * 1000 * 4 + 100) && w.held == w.bytes / 2,
       "and all of it once where another step reads all; two runs: %.0f", w.bytes);
    const char *cache = "in x: f32[n,8]\nin pos: i32[n]\nstate c: f32[100,8]\nc1 = kv_put c x pos\n"
                        "s = sum c1 axes=[0]\nkeep c = c1\nout s = s\n";
    double all = cost_of(cache, -1, 1).bytes, some = cost_of(cache, 10, 1).bytes;
    ok(all - some == 90 * 8 * 4, "of a cache the rows that are filled: %.0f, of all %.0f", some, all);
}

static void least(void)
{
    zt_roof r = {.threads = 1, .n_levels = 2, .n_peaks = 2};
    r.level[0] = (zt_roof_level){.name = "L1d", .bytes = 1000, .sharers = 1, .read = {4, 4}};
    r.level[1] = (zt_roof_level){.name = "memory", .bytes = 100000, .sharers = 1, .read = {2, 2}};
    r.peak[0] = (zt_roof_peak){.kind = ZT_ROOF_F32, .rate = {10, 10}};
    r.peak[1] = (zt_roof_peak){.kind = ZT_ROOF_INT8, .rate = {40, 40}};
    zt_cost_whole w = {.flops = {100, 50, 80}, .bytes = 20, .held = 20};
    ok(zt_cost_least(&w, &r) == 100 / 10. + 50 / 10. + 80 / 40.,
       "arithmetic, of bf16 without instructions at the rate of f32: %g", zt_cost_least(&w, &r));
    w.bytes = 400;
    ok(zt_cost_least(&w, &r) == 100, "bytes of a cache: %g", zt_cost_least(&w, &r));
    w.held = 1001;
    ok(zt_cost_least(&w, &r) == 200, "bytes of memory: %g", zt_cost_least(&w, &r));
}

int main(void)
{
    ctx = zt_ctx_new();
    kinds();
    bytes();
    least();
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
