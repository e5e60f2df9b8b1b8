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

static const char smollm2[] = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
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

static made make_model(const char *text) /* NULL: a file without a template */
{
    made m = {.ctx = zt_ctx_new()};
    ggufw writer = {0};
    size_t count;
    ggufw_str(&writer, "general.architecture", "llama");
    if (text) ggufw_str(&writer, "tokenizer.chat_template", text);
    m.bytes = ggufw_bytes(&writer, &count);
    m.src = zt_source_memory(m.ctx, "m.gguf", m.bytes, count);
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
    int count = 0;
    for (const char *name; (name = zt_template_list(count)); count++) {
        const zt_template *template = zt_template_find(name);
        ok(template && strcmp(zt_template_name(template), name) == 0, "template %s is found by its name", name);
    }
    ok(count > 10 && !zt_template_list(-1) && !zt_template_find("alpaca"), "%d templates, no others", count);
}

/* The model's own template, its variants and its special tokens. */
static void test_own(void)
{
    zt_ctx *ctx = zt_ctx_new();
    ggufw writer = {0};
    size_t count;
    zt_bytes t = {NULL, 0};
    zt_str names;
    static char tool_use[] = "tool_use", rag[] = "rag", *const variants[] = {tool_use, rag};
    zt_str_init(&names, ctx);
    ggufw_str(&writer, "general.architecture", "llama");
    ggufw_str(&writer, "tokenizer.chat_template", "D");
    ggufw_str(&writer, "tokenizer.chat_template.tool_use", "T");
    ggufw_strs(&writer, "tokenizer.chat_templates", variants, 2);
    ggufw_str(&writer, "tokenizer.chat_template.loud", "L");
    char *bytes = ggufw_bytes(&writer, &count);
    zt_source *src = zt_source_memory(ctx, "m.gguf", bytes, count);
    zt_gguf *gguf = zt_gguf_from(ctx, src);
    ok(gguf && zt_chat_template(gguf, NULL, &t) && t.n == 1 && *t.data == 'D', "the default template");
    ok(gguf && zt_chat_template(gguf, "tool_use", &t) && t.n == 1 && *t.data == 'T', "a variant");
    ok(gguf && !zt_chat_template(gguf, "rag", &t), "one that is named and not there");
    ok(gguf && !zt_chat_template_variants(gguf, &names) && strcmp(names.data, "tool_use, loud") == 0,
       "the names of variants: those that are there, listed or not");
    ok(gguf && zt_chat_template_variant(gguf, 1, &t) && t.n == 4 && memcmp(t.data, "loud", 4) == 0 &&
           !zt_chat_template_variant(gguf, 2, &t) && !zt_chat_template_variant(gguf, -1, &t),
       "variants by number");
    zt_str_fini(&names);
    zt_gguf_close(gguf);
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
        made made_model = make_model(cases[i].own);
        zt_str string;
        zt_str_init(&string, made_model.ctx);
        zt_status st =
            zt_template_render(zt_template_find(cases[i].name), made_model.g, NULL, turns + cases[i].from, cases[i].n, &string);
        if (!ok(!st && string.data && strcmp(string.data, cases[i].text) == 0, "rendered: %s", cases[i].what))
            diag("%s", string.data ? string.data : "nothing");
        zt_str_fini(&string);
        drop(&made_model);
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
        {"'<|im_start|>system\n' + x + '<|im_end|>' '<|im_start|>system\nSecond.<|im_end|>'", "Second."},
        {"<|im_start|>system\n{{ x }}<|im_end|>", NULL},
        {"'<|im_start|>system\nno end'", NULL},
        {"'<|im_start|>system\n<|im_end|>'", NULL},
        {"<|im_start|>system\n", NULL},
        {"<|im_start|>system", NULL},
        {"'<|im_start|>system\nends in \\<|im_end|>'", "ends in \\"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made made_model = make_model(cases[i].own);
        zt_str string, want;
        zt_str_init(&string, made_model.ctx);
        zt_str_init(&want, made_model.ctx);
        if (cases[i].system) zt_str_printf(&want, HEAD "%s<|im_end|>\n", cases[i].system);
        zt_str_puts(&want, "<|im_start|>user\nWho am I?<|im_end|>\n<|im_start|>assistant\n");
        zt_template_render(zt_template_find("chatml"), made_model.g, NULL, &turns[3], 1, &string);
        if (!ok(string.data && strcmp(string.data, want.data) == 0, "default system text %zu: %s", i,
                cases[i].system ? "taken" : "none"))
            diag("%s", string.data ? string.data : "nothing");
        zt_str_fini(&string);
        zt_str_fini(&want);
        drop(&made_model);
    }
}

static void test_refused(void)
{
    static const zt_message tool[] = {{"user", "a"}, {"tool", "b"}}, lone[] = {{"system", "a"}};
    made made_model = make_model(smollm2);
    zt_str string;
    zt_str_init(&string, made_model.ctx);
    ok(zt_template_render(zt_template_find("chatml"), made_model.g, NULL, tool, 2, &string) == ZT_EUSAGE &&
           strstr(zt_ctx_error(made_model.ctx), "message 1: unknown role 'tool'"),
       "a role that is none");
    zt_ctx_clear(made_model.ctx);
    ok(zt_template_render(zt_template_find("gemma"), made_model.g, NULL, lone, 1, &string) == ZT_EUSAGE,
       "gemma: a system message alone");
    zt_str_fini(&string);
    drop(&made_model);
}

static void test_faults(void)
{
    made made_model = make_model(smollm2);
    zt_mem before = zt_mem_get(made_model.ctx);
    int count = 0, wrong = 0;
    for (bool done = false; !done && count < 100;) {
        zt_str string;
        zt_str_init(&string, made_model.ctx);
        zt_mem_fail(made_model.ctx, (uint64_t)++count, false);
        done = !zt_template_render(zt_template_find("chatml"), made_model.g, NULL, &turns[3], 1, &string);
        wrong += zt_ctx_status(made_model.ctx) != (done ? ZT_OK : ZT_ENOMEM);
        zt_mem_fail(made_model.ctx, 0, false);
        zt_ctx_clear(made_model.ctx);
        zt_str_fini(&string);
        wrong += zt_mem_get(made_model.ctx).blocks != before.blocks;
    }
    ok(count > 1 && count < 100 && !wrong, "each of %d allocations failing", count - 1);
    drop(&made_model);
}

/* ---- golden ---------------------------------------------------------------------------------- */

enum { MOST = 64 };

static int messages_of(const json_t *array, zt_message m[MOST])
{
    int n = 0;
    for (; n < MOST && n < (int)json_array_size(array); n++) {
        const json_t *o = json_array_get(array, (size_t)n);
        m[n] = (zt_message){json_string_value(json_object_get(o, "role")), json_string_value(json_object_get(o, "content"))};
    }
    return n;
}

/* The program: without the BOS with which it begins. */
static bool runs_as(zt_ctx *ctx, const char *program, const json_t *messages, const char *want)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_jinja *t = zt_jinja_parse(ctx, "t", program, strlen(program));
    json_t *input = json_pack("{s:O, s:b}", "messages", messages, "add_generation_prompt", 1);
    json_t *own = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    zt_jinja_vars vars = {.input = input, .own = own};
    bool good = t && zt_jinja_render(ctx, t, &vars, &string, NULL) == ZT_OK;
    const char *text = good && string.len ? string.data : "";
    text += strncmp(text, "<s>", 3) == 0 ? 3 : 0;
    good = good && strcmp(text, want) == 0;
    if (!good) diag("%s %s", zt_ctx_error(ctx), text);
    zt_jinja_free(t);
    zt_str_fini(&string);
    json_decref(input);
    json_decref(own);
    zt_ctx_clear(ctx);
    return good;
}

/* Each model's template and the row that stands for it: each conversation as jinja2 renders it. */
static void test_models(void)
{
    json_error_t error;
    json_t *cases = json_load_file("tests/llm/templates/cases.json", 0, &error), *c, *r;
    size_t i, k;
    ok(json_array_size(cases) > 10, "golden renderings of %zu models", json_array_size(cases));
    json_array_foreach(cases, i, c)
    {
        made made_model = make_model(json_string_value(json_object_get(c, "template")));
        const char *model = json_string_value(json_object_get(c, "model"));
        const char *name = json_string_value(json_object_get(c, "name"));
        const zt_template *template = zt_template_find(name);
        json_array_foreach(json_object_get(c, "renderings"), k, r)
        {
            zt_message msg[MOST];
            zt_str string;
            const char *want = json_string_value(json_object_get(r, "text"));
            int count = messages_of(json_object_get(r, "messages"), msg);
            zt_str_init(&string, made_model.ctx);
            if (!ok(template && !zt_template_render(template, made_model.g, NULL, msg, count, &string) &&
                        strcmp(string.data, want) == 0,
                    "%s as %s: conversation %zu", model, name, k))
                diag("%s, not %s", string.data ? string.data : "nothing", want);
            ok(runs_as(made_model.ctx, json_string_value(json_object_get(c, "template")), json_object_get(r, "messages"), want),
               "%s's program: conversation %zu", model, k);
            zt_str_fini(&string);
        }
        drop(&made_model);
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
static void check_loom(const char *path, const char *name, const json_t *want, const zt_message *m, int count)
{
    static const char begin[] = "<|begin_of_text|>";
    made f = make_model(NULL);
    const zt_template *template = zt_template_find(name);
    const char *prompt = json_string_value(json_object_get(want, "prompt"));
    const char *next = json_string_value(json_object_get(want, "next_turn"));
    zt_str string;
    zt_str_init(&string, f.ctx);
    if (prompt && strncmp(prompt, begin, strlen(begin)) == 0) prompt += strlen(begin);
    ok(template && prompt && !zt_template_render(template, f.g, NULL, m, count, &string) && strcmp(string.data, prompt) == 0,
       "%s: %s", path, name);
    zt_str_clear(&string);
    ok(template && next && !zt_template_next(template, f.g, NULL, m[count - 1].content, false, put_piece, &string) &&
           strcmp(string.data, next) == 0,
       "%s: %s, the next turn", path, name);
    zt_str_fini(&string);
    drop(&f);
}

static const char *either(const json_t *o, const char *a, const char *b)
{
    const char *text = json_string_value(json_object_get(o, a));
    return text ? text : json_string_value(json_object_get(o, b));
}

static void loom_case(const char *path)
{
    json_t *item = json_load_file(path, 0, NULL), *turn, *want;
    zt_message m[MOST];
    const char *key, *system = json_string_value(json_object_get(item, "system"));
    int count = 0;
    size_t i;
    if (system && *system) m[count++] = (zt_message){"system", system};
    json_array_foreach(json_object_get(item, "turns"), i, turn)
    {
        m[count++] = (zt_message){"user", either(turn, "user", "User")};
        m[count++] = (zt_message){"assistant", either(turn, "assistant", "Assistant")};
    }
    m[count++] = (zt_message){"user", json_string_value(json_object_get(item, "user"))};
    json_object_foreach(item, key, want) if (json_is_object(want)) check_loom(path, key, want, m, count);
    json_decref(item);
}

static void test_loom(void)
{
    char folder[480], pattern[512];
    glob_t g;
    if (!golden_holds("loom/templates", folder)) return;
    snprintf(pattern, sizeof pattern, "%s/*.json", folder);
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) loom_case(g.gl_pathv[i]);
    globfree(&g);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *write_file(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/zt-template-%d.json", (int)getpid());
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    return path;
}

static void test_file(const char *what, const char *text)
{
    made made_model = make_model(NULL);
    zt_str string;
    zt_str_init(&string, made_model.ctx);
    zt_template *template = zt_template_open(made_model.ctx, write_file(text));
    bool right = template && strcmp(zt_template_name(template), "mine") == 0 &&
                 !zt_template_render(template, made_model.g, NULL, turns, 4, &string) &&
                 strcmp(string.data, "(S: You are terse.;U:  My name is Ana.\n;A: Hello.U: Who am I?;A: )") == 0;
    if (!ok(right, "a file: %s", what)) diag("%s %s", zt_ctx_error(made_model.ctx), string.data ? string.data : "");
    zt_bytes user = template ? zt_template_user(template) : (zt_bytes){"", 0};
    ok(user.n == 2 && memcmp(user.data, "U:", 2) == 0, "a file: what opens a user's turn");
    zt_str_fini(&string);
    zt_template_free(made_model.ctx, template);
    drop(&made_model);
}

static void test_files(void)
{
    static const char *const bad[][2] = {
        {"[]", "JSON object"},
        {"{", "line 1"},
        {"{\"name\": \"a\"}", "no member \"user\""},
        {"{\"role_prefixes\": {\"user\": \"\"}}", "no member \"assistant\""},
        {"{\"role_prefixes\": [1]}", "not an object"},
        {"{\"role_prefixes\": {\"user\": 1}}", "not a string"},
        {"{\"role_prefixes\": {\"tool\": \"\"}}", "'tool'"},
        {"{\"name\": \"a\", \"name\": \"b\"}", "duplicate"},
        {"{\"global_prefix\": \"\\u0003\"}", "control character"},
    };
    test_file("by its own names", "{\"name\": \"mine\", \"global_prefix\": \"(\", \"global_suffix\": \")\","
                                  " \"role_prefixes\": {\"system\": \"S: \", \"user\": \"U: \", \"assistant\": \"A: \"},"
                                  " \"role_suffixes\": {\"system\": \";\", \"user\": \";\", \"assistant\": \".\"}}");
    test_file("by Go's names", "{\"Name\": \"mine\", \"GlobalPrefix\": \"(\", \"GlobalSuffix\": \")\","
                               " \"RolePrefixes\": {\"system\": \"S: \", \"user\": \"U: \", \"assistant\": \"A: \"},"
                               " \"RoleSuffixes\": {\"system\": \";\", \"user\": \";\", \"assistant\": \".\"}}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_template *template = zt_template_open(ctx, write_file(bad[i][0]));
        if (!ok(!template && zt_ctx_status(ctx) == ZT_EDATA && strstr(zt_ctx_error(ctx), bad[i][1]), "refused: %s", bad[i][0]))
            diag("%s", zt_ctx_error(ctx));
        ok(zt_mem_get(ctx).blocks == 0, "nothing left behind");
        zt_ctx_free(ctx);
    }
    made made_model = make_model(NULL);
    zt_str string;
    zt_str_init(&string, made_model.ctx);
    zt_template *template =
        zt_template_open(made_model.ctx, write_file("{\"role_prefixes\": {\"user\": \"\", \"assistant\": \"\"}}"));
    ok(template && zt_template_render(template, made_model.g, NULL, turns, 2, &string) == ZT_EUSAGE &&
           strstr(zt_ctx_error(made_model.ctx), "system"),
       "a system message where there is no place for one");
    zt_template_free(made_model.ctx, template);
    zt_str_fini(&string);
    drop(&made_model);
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
