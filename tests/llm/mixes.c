/* mixes.c - tests of the named mixes: every tensor's type as llama-quantize has it (tests/llm/mixes), and
 * what that cannot show: wishes, pure mixes, files that are no language models. */
#include "lib/llm/mix.h"
#include "tests/common/tap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST 2048

/* ---- what llama-quantize does
 * -------------------------------------------------------------------- */

typedef struct model {
    char arch[32], name[MOST][64];
    long long layers, heads, kv, experts;
    zt_type type[MOST];
    zt_dtype expect[MOST];
    int64_t n;
} model;

static model made;

/* "blk.*.attn_v.weight 192 576": the tensor of each layer. */
static void add_tensors(model *m, const char *line)
{
    char name[64], spelt[64];
    int at = 0, more;
    long long d;
    zt_type its_type = {.dtype = ZT_F16};
    sscanf(line, "%63s%n", name, &at);
    for (; sscanf(line + at, "%lld%n", &d, &more) == 1; at += more) its_type.dim[its_type.rank++] = d;
    its_type.dtype = its_type.rank == 1 ? ZT_F32 : ZT_F16;
    char *star = strchr(name, '*');
    for (long long i = 0; i < (star ? m->layers : 1) && m->n < MOST; i++) {
        if (star) snprintf(spelt, sizeof spelt, "%.*s%lld%s", (int)(star - name), name, i, star + 1);
        memcpy(m->name[m->n], star ? spelt : name, sizeof spelt);
        m->type[m->n++] = its_type;
    }
}

static zt_dtype dtype_of(const char *name)
{
    zt_dtype t = ZT_DTYPE_COUNT;
    zt_dtype_parse(name, strlen(name), &t);
    return t;
}

static bool same_kind(const char *name, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    if (!star) return !strcmp(name, pattern);
    size_t count = (size_t)(star - pattern);
    const char *rest = strncmp(name, pattern, count) ? "" : name + count + strspn(name + count, "0123456789");
    return !strcmp(rest, star + 1);
}

/* "blk.*.attn_v.weight q8_0*3 q5_0": those of layers 0 to 2, then of layer 3. */
static void expect_runs(model *m, const char *line)
{
    char name[64], run[32];
    int at = 0, more;
    int64_t i = 0;
    sscanf(line, "%63s%n", name, &at);
    for (; sscanf(line + at, "%31s%n", run, &more) == 1; at += more) {
        char *star = strchr(run, '*');
        int64_t times = star ? atoll(star + 1) : 1;
        if (star) *star = 0;
        for (; times > 0 && i < m->n; i++)
            if (same_kind(m->name[i], name)) {
                m->expect[i] = dtype_of(run);
                times--;
            }
    }
}

static zt_mix_of about(const model *m, const char *mix)
{
    return (zt_mix_of){.mix = zt_mix_find(mix),
                       .arch = m->arch,
                       .n_layers = m->layers,
                       .n_heads = m->heads,
                       .n_kv_heads = m->kv,
                       .n_experts = m->experts};
}

/* How many are not as expected; *fell: how many have other types than they should. */
static int compare(zt_ctx *ctx, const model *m, const zt_mix_of *of, int *fell)
{
    static zt_mix_tensor t[MOST];
    int wrong = 0;
    *fell = 0;
    for (int64_t i = 0; i < m->n; i++) t[i] = (zt_mix_tensor){.name = m->name[i], .type = &m->type[i]};
    if (zt_mix_choose(ctx, of, t, m->n)) return -1;
    for (int64_t i = 0; i < m->n; i++) {
        *fell += t[i].fell_back;
        if (t[i].dtype != m->expect[i] && wrong++ == 0)
            diag("%s: %s, not %s", m->name[i], zt_dtype_get(t[i].dtype)->name, zt_dtype_get(m->expect[i])->name);
    }
    return wrong;
}

/* One mix of the made model, its lines having been read: with an imatrix, without, or both. */
static void check_mix(zt_ctx *ctx, const char *head, const char *comment)
{
    char mix[32], how[16];
    int fall, fell;
    sscanf(head, "mix %31s %15s %d", mix, how, &fall);
    zt_mix_of of = about(&made, mix);
    for (int with = 0; with < 2; with++) {
        if (!strcmp(how, with ? "without" : "with")) continue;
        of.imatrix = with;
        int wrong = compare(ctx, &made, &of, &fell);
        ok(wrong == 0 && fell == fall, "%s: %s %s an imatrix: %d of %" PRId64 " tensors differ, %d fall back (%d)", comment, mix,
           with ? "with" : "without", wrong, made.n, fell, fall);
    }
}

static void start_mix(const char *head)
{
    char usual[32];
    sscanf(head, "mix %*s %*s %*d %31s", usual);
    for (int64_t i = 0; i < made.n; i++) made.expect[i] = made.type[i].rank == 1 ? ZT_F32 : dtype_of(usual);
}

static void test_llama_quantize(zt_ctx *ctx, const char *path)
{
    char line[1024], head[128] = "", comment[64] = "";
    FILE *file = fopen(path, "r");
    bool tensors = false;
    if (!ok(file != NULL, "%s", path)) return;
    while (fgets(line, sizeof line, file)) {
        bool model_line = !strncmp(line, "model ", 6), mix_line = !strncmp(line, "mix ", 4);
        if ((model_line || mix_line) && *head) check_mix(ctx, head, comment);
        if (model_line) {
            made.n = 0;
            *head = 0;
            tensors = sscanf(line, "model %31s %lld %lld %lld %lld # %63[^\n]", made.arch, &made.layers, &made.heads, &made.kv,
                             &made.experts, comment) == 6;
        } else if (mix_line) {
            snprintf(head, sizeof head, "%.127s", line);
            start_mix(head);
        } else if (*head) {
            expect_runs(&made, line);
        } else if (tensors) {
            add_tensors(&made, line);
        }
    }
    check_mix(ctx, head, comment);
    fclose(file);
}

/* ---- what is ours
 * ------------------------------------------------------------------------------------ */

static const char *const few_names[] = {"token_embd.weight", "blk.0.attn_v.weight", "blk.0.ffn_norm.weight", "blk.0.attn_v.bias"};
static const zt_type few_types[] = {{ZT_BF16, 2, {512, 512}}, {ZT_BF16, 2, {128, 512}}, {ZT_F32, 1, {512}}, {ZT_F32, 1, {128}}};

static void choose_few(zt_ctx *ctx, const zt_mix_of *m, zt_mix_tensor t[4])
{
    for (int i = 0; i < 4; i++) t[i] = (zt_mix_tensor){.name = few_names[i], .type = &few_types[i]};
    ok(zt_mix_choose(ctx, m, t, 4) == ZT_OK, "choose");
}

static void test_wishes(zt_ctx *ctx)
{
    zt_mix_tensor t[4];
    zt_mix_wish wish[] = {{"*", ZT_Q5_0, NULL}, {"*attn_v*", ZT_F16, NULL}, {"blk.9.*", ZT_Q8_0, NULL}};
    zt_mix_of m = {.mix = zt_mix_find("q4_k"), .arch = "llama", .wish = wish, .n_wishes = 3};
    choose_few(ctx, &m, t);
    ok(t[0].dtype == ZT_Q5_0 && t[0].wish == 0, "a wish holds");
    ok(t[1].dtype == ZT_F16 && t[1].wish == 1, "of two that match the last");
    ok(t[2].kept && t[2].dtype == ZT_F32 && t[3].kept, "what stays, stays");
    m = (zt_mix_of){.mix = zt_mix_find("q2_k"), .arch = "llama", .pure = true};
    choose_few(ctx, &m, t);
    ok(t[0].dtype == ZT_Q2_K && t[1].dtype == ZT_Q2_K && t[2].kept, "pure: all of one type");
}

/* What comes before what, as in llama_tensor_get_type of llama-quant.cpp. */
static void test_named_types(zt_ctx *ctx)
{
    static const char *const names[] = {"token_embd.weight", "per_layer_token_embd.weight", "output.weight",
                                        "blk.0.attn_v.weight"};
    static const zt_type its_type = {ZT_F16, 2, {512, 512}};
    zt_dtype q5 = ZT_Q5_0, q8 = ZT_Q8_0;
    zt_mix_pattern *all = zt_mix_pattern_new(ctx, "x:1", "embd|v\\."), *layer = zt_mix_pattern_new(ctx, "x:2", "^per_layer");
    zt_mix_wish both[] = {{.regex = all, .dtype = ZT_Q4_1}}, one[] = {{.regex = layer, .dtype = ZT_Q4_1}};
    const struct {
        const char *what;
        zt_mix_of of;
        int first, count; /* of the names */
        zt_dtype expect[4];
    } cases[] = {
        {"a pattern", {.wish = both, .n_wishes = 1}, 0, 4, {ZT_Q4_1, ZT_Q4_1, ZT_Q6_K, ZT_Q4_1}},
        {"the embedding's type before it",
         {.wish = both, .n_wishes = 1, .embedding_type = &q5},
         0,
         4,
         {ZT_Q5_0, ZT_Q4_1, ZT_Q6_K, ZT_Q4_1}},
        {"a pattern of the other table alone",
         {.wish = one, .n_wishes = 1, .embedding_type = &q5},
         0,
         4,
         {ZT_Q5_0, ZT_Q4_1, ZT_Q6_K, ZT_Q6_K}},
        {"without patterns both tables", {.embedding_type = &q5}, 0, 4, {ZT_Q5_0, ZT_Q5_0, ZT_Q6_K, ZT_Q6_K}},
        {"the output's type", {.output_type = &q8}, 0, 4, {ZT_Q4_K, ZT_Q4_K, ZT_Q8_0, ZT_Q6_K}},
        {"of tied embeddings", {.output_type = &q8}, 0, 2, {ZT_Q8_0, ZT_Q8_0}},
        {"of tied embeddings behind a pattern", {.wish = both, .n_wishes = 1, .output_type = &q8}, 0, 1, {ZT_Q4_1}},
        {"of tied embeddings behind their own", {.output_type = &q8, .embedding_type = &q5}, 0, 1, {ZT_Q5_0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        zt_mix_tensor t[4];
        zt_mix_of of = cases[c].of;
        of.mix = zt_mix_find("q4_k_m");
        of.arch = "llama";
        of.n_layers = 1;
        for (int i = 0; i < cases[c].count; i++) t[i] = (zt_mix_tensor){.name = names[i], .type = &its_type};
        bool same = zt_mix_choose(ctx, &of, t, cases[c].count) == ZT_OK;
        for (int i = 0; i < cases[c].count; i++) same = same && t[i].dtype == cases[c].expect[i];
        ok(same, "named types: %s", cases[c].what);
    }
    zt_mix_pattern_free(all);
    zt_mix_pattern_free(layer);
}

static void test_patterns(zt_ctx *ctx)
{
    ok(!zt_mix_pattern_new(ctx, "x:7", "a(b") && zt_ctx_status(ctx) == ZT_EDATA && strstr(zt_ctx_error(ctx), "x:7: 'a(b': "),
       "an invalid expression: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_mix_pattern *slow = zt_mix_pattern_new(ctx, "x:8", "(a|aa)+$");
    ok(zt_mix_pattern_matches(slow, "blk.aaa") && !zt_mix_pattern_matches(slow, "aab"), "a search");
    ok(zt_ctx_status(ctx) == ZT_OK && !zt_mix_pattern_matches(slow, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab") &&
           zt_ctx_status(ctx) == ZT_EDATA,
       "too many steps: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_mix_pattern_free(slow);
}

/* Rules of llama-quant.cpp for types of one to three bits, of a model of eight layers without grouped keys. */
static void test_low_bits(zt_ctx *ctx)
{
    static const char *const names[] = {"output.weight",         "token_embd.weight",        "blk.0.attn_v.weight",
                                        "blk.0.attn_q.weight",   "blk.0.attn_output.weight", "blk.0.ffn_down.weight",
                                        "blk.1.ffn_down.weight", "blk.1.ffn_up.weight",      "blk.0.ffn_up.weight"};
    enum { N = sizeof names / sizeof *names };
    static const zt_type its_type = {ZT_F16, 2, {512, 512}};
    static const struct {
        const char *mix;
        zt_dtype expect[N];
    } rules[] = {
        {"iq1_s", {ZT_Q5_K, ZT_Q2_K, ZT_Q2_K, ZT_IQ1_S, ZT_IQ2_XXS, ZT_Q2_K, ZT_IQ1_S, ZT_IQ1_S, ZT_IQ1_S}},
        {"iq1_m", {ZT_Q5_K, ZT_Q2_K, ZT_Q2_K, ZT_IQ1_M, ZT_IQ2_XXS, ZT_Q2_K, ZT_IQ1_M, ZT_IQ1_M, ZT_IQ1_M}},
        {"iq2_xxs", {ZT_Q5_K, ZT_Q2_K, ZT_Q2_K, ZT_IQ2_XXS, ZT_IQ2_XXS, ZT_Q2_K, ZT_IQ2_XXS, ZT_IQ2_XXS, ZT_IQ2_XXS}},
        {"iq2_xs", {ZT_Q5_K, ZT_Q2_K, ZT_Q2_K, ZT_IQ2_XS, ZT_IQ2_XS, ZT_Q2_K, ZT_IQ2_XS, ZT_IQ2_XS, ZT_IQ2_XS}},
        {"iq2_s", {ZT_Q5_K, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ2_XS, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ2_XS, ZT_IQ2_XS, ZT_IQ2_XS}},
        {"iq2_m", {ZT_Q5_K, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ2_S, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ2_S, ZT_IQ2_S, ZT_IQ2_S}},
        {"iq3_xxs", {ZT_Q5_K, ZT_IQ3_S, ZT_IQ3_XXS, ZT_IQ2_S, ZT_IQ3_S, ZT_IQ3_XXS, ZT_IQ3_XXS, ZT_IQ3_XXS, ZT_IQ3_XXS}},
        {"iq3_xs", {ZT_Q6_K, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_XXS, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_XXS, ZT_IQ3_S}},
        {"iq3_s", {ZT_Q6_K, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S}},
        {"iq3_m", {ZT_Q6_K, ZT_IQ3_S, ZT_Q4_K, ZT_IQ3_S, ZT_Q4_K, ZT_Q4_K, ZT_IQ3_S, ZT_IQ3_S, ZT_IQ3_S}},
    };
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        zt_mix_tensor t[N];
        int wrong = 0;
        zt_mix_of of = {.mix = zt_mix_find(rules[r].mix), .arch = "llama", .n_layers = 8, .n_heads = 8, .n_kv_heads = 8};
        of.imatrix = true;
        for (int i = 0; i < N; i++) t[i] = (zt_mix_tensor){.name = names[i], .type = &its_type};
        zt_status status = zt_mix_choose(ctx, &of, t, N);
        for (int i = 0; i < N; i++) wrong += t[i].dtype != rules[r].expect[i];
        for (int i = 0; i < N; i++)
            if (t[i].dtype != rules[r].expect[i]) diag("%s: %s", names[i], zt_dtype_get(t[i].dtype)->name);
        ok(status == ZT_OK && wrong == 0, "%s: the types of nine tensors", rules[r].mix);
    }
}

static void test_other_files(zt_ctx *ctx)
{
    static const zt_type y = {ZT_F32, 2, {64, 100}}, i = {ZT_I32, 2, {64, 128}};
    zt_mix_tensor t[] = {{.name = "dense/kernel", .type = &y}, {.name = "table", .type = &i}};
    zt_mix_of m = {.mix = zt_mix_find("q8_0")};
    ok(zt_mix_choose(ctx, &m, t, 2) == ZT_OK && !t[0].kept && t[0].fell_back && t[0].wanted == ZT_Q8_0 && t[0].dtype == ZT_F16,
       "a matrix of any name; rows of 100 are no whole blocks of any type");
    ok(t[1].kept && t[1].dtype == ZT_I32, "integers stay");
    m.arch = "llama";
    ok(zt_mix_choose(ctx, &m, t, 2) == ZT_OK && t[0].kept, "of a language model only weights");
}

static void test_names(void)
{
    int count = 0, blocks = 0;
    for (const zt_mix *m; (m = zt_mix_at(count)); count++) {
        blocks += zt_dtype_get(m->dtype)->block > 1;
        if (zt_mix_find(m->name) != m) ok(false, "%s is found by its name", m->name);
        for (int k = 0; k < count; k++)
            if (!strcmp(m->name, zt_mix_at(k)->name)) ok(false, "%s is there twice", m->name);
    }
    ok(count > 20 && blocks == count - 5, "%d mixes, each found by its own name", count);
    ok(zt_mix_find("Q4_K") == zt_mix_find("q4_k_m") && zt_mix_find("q3_k")->file_type == 12,
       "aliases as llama-quantize has them, in any case");
    ok(!zt_mix_find("q9_k") && !zt_mix_find("") && !zt_mix_at(-1), "no such mix");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_names();
    test_llama_quantize(ctx, "tests/llm/mixes/types.txt");
    test_llama_quantize(ctx, "tests/llm/mixes/rows.txt");
    test_wishes(ctx);
    test_named_types(ctx);
    test_patterns(ctx);
    test_low_bits(ctx);
    test_other_files(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left behind");
    zt_ctx_free(ctx);
    return tap_done();
}
