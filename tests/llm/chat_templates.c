/* chat_templates.c - tests of chat templates: the model's own and its variants, those known by name, the
 * default system text, renderings (those of jinja2, tests/llm/templates/make.py, and Loom's golden ones),
 * files, refusals, failing allocations. */
#include "lib/llm/jinja/jinja.h"
#include "lib/llm/llm.h"
#include "tests/common/gguf_writer.h"
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include <glob.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define HEAD "<|im_start|>system\n"

static const char smollm2[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";
static const char gemma[] = "{{ bos_token }}{{ '<start_of_turn>' + role + '\n' }}";

typedef struct made {
    zt_ctx *ctx;
    char *bytes;
    zt_source *src;
    zt_gguf *g;
} made;

static made make(const char *text) /* NULL: a file without a template */
{
    made m = {.ctx = zt_ctx_new()};
    ggufw w = {0};
    size_t n;
    ggufw_str(&w, "general.architecture", "llama");
    if (text)
        ggufw_str(&w, "tokenizer.chat_template", text);
    m.bytes = ggufw_bytes(&w, &n);
    m.src = zt_source_memory(m.ctx, "m.gguf", m.bytes, n);
    m.g = zt_gguf_from(m.ctx, m.src);
    return m;
}

static void drop(made *m)
{
    zt_gguf_close(m->g);
    zt_source_close(m->src);
    zt_ctx_free(m->ctx);
    free(m->bytes);
}

static void test_names(void)
{
    int n = 0;
    for (const char *name; (name = zt_template_list(n)); n++) {
        const zt_template *t = zt_template_find(name);
        ok(t && strcmp(zt_template_name(t), name) == 0, "template %s is found by its name", name);
    }
    ok(n > 10 && !zt_template_list(-1) && !zt_template_find("alpaca"), "%d templates, no others", n);
}

/* The model's own template, its variants and its special tokens. */
static void test_own(void)
{
    zt_ctx *ctx = zt_ctx_new();
    ggufw w = {0};
    size_t n;
    zt_bytes t = {NULL, 0};
    zt_str names;
    static char tool_use[] = "tool_use", rag[] = "rag", *const variants[] = {tool_use, rag};
    zt_str_init(&names, ctx);
    ggufw_str(&w, "general.architecture", "llama");
    ggufw_str(&w, "tokenizer.chat_template", "D");
    ggufw_str(&w, "tokenizer.chat_template.tool_use", "T");
    ggufw_strs(&w, "tokenizer.chat_templates", variants, 2);
    char *bytes = ggufw_bytes(&w, &n);
    zt_source *src = zt_source_memory(ctx, "m.gguf", bytes, n);
    zt_gguf *g = zt_gguf_from(ctx, src);
    ok(g && zt_chat_template(g, NULL, &t) && t.n == 1 && *t.data == 'D', "the default template");
    ok(g && zt_chat_template(g, "tool_use", &t) && t.n == 1 && *t.data == 'T', "a variant");
    ok(g && !zt_chat_template(g, "rag", &t), "one that is named and not there");
    ok(g && !zt_chat_template_variants(g, &names) && strcmp(names.data, "tool_use, rag") == 0,
       "the names of variants");
    zt_str_fini(&names);
    zt_gguf_close(g);
    zt_source_close(src);
    zt_ctx_free(ctx);
    free(bytes);
}

static const zt_message turns[] = {
    {"system", "You are terse."},
    {"user", " My name is Ana.\n"},
    {"assistant", "Hello"},
    {"user", "Who am I?"},
};

static void test_rendered(void)
{
    static const struct {
        const char *what, *own, *name;
        int from, n;
        const char *text;
    } cases[] = {
        {"ChatML", smollm2, "chatml", 0, 4,
         HEAD "You are terse.<|im_end|>\n<|im_start|>user\n My name is Ana.\n<|im_end|>\n"
              "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nWho am I?<|im_end|>\n"
              "<|im_start|>assistant\n"},
        {"ChatML with the model's system text", smollm2, "chatml", 3, 1,
         HEAD "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
              "<|im_start|>user\nWho am I?<|im_end|>\n<|im_start|>assistant\n"},
        {"ChatML where the model has none", gemma, "chatml", 3, 1,
         "<|im_start|>user\nWho am I?<|im_end|>\n<|im_start|>assistant\n"},
        {"Gemma", gemma, "gemma", 0, 4,
         "<start_of_turn>user\nYou are terse.\n\nMy name is Ana.<end_of_turn>\n"
         "<start_of_turn>model\nHello<end_of_turn>\n"
         "<start_of_turn>user\nWho am I?<end_of_turn>\n<start_of_turn>model\n"},
        {"Gemma without a system text", NULL, "gemma", 3, 1,
         "<start_of_turn>user\nWho am I?<end_of_turn>\n<start_of_turn>model\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = make(cases[i].own);
        zt_str s;
        zt_str_init(&s, m.ctx);
        zt_status st = zt_template_render(zt_template_find(cases[i].name), m.g, NULL,
                                          turns + cases[i].from, cases[i].n, &s);
        if (!ok(!st && s.data && strcmp(s.data, cases[i].text) == 0, "rendered: %s", cases[i].what))
            diag("%s", s.data ? s.data : "nothing");
        zt_str_fini(&s);
        drop(&m);
    }
}

/* Where the default system text stands in a template, and where it only seems to. */
static void test_default_system(void)
{
    static const struct {
        const char *own, *system;
    } cases[] = {
        {"{{- '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}", "You are Qwen."},
        {"{{ \"<|im_start|>system\nYou're it.<|im_end|>\" }}", "You're it."},
        {"{{ '<|im_start|>system\nYou\\'re\\nit.<|im_end|>' }}", "You're\nit."},
        {"<|im_start|>system\nOutside.<|im_end|>\n{% for %}", "Outside."},
        {"'<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>'", NULL},
        {"'<|im_start|>system\n' + x + '<|im_end|>' '<|im_start|>system\nSecond.<|im_end|>'",
         "Second."},
        {"<|im_start|>system\n{{ x }}<|im_end|>", NULL},
        {"'<|im_start|>system\nno end'", NULL},
        {"'<|im_start|>system\n<|im_end|>'", NULL},
        {"<|im_start|>system\n", NULL},
        {"<|im_start|>system", NULL},
        {"'<|im_start|>system\nends in \\<|im_end|>'", "ends in \\"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = make(cases[i].own);
        zt_str s, want;
        zt_str_init(&s, m.ctx);
        zt_str_init(&want, m.ctx);
        if (cases[i].system)
            zt_str_printf(&want, HEAD "%s<|im_end|>\n", cases[i].system);
        zt_str_puts(&want, "<|im_start|>user\nWho am I?<|im_end|>\n<|im_start|>assistant\n");
        zt_template_render(zt_template_find("chatml"), m.g, NULL, &turns[3], 1, &s);
        if (!ok(s.data && strcmp(s.data, want.data) == 0, "default system text %zu: %s", i,
                cases[i].system ? "taken" : "none"))
            diag("%s", s.data ? s.data : "nothing");
        zt_str_fini(&s);
        zt_str_fini(&want);
        drop(&m);
    }
}

static void test_refused(void)
{
    static const zt_message tool[] = {{"user", "a"}, {"tool", "b"}}, lone[] = {{"system", "a"}};
    made m = make(smollm2);
    zt_str s;
    zt_str_init(&s, m.ctx);
    ok(zt_template_render(zt_template_find("chatml"), m.g, NULL, tool, 2, &s) == ZT_EUSAGE &&
           strstr(zt_ctx_error(m.ctx), "message 1: role 'tool'"),
       "a role that is none");
    zt_ctx_clear(m.ctx);
    ok(zt_template_render(zt_template_find("gemma"), m.g, NULL, lone, 1, &s) == ZT_EUSAGE,
       "gemma: a system message alone");
    zt_str_fini(&s);
    drop(&m);
}

static void test_faults(void)
{
    made m = make(smollm2);
    zt_mem before = zt_mem_get(m.ctx);
    int n = 0, wrong = 0;
    for (bool done = false; !done && n < 100;) {
        zt_str s;
        zt_str_init(&s, m.ctx);
        zt_mem_fail(m.ctx, (uint64_t)++n, false);
        done = !zt_template_render(zt_template_find("chatml"), m.g, NULL, &turns[3], 1, &s);
        wrong += zt_ctx_status(m.ctx) != (done ? ZT_OK : ZT_ENOMEM);
        zt_mem_fail(m.ctx, 0, false);
        zt_ctx_clear(m.ctx);
        zt_str_fini(&s);
        wrong += zt_mem_get(m.ctx).blocks != before.blocks;
    }
    ok(n > 1 && n < 100 && !wrong, "each of %d allocations failing", n - 1);
    drop(&m);
}

/* ---- golden ---------------------------------------------------------------------------------- */

enum { MOST = 64 };

static int messages_of(const json_t *array, zt_message m[MOST])
{
    int n = 0;
    for (; n < MOST && n < (int)json_array_size(array); n++) {
        const json_t *o = json_array_get(array, (size_t)n);
        m[n] = (zt_message){json_string_value(json_object_get(o, "role")),
                            json_string_value(json_object_get(o, "content"))};
    }
    return n;
}

/* The program: without the BOS with which it begins. */
static bool runs_as(zt_ctx *ctx, const char *program, const json_t *messages, const char *want)
{
    zt_str s;
    zt_str_init(&s, ctx);
    zt_jinja *t = zt_jinja_parse(ctx, "t", program, strlen(program));
    json_t *input = json_pack("{s:O, s:b}", "messages", messages, "add_generation_prompt", 1);
    json_t *own = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    zt_jinja_vars vars = {.input = input, .own = own};
    bool good = t && zt_jinja_render(ctx, t, &vars, &s, NULL) == ZT_OK;
    const char *text = good && s.len ? s.data : "";
    text += strncmp(text, "<s>", 3) == 0 ? 3 : 0;
    good = good && strcmp(text, want) == 0;
    if (!good)
        diag("%s %s", zt_ctx_error(ctx), text);
    zt_jinja_free(t);
    zt_str_fini(&s);
    json_decref(input);
    json_decref(own);
    zt_ctx_clear(ctx);
    return good;
}

/* Each model's template and the row that stands for it: each conversation as jinja2 renders it. */
static void test_models(void)
{
    json_error_t e;
    json_t *cases = json_load_file("tests/llm/templates/cases.json", 0, &e), *c, *r;
    size_t i, k;
    ok(json_array_size(cases) > 10, "golden renderings of %zu models", json_array_size(cases));
    json_array_foreach(cases, i, c) {
        made m = make(json_string_value(json_object_get(c, "template")));
        const char *model = json_string_value(json_object_get(c, "model"));
        const char *name = json_string_value(json_object_get(c, "name"));
        const zt_template *t = zt_template_find(name);
        json_array_foreach(json_object_get(c, "renderings"), k, r) {
            zt_message msg[MOST];
            zt_str s;
            const char *want = json_string_value(json_object_get(r, "text"));
            int n = messages_of(json_object_get(r, "messages"), msg);
            zt_str_init(&s, m.ctx);
            if (!ok(t && !zt_template_render(t, m.g, NULL, msg, n, &s) && strcmp(s.data, want) == 0,
                    "%s as %s: conversation %zu", model, name, k))
                diag("%s, not %s", s.data ? s.data : "nothing", want);
            ok(runs_as(m.ctx, json_string_value(json_object_get(c, "template")),
                       json_object_get(r, "messages"), want),
               "%s's program: conversation %zu", model, k);
            zt_str_fini(&s);
        }
        drop(&m);
    }
    json_decref(cases);
}

static zt_status put_piece(void *user, zt_bytes text, int message)
{
    (void)message;
    return zt_str_put(user, text.data, text.n);
}

/* One template of one of Loom's cases. Loom puts BOS into Llama 3's
 * system turn; ours is encoding's. */
static void check_loom(const char *path, const char *name, const json_t *want, const zt_message *m,
                       int n)
{
    static const char begin[] = "<|begin_of_text|>";
    made f = make(NULL);
    const zt_template *t = zt_template_find(name);
    const char *prompt = json_string_value(json_object_get(want, "prompt"));
    const char *next = json_string_value(json_object_get(want, "next_turn"));
    zt_str s;
    zt_str_init(&s, f.ctx);
    if (prompt && strncmp(prompt, begin, strlen(begin)) == 0)
        prompt += strlen(begin);
    ok(t && prompt && !zt_template_render(t, f.g, NULL, m, n, &s) && strcmp(s.data, prompt) == 0,
       "%s: %s", path, name);
    zt_str_clear(&s);
    ok(t && next && !zt_template_next(t, f.g, NULL, m[n - 1].content, false, put_piece, &s) &&
           strcmp(s.data, next) == 0,
       "%s: %s, the next turn", path, name);
    zt_str_fini(&s);
    drop(&f);
}

static const char *either(const json_t *o, const char *a, const char *b)
{
    const char *text = json_string_value(json_object_get(o, a));
    return text ? text : json_string_value(json_object_get(o, b));
}

static void loom_case(const char *path)
{
    json_t *c = json_load_file(path, 0, NULL), *turn, *want;
    zt_message m[MOST];
    const char *key, *system = json_string_value(json_object_get(c, "system"));
    int n = 0;
    size_t i;
    if (system && *system)
        m[n++] = (zt_message){"system", system};
    json_array_foreach(json_object_get(c, "turns"), i, turn) {
        m[n++] = (zt_message){"user", either(turn, "user", "User")};
        m[n++] = (zt_message){"assistant", either(turn, "assistant", "Assistant")};
    }
    m[n++] = (zt_message){"user", json_string_value(json_object_get(c, "user"))};
    json_object_foreach(c, key, want)
        if (json_is_object(want))
            check_loom(path, key, want, m, n);
    json_decref(c);
}

static void test_loom(void)
{
    char folder[480], pattern[512];
    glob_t g;
    if (!golden_holds("loom/templates", folder))
        return;
    snprintf(pattern, sizeof pattern, "%s/*.json", folder);
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++)
            loom_case(g.gl_pathv[i]);
    globfree(&g);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *write_file(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/zt-template-%d.json", (int)getpid());
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    return path;
}

static void test_file(const char *what, const char *text)
{
    made m = make(NULL);
    zt_str s;
    zt_str_init(&s, m.ctx);
    zt_template *t = zt_template_open(m.ctx, write_file(text));
    bool right = t && strcmp(zt_template_name(t), "mine") == 0 &&
                 !zt_template_render(t, m.g, NULL, turns, 4, &s) &&
                 strcmp(s.data, "(S: You are terse.;U:  My name is Ana.\n;A: Hello.U: Who am I?;A: )") == 0;
    if (!ok(right, "a file: %s", what))
        diag("%s %s", zt_ctx_error(m.ctx), s.data ? s.data : "");
    zt_bytes user = t ? zt_template_user(t) : (zt_bytes){"", 0};
    ok(user.n == 2 && memcmp(user.data, "U:", 2) == 0, "a file: what opens a user's turn");
    zt_str_fini(&s);
    zt_template_free(m.ctx, t);
    drop(&m);
}

static void test_files(void)
{
    static const char *const bad[][2] = {
        {"[]", "JSON object"},
        {"{", "line 1"},
        {"{\"name\": \"a\"}", "no user"},
        {"{\"role_prefixes\": {\"user\": \"\"}}", "no assistant"},
        {"{\"role_prefixes\": [1]}", "not an object"},
        {"{\"role_prefixes\": {\"user\": 1}}", "not a string"},
        {"{\"role_prefixes\": {\"tool\": \"\"}}", "'tool'"},
        {"{\"name\": \"a\", \"name\": \"b\"}", "duplicate"},
        {"{\"global_prefix\": \"\\u0003\"}", "control character"},
    };
    test_file("by its own names",
              "{\"name\": \"mine\", \"global_prefix\": \"(\", \"global_suffix\": \")\","
              " \"role_prefixes\": {\"system\": \"S: \", \"user\": \"U: \", \"assistant\": \"A: \"},"
              " \"role_suffixes\": {\"system\": \";\", \"user\": \";\", \"assistant\": \".\"}}");
    test_file("by Go's names",
              "{\"Name\": \"mine\", \"GlobalPrefix\": \"(\", \"GlobalSuffix\": \")\","
              " \"RolePrefixes\": {\"system\": \"S: \", \"user\": \"U: \", \"assistant\": \"A: \"},"
              " \"RoleSuffixes\": {\"system\": \";\", \"user\": \";\", \"assistant\": \".\"}}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_template *t = zt_template_open(ctx, write_file(bad[i][0]));
        if (!ok(!t && zt_ctx_status(ctx) == ZT_EDATA && strstr(zt_ctx_error(ctx), bad[i][1]),
                "refused: %s", bad[i][0]))
            diag("%s", zt_ctx_error(ctx));
        ok(zt_mem_get(ctx).blocks == 0, "nothing left behind");
        zt_ctx_free(ctx);
    }
    made m = make(NULL);
    zt_str s;
    zt_str_init(&s, m.ctx);
    zt_template *t = zt_template_open(
        m.ctx, write_file("{\"role_prefixes\": {\"user\": \"\", \"assistant\": \"\"}}"));
    ok(t && zt_template_render(t, m.g, NULL, turns, 2, &s) == ZT_EUSAGE &&
           strstr(zt_ctx_error(m.ctx), "system"),
       "a system message where there is no place for one");
    zt_template_free(m.ctx, t);
    zt_str_fini(&s);
    drop(&m);
    remove(write_file(""));
}

int main(void)
{
    test_models();
    test_loom();
    test_files();
    test_names();
    test_own();
    test_rendered();
    test_default_system();
    test_refused();
    test_faults();
    return tap_done();
}
