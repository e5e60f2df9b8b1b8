/* recurrent.c - models with recurrent layers, made ones: rewinds, drafts and sessions give the bits of a text that was fed once;
 * what is refused by name. That the formulas are right is for tests/llm/delta to say: there are transformers' logits.
 */
#include "tests/common/made_llm.h"

#include <unistd.h>

enum { TRIES = 60, CTX = 96 };

#define ID  "00000000000000000000000000000000"
#define HOW "test"

static char path[64];

/* ---- back and forth -------------------------------------------------------------------------- */

/* A number below `limit`. */
static int64_t below(uint64_t seed, int step, int word, int64_t limit)
{
    return (int64_t)(zt_uniform(seed, (uint64_t)step, (uint64_t)word) * (double)limit);
}

/* Feeds tokens as a draft, a prompt or one by one, from places that are rewound to at random; logits must be those of `want`. */
static bool goes_back(model *o, const int32_t *ids, const float *want, int64_t V, uint64_t seed)
{
    float *got = calloc((size_t)(N_TOKENS * V), sizeof *got);
    bool good = true;
    for (int step = 0; step < TRIES && good; step++) {
        int64_t position = zt_llm_position(o->m),
                back = below(seed, step, 0, 3) ? below(seed, step, 1, 6) : below(seed, step, 1, 70);
        if (back > position) back = position;
        if (back == 0 && position == N_TOKENS) back = 1;
        good = zt_llm_rewind(o->m, position - back) == ZT_OK;
        position -= back;
        int64_t count = 1 + below(seed, step, 2, below(seed, step, 3, 2) ? 5 : N_TOKENS - position);
        if (count > N_TOKENS - position) count = N_TOKENS - position;
        bool all = below(seed, step, 4, 2);
        good = good && zt_llm_feed(o->m, ids + position, (size_t)count, all, got) == ZT_OK;
        const float *from = all ? want + position * V : want + (position + count - 1) * V;
        good = good && memcmp(got, from, (size_t)((all ? count : 1) * V) * sizeof *got) == 0;
        if (!good) diag("step %d: %d tokens at %d, after %d back", step, (int)count, (int)position, (int)back);
    }
    free(got);
    return good;
}

static void test_rewinds(const char *arch, const char *type)
{
    static const int64_t chunks[] = {0, 1, 3, 16};
    file f = make_file(arch, type, 4, NULL);
    int64_t V = vocab_of(&f);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .ctx_len = CTX};
    int32_t ids[N_TOKENS];
    draw_ids(ids, N_TOKENS, V);
    float *want = all_logits(&f, &options, V);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        zt_ctx *ctx = zt_ctx_new();
        model o;
        options.chunk = chunks[i];
        bool good = want && model_open(&o, ctx, &f, &options) == ZT_OK && goes_back(&o, ids, want, V, 17 + i);
        ok(good, "%s %s, chunk %d: back and forth %d times, the bits of feeding once %s", arch, type, (int)chunks[i], TRIES,
           zt_ctx_error(ctx));
        model_close(&o);
        ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
        zt_ctx_free(ctx);
    }
    free(want);
    free(f.bytes);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Saved after `cut` tokens, of which `back` were taken back, and loaded into a context of ctx_len tokens. */
static bool comes_back(const file *f, const int32_t *ids, const float *want, int64_t V, int64_t cut, int64_t back,
                       int64_t ctx_len)
{
    zt_ctx *ctx = zt_ctx_new();
    model a, b = {0};
    zt_ids got = {0};
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = CTX};
    float *y = calloc((size_t)V, sizeof *y);
    zt_status status = model_open(&a, ctx, f, &options);
    if (!status) status = zt_llm_feed(a.m, ids, (size_t)cut, false, NULL);
    if (!status) status = zt_llm_rewind(a.m, cut - back);
    if (!status) status = zt_llm_save(a.m, ID, HOW, ids, path);
    options.ctx_len = ctx_len;
    if (!status) status = model_open(&b, ctx, f, &options);
    if (!status) status = zt_llm_load(b.m, ID, HOW, path, &got);
    int64_t position = zt_llm_position(b.m), kept = cut - back < ctx_len ? cut - back : ctx_len;
    bool good = !status && position == kept && (int64_t)got.count == kept;
    if (good && position == ctx_len) good = zt_llm_rewind(b.m, --position) == ZT_OK;
    good =
        good && zt_llm_feed(b.m, ids + position, 1, false, y) == ZT_OK && !memcmp(y, want + position * V, (size_t)V * sizeof *y);
    if (!good) diag("%d tokens, %d back, context %d: %s", (int)cut, (int)back, (int)ctx_len, zt_ctx_error(ctx));
    zt_ids_fini(ctx, &got);
    model_close(&a);
    model_close(&b);
    free(y);
    zt_ctx_free(ctx);
    return good;
}

static void test_sessions(const char *arch)
{
    file f = make_file(arch, "q8_0", 2, NULL);
    int64_t V = vocab_of(&f);
    setup options = {.engine = "cpu", .threads = 1, .isa = zt_isa_best(), .ctx_len = CTX};
    int32_t ids[N_TOKENS];
    draw_ids(ids, N_TOKENS, V);
    float *want = all_logits(&f, &options, V);
    bool good = want != NULL;
    for (int64_t cut = 1; cut < N_TOKENS && good; cut += 4)
        for (int64_t back = 0; back <= 3 && back <= cut && good; back += 3) good = comes_back(&f, ids, want, V, cut, back, CTX);
    ok(good, "%s: a session that is cut anywhere goes on with the same bits", arch);
    ok(want && comes_back(&f, ids, want, V, 60, 0, 32), "%s: one with more tokens than the context has room for", arch);
    free(want);
    free(f.bytes);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void no_list(ggufw *w) { ggufw_u32(w, "qwen35.attention.recurrent_layers", 1); }
static void short_list(ggufw *w)
{
    const uint8_t flag[1] = {1};
    ggufw_array(w, "qwen35.attention.recurrent_layers", 7, 1, flag, sizeof flag);
}
static void other_list(ggufw *w)
{
    const uint8_t flag[2] = {0, 1};
    ggufw_array(w, "qwen35.attention.recurrent_layers", 7, 2, flag, sizeof flag);
}

static void test_refusals(void)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *word;
    } row[] = {
        {"ssm.conv_kernel", 0, "ssm.conv_kernel is 0"},
        {"ssm.conv_kernel", UINT32_MAX, "ssm.conv_kernel is 4294967295"},
        {"ssm.conv_kernel", 3, "expected f32[128,3]"},
        {"ssm.state_size", 0, "ssm.state_size is 0"},
        {"ssm.state_size", 0x80000000, "ssm.state_size is 2147483648"},
        {"ssm.state_size", 32, "'blk.0.attn_qkv.weight'"},
        {"ssm.group_count", 0, "ssm.group_count is 0"},
        {"ssm.group_count", 3, "ssm.time_step_rank is not a multiple of ssm.group_count (4, 3)"},
        {"ssm.group_count", UINT32_MAX, "ssm.group_count is 4294967295"},
        {"ssm.time_step_rank", 0, "ssm.time_step_rank is 0"},
        {"ssm.time_step_rank", 5, "ssm.inner_size is not a multiple of ssm.time_step_rank (64, 5)"},
        {"ssm.inner_size", 0, "ssm.inner_size is 0"},
        {"ssm.inner_size", 128, "'blk.0.attn_qkv.weight'"},
        {"ssm.inner_size", UINT32_MAX, "ssm.inner_size is 4294967295"},
        {"full_attention_interval", 0, "full_attention_interval is 0"},
        {"full_attention_interval", UINT32_MAX, "full_attention_interval is 4294967295"},
        {"full_attention_interval", 1, "'blk.1.attn_qkv.weight' is missing"},
    };
    static const char *const keys[] = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank",
                                       "ssm.inner_size"};
    static const struct {
        extra_fn *extra;
        const char *word;
    } lists[] = {{no_list, "attention.recurrent_layers is not a list (0, 2)"},
                 {short_list, "attention.recurrent_layers is not 0 or 1 for each layer (1, 2)"},
                 {other_list, "'blk.0.attn_q_norm.weight' is missing"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) expect_key("qwen35", row[i].key, row[i].value, row[i].word);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char from[64], to[64], word[96];
        file f = make_file("qwen35", "q8_0", 2, NULL);
        snprintf(from, sizeof from, "qwen35.%s", keys[i]);
        snprintf(to, sizeof to, "qwen35.%s", keys[i]);
        to[strlen(to) - 1] = '_';
        snprintf(word, sizeof word, "key '%s' is missing", from);
        rename_to(&f, from, to);
        expect(&f, ZT_EDATA, word, word);
        free(f.bytes);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        file f = make_file("qwen35", "q8_0", 2, lists[i].extra);
        expect(&f, ZT_EDATA, lists[i].word, lists[i].word);
        free(f.bytes);
    }
}

/* Each tensor of a delta net under another name is missed by its own. */
static void test_missing(const char *arch)
{
    static const char *const names[] = {
        "attn_qkv.weight", "attn_gate.weight", "ssm_conv1d.weight", "ssm_dt.bias",      "ssm_a",
        "ssm_norm.weight", "ssm_out.weight",   "ssm_beta.weight",   "ssm_alpha.weight", "ssm_ba.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool next = strcmp(arch, "qwen3next") == 0, both = strcmp(names[i], "ssm_ba.weight") == 0;
        char from[64], to[64], word[96];
        if (next != both && i > 6) continue;
        file f = make_file(arch, "q8_0", 2, NULL);
        snprintf(from, sizeof from, "blk.0.%s", names[i]);
        snprintf(to, sizeof to, "blk.0.x%s", names[i] + 1);
        snprintf(word, sizeof word, "tensor '%s' is missing", from);
        rename_to(&f, from, to);
        expect(&f, ZT_EDATA, word, word);
        free(f.bytes);
    }
}

int main(void)
{
    static const char *const archs[] = {"qwen3next", "qwen35", "qwen35moe"}, *const goose[] = {"rwkv7", "arwkv7"};
    snprintf(path, sizeof path, "/tmp/zt-recurrent-%d", (int)getpid());
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        test_rewinds(archs[i], "f32");
        test_rewinds(archs[i], "q8_0");
        test_sessions(archs[i]);
        test_missing(archs[i]);
    }
    for (size_t i = 0; i < sizeof goose / sizeof *goose; i++) {
        test_rewinds(goose[i], "f32");
        test_rewinds(goose[i], "q8_0");
        test_sessions(goose[i]);
    }
    test_refusals();
    remove(path);
    return tap_done();
}
