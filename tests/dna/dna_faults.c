/* dna_faults.c - lib/dna where memory is short: each allocation refused in turn, once and from then on, is
 * told as that, leaks nothing, and leaves what there was to try
 * again. And the rules of similarity. */
#include "lib/dna/dna.h"
#include "lib/dna/recipe_genome.h"
#include "tests/common/tap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DENSE(l, w)                                                                                                              \
    "{\"z\":0,\"y\":0,\"x\":0,\"l\":" l ",\"type\":\"Dense\",\"dtype\":\"int8\",\"scale\":0.1,"                                  \
    "\"weights\":\"" w "\"}"
#define NET(w)                                                                                                                   \
    "{\"layers\":[" DENSE("0", w) ",{\"z\":0,\"y\":0,\"x\":0,\"l\":1,\"type\":\"Parallel\","                                     \
                                  "\"parallel_branches\":[" DENSE("2", "AACAPw==") "]}]}"

static char file[64]; /* that is written */
static const char net_a[] = NET("AACAPwAAAEA="), net_b[] = NET("AABAQAAAAMA=");
static const char told[] = "{\"schema\":\"zt.dna.extract/1\",\"rule\":\"field\",\"net\":true,\"layers\":[{\"name\":"
                           "\"0,0,0,0\",\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Dense\",\"dtype\":\"int8\",\"shape\":"
                           "[2],\"n\":2,\"length\":5,\"weights\":[0.6,0.8]}]}";

static zt_dna *open_net(zt_ctx *ctx, const char *text)
{
    zt_source *s = zt_source_memory(ctx, "net", text, strlen(text));
    return s ? zt_dna_of(ctx, zt_checkpoint_take(ctx, s), ZT_RULE_FIELD) : NULL;
}

static void compare(zt_ctx *ctx)
{
    zt_dna *a = open_net(ctx, net_a), *b = open_net(ctx, net_b);
    zt_dna_compare_opts how = {.threads = 2, .ranks = true, .shifts = true};
    zt_dna_verdict v = {.ctx = NULL};
    if (a && b) (void)zt_dna_compare(a, b, &how, &v);
    zt_dna_verdict_free(&v);
    zt_dna_close(a);
    zt_dna_close(b);
}

static void lineage(zt_ctx *ctx)
{
    zt_dna *m[2] = {open_net(ctx, net_a), open_net(ctx, net_b)};
    zt_dna_compare_opts how = {.threads = 1};
    zt_lineage l = {.ctx = NULL};
    if (m[0] && m[1]) (void)zt_dna_lineage(m, 2, &how, 0.5, &l);
    zt_lineage_free(&l);
    zt_dna_close(m[0]);
    zt_dna_close(m[1]);
}

static void splice(zt_ctx *ctx)
{
    zt_dna *a = open_net(ctx, net_a), *b = open_net(ctx, net_b);
    zt_dna_compare_opts work = {.threads = 1};
    zt_splice_opts how = {.alpha = 0.5};
    zt_checkpoint_opts o = {.to = zt_container_named("json"), .force = true};
    zt_dna *child = a && b ? zt_dna_splice(a, b, &how, &work) : NULL;
    if (child) (void)zt_dna_write(child, file, &o);
    zt_dna_close(child);
    zt_dna_close(a);
    zt_dna_close(b);
}

static void graft(zt_ctx *ctx)
{
    zt_dna *m[2] = {open_net(ctx, net_a), open_net(ctx, net_b)};
    zt_graft_opts how = {.combine = "add", .residual = true};
    zt_checkpoint_opts o = {.to = zt_container_named("json"), .force = true};
    zt_meta *meta = zt_meta_new(ctx);
    if (m[0] && m[1] && meta) (void)zt_dna_graft(m, 2, &how, meta, file, &o);
    zt_meta_free(meta);
    zt_dna_close(m[0]);
    zt_dna_close(m[1]);
}

static void extract(zt_ctx *ctx)
{
    zt_dna *a = open_net(ctx, net_a);
    zt_source *source = zt_source_memory(ctx, "told", told, strlen(told));
    zt_dna *t = source ? zt_dna_of_json(ctx, source) : NULL;
    zt_checkpoint_opts o = {.to = zt_container_named("gguf"), .force = true};
    if (a && t) (void)zt_dna_write_signatures(a, file, &o);
    zt_dna_close(t);
    zt_source_close(source);
    zt_dna_close(a);
}

/* A recipe of which a piece had no memory is not written. */
static void recipe(zt_ctx *ctx)
{
    static const char text[] =
        "{\"merge_method\": \"linear\", \"models\": [{\"model\": \"a.gguf\", \"parameters\": {\"weight\": 0.5}},"
        " {\"model\": \"a file of a long name.gguf\", \"parameters\": {\"weight\": [0.75, 0.25]}}]}";
    static const zt_gene_range range = {"weight", 0, 1};
    zt_recipe_genome *genome = zt_recipe_genome_of(ctx, "recipe", text, strlen(text), &range, 1, 1);
    zt_str out;
    zt_str_init(&out, ctx);
    FILE *written = genome && zt_recipe_genome_put(genome, &out) == ZT_OK ? fopen(file, "w") : NULL;
    if (written) fclose(written);
    zt_str_fini(&out);
    zt_recipe_genome_free(genome);
}

static const struct {
    const char *name;
    void (*run)(zt_ctx *ctx);
    uint64_t least; /* allocations */
} jobs[] = {{"compare", compare, 20}, {"lineage", lineage, 20}, {"splice", splice, 20},
            {"graft", graft, 20},     {"extract", extract, 20}, {"recipe", recipe, 4}};

/* Refuses the first allocation, the second ...: until nothing is refused any more. */
static void test_short(const char *name, void (*run)(zt_ctx *ctx), uint64_t least, bool onwards)
{
    bool good = true;
    uint64_t nth = 0;
    for (bool refused = true; good && refused && nth < 20000; nth++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_mem_fail(ctx, nth + 1, onwards);
        run(ctx);
        refused = zt_mem_get(ctx).calls > nth;
        zt_status status = zt_ctx_status(ctx);
        good =
            zt_mem_get(ctx).blocks == 0 && status == (refused ? ZT_ENOMEM : ZT_OK) && (refused ? access(file, F_OK) != 0 : true);
        if (!good) diag("%s: allocation %llu: %s", name, (unsigned long long)nth, zt_ctx_error(ctx));
        zt_ctx_free(ctx);
        unlink(file);
    }
    ok(good && nth > least, "%s: %llu allocations refused%s", name, (unsigned long long)nth - 1,
       onwards ? ", and all after" : "");
}

static void test_similarity(void)
{
    const float zero[2] = {0, 0}, x[2] = {0.6f, 0.8f}, y[2] = {-0.8f, 0.6f};
    ok(zt_dna_similarity(zero, zero, 2) == 1, "two that are all 0 are alike");
    ok(zt_dna_similarity(zero, x, 2) == 0 && zt_dna_similarity(x, zero, 2) == 0, "one that is all 0 is like no other");
    ok(zt_dna_similarity(x, x, 2) == 0.6f * 0.6f + 0.8f * 0.8f, "a dot product, as it is");
    ok(zt_dna_similarity(x, y, 2) == 0, "across: 0");
}

int main(void)
{
    snprintf(file, sizeof file, "/tmp/zt-dna-%ld.json", (long)getpid());
    test_similarity();
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        for (int onwards = 0; onwards < 2; onwards++) test_short(jobs[i].name, jobs[i].run, jobs[i].least, onwards);
    return tap_done();
}
