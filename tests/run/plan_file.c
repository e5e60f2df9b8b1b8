/* plan_file.c - lib/run/plan_file.h: plans as text, run with the same
 * bits, and refused when they lie. */
#include "lib/run/pass.h"
#include "lib/run/plan_file.h"
#include "tests/common/made_llm.h"

static const setup cpu = {.engine = "cpu", .threads = 2, .ctx_len = 128, .chunk = 16};

/* The plan of a made model for one token, as text. */
static zt_status compile(const file *file_data, unsigned off, zt_str *text)
{
    setup options = cpu;
    options.isa = zt_isa_best();
    zt_ctx *ctx = zt_ctx_new();
    zt_binding sample[] = {{"n", 3}, {"m", 2}, {"ctx", 128}};
    zt_binding one[] = {{"n", 1}, {"m", 1}, {"ctx", 128}};
    model o;
    zt_status st = model_open(&o, ctx, file_data, &options);
    zt_pass_opts po = {.sample = sample, .n_sample = 3, .engine = o.e, .off = off};
    zt_prog *program = st ? NULL : zt_prog_passes(ctx, zt_llm_prog(o.m), &po, NULL);
    zt_plan_file_opts to = {.engine = o.e, .isa = options.isa, .off = off, .bind = one, .n_bind = 3};
    st = program ? zt_plan_file_print(program, &to, text) : zt_ctx_status(ctx);
    if (st) diag("%s", zt_ctx_error(ctx));
    zt_prog_free(program);
    model_close(&o);
    zt_ctx_free(ctx);
    return st;
}

/* Logits of a prompt and of a few tokens one by one under a plan (NULL: without), or NULL with the
 * message in `why`. */
static float *run_plan(const file *file_data, const char *plan, size_t count, int64_t V, char why[512])
{
    enum { PROMPT = 20, MORE = 4 };
    int32_t ids[PROMPT + MORE];
    zt_ctx *ctx = zt_ctx_new();
    float *y = calloc((size_t)((1 + MORE) * V), sizeof *y);
    zt_source *src = zt_source_memory(ctx, "made", file_data->bytes, file_data->n);
    zt_gguf *gguf = src ? zt_gguf_from(ctx, src) : NULL;
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    zt_plan_file *planned = plan ? zt_plan_file_parse(ctx, "plan.zt", plan, count) : NULL;
    zt_llm_opts lo = {
        .engine = e, .ctx_len = 128, .chunk = 16, .kv = ZT_DTYPE_COUNT, .planned = planned, .passes_off = plan ? 0 : ~0u};
    zt_llm *m = gguf && (planned || !plan) ? zt_llm_open(gguf, &lo) : NULL;
    draw_ids(ids, PROMPT + MORE, V);
    zt_status st = m ? zt_llm_feed(m, ids, PROMPT, false, y) : zt_ctx_status(ctx);
    for (int i = 0; i < MORE && !st; i++) st = zt_llm_feed(m, ids + PROMPT + i, 1, false, y + (1 + i) * V);
    snprintf(why, 512, "%d %s", (int)st, zt_ctx_error(ctx) ? zt_ctx_error(ctx) : "");
    zt_llm_close(m);
    zt_plan_file_free(planned);
    zt_engine_close(e);
    zt_gguf_close(gguf);
    zt_source_close(src);
    if (st || zt_mem_get(ctx).blocks) {
        if (!st) diag("%zu blocks leak", zt_mem_get(ctx).blocks);
        free(y);
        y = NULL;
    }
    zt_ctx_free(ctx);
    return y;
}

static void test_bits(const char *arch)
{
    char why[512];
    file file_data = make_file(arch, "q8_0", 2, NULL);
    int64_t V = vocab_of(&file_data);
    zt_ctx *ctx = zt_ctx_new();
    zt_str text;
    zt_str_init(&text, ctx);
    zt_status st = compile(&file_data, 0, &text);
    ok(st == ZT_OK, "%s: a plan of %zu bytes", arch, text.len);
    float *want = run_plan(&file_data, NULL, 0, V, why), *got = run_plan(&file_data, text.data, text.len, V, why);
    ok(want && got && !memcmp(want, got, (size_t)(5 * V) * sizeof *want),
       "%s: the plan gives the bits of no plan and no pass (%s)", arch, why);
    /* The same text once more: planned again from what was parsed. */
    zt_plan_file *p = zt_plan_file_parse(ctx, "plan.zt", text.data, text.len);
    ok(p && !strcmp(zt_plan_file_engine(p), "cpu") && zt_plan_file_isa(p) == zt_isa_best(), "%s: it says its engine", arch);
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    zt_binding one[] = {{"n", 1}, {"m", 1}, {"ctx", 128}};
    zt_plan_file_opts to = {.engine = e, .isa = zt_isa_best(), .bind = one, .n_bind = 3, .off = p ? zt_plan_file_off(p) : 0};
    zt_str again;
    zt_str_init(&again, ctx);
    ok(p && zt_plan_file_print(zt_plan_file_prog(p), &to, &again) == ZT_OK && again.len == text.len &&
           !memcmp(again.data, text.data, text.len),
       "%s: planned again, the same text", arch);
    zt_str_fini(&again);
    zt_engine_close(e);
    zt_plan_file_free(p);
    free(want);
    free(got);
    zt_str_fini(&text);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

/* ---- plans that lie -------------------------------------------------------------------------- */

static file llama;
static int64_t vocab;
static zt_str good;

/* The plan with the first `what` from the first `after` on replaced. */
static char *spoilt(const char *after, const char *what, const char *with)
{
    char *from = strstr(good.data, after), *at = from ? strstr(from, what) : NULL;
    if (!at) return NULL;
    size_t head = (size_t)(at - good.data), n = good.len + strlen(with) + 1;
    char *s = malloc(n);
    snprintf(s, n, "%.*s%s%s", (int)head, good.data, with, at + strlen(what));
    return s;
}

static void plan_refused(const char *after, const char *what, const char *with, const char *says)
{
    char why[512] = "";
    char *string = spoilt(after, what, with);
    float *y = string ? run_plan(&llama, string, strlen(string), vocab, why) : NULL;
    int status = atoi(why);
    ok(string && !y && (status == ZT_EDATA || status == ZT_ESHAPE) && strstr(why, says), "'%s' for '%s': refused, as '%s' (%s)",
       with, what, says, why);
    free(y);
    free(string);
}

/* A line's word number `word` from 0. */
static void word_of(const char *line, int word, char out[64])
{
    snprintf(out, 64, "%s", "");
    for (const char *at = line; word >= 0; word--) {
        size_t count = strcspn(at, " \n");
        snprintf(out, 64, "%.*s", (int)count, at);
        at += count + 1;
    }
}

static void test_lies(void)
{
    zt_ctx *ctx = zt_ctx_new();
    char name[64], bytes[64], line[256], moved[600];
    llama = make_file("llama", "q8_0", 2, NULL);
    vocab = vocab_of(&llama);
    zt_str_init(&good, ctx);
    ok(compile(&llama, 0, &good) == ZT_OK, "a plan to be spoilt");
    plan_refused("zt program", "zt program 1", "zt programme 1", "zt program 1");
    plan_refused("zt program", "#plan engine cpu", "#plan engine tpu", "tpu");
    plan_refused("zt program", "#plan engine", "# engine", "no engine line");
    plan_refused("#plan", "isa=", "isa=mmx", "not an engine with its isa");
    plan_refused("#plan passes", "cse", "magic", "unknown pass 'magic'");
    plan_refused("model", "id=", "id=00", "the plan was compiled for model");
    plan_refused("#plan bind", "ctx=128", "ctx=12x", "is not SYMBOL=NUMBER");
    plan_refused("#plan bind", "n=1 ", "", "no value for symbol 'n'");
    plan_refused("#plan bind", "out=logits", "out=wisdom", "not a list of the program's outputs");
    plan_refused("#plan split", "split cpu 0..", "split cpu 1..", "partition cpu 1..");
    plan_refused("#plan split", "split cpu", "split ref", "partition ref");
    plan_refused("#plan split", "arena=", "arena=9", "its values need");
    plan_refused("#plan split", "#plan split", "#plan splat", "cannot start a line of a plan");
    /* The second value of an arena, moved onto the first, which it is made of. */
    const char *at = strstr(good.data, "#plan at");
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    word_of(line, 2, name);
    word_of(line, 4, bytes);
    snprintf(moved, sizeof moved, "#plan at %s 64 %s", name, bytes);
    plan_refused("#plan at", line, moved, "");
    snprintf(moved, sizeof moved, "#plan at %s -64 %s", name, bytes);
    plan_refused("#plan at", line, moved, "invalid at");
    snprintf(moved, sizeof moved, "#plan at %s 9223372036854775744 %s", name, bytes);
    plan_refused("#plan at", line, moved, "");
    snprintf(moved, sizeof moved, "#plan at nobody 0 %s", bytes);
    plan_refused("#plan at", line, moved, "not a value of the program");
    snprintf(moved, sizeof moved, "%s\n%s", line, line);
    plan_refused("#plan at", line, moved, "two offsets");
    plan_refused("#plan at", line, "#", "has no offset");
    snprintf(moved, sizeof moved, "#plan at %s 0 64", name);
    plan_refused("#plan at", line, moved, "has another size in the program");
    zt_str_fini(&good);
    zt_ctx_free(ctx);
    free(llama.bytes);
}

/* Every offset to 0: what is alive together overlaps. */
static void test_overlap(void)
{
    char why[512] = "";
    zt_ctx *ctx = zt_ctx_new();
    file file_data = make_file("llama", "q8_0", 2, NULL);
    int64_t V = vocab_of(&file_data);
    zt_str text, zero;
    zt_str_init(&text, ctx);
    zt_str_init(&zero, ctx);
    compile(&file_data, 0, &text);
    for (const char *at = text.data, *end = at + text.len; at < end;) {
        size_t count = strcspn(at, "\n");
        char name[64], bytes[64], offset[64];
        word_of(at, 2, name);
        word_of(at, 3, offset);
        word_of(at, 4, bytes);
        if (!strncmp(at, "#plan at ", 9) && strcmp(offset, "0") && !strstr(at, " over "))
            zt_str_printf(&zero, "#plan at %s 0 %s\n", name, bytes);
        else
            zt_str_printf(&zero, "%.*s\n", (int)count, at);
        at += count + 1;
    }
    float *y = run_plan(&file_data, zero.data, zero.len, V, why);
    ok(!y && atoi(why) == ZT_EDATA, "all values at offset 0: refused (%s)", why);
    free(y);
    zt_str_fini(&text);
    zt_str_fini(&zero);
    zt_ctx_free(ctx);
    free(file_data.bytes);
}

int main(void)
{
    test_bits("llama");
    test_bits("gemma3");
    test_lies();
    test_overlap();
    return tap_done();
}
