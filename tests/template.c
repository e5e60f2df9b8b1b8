/* template.c - tests of chat templates: recognition, the default system text, renderings (those of
 * the golden prompts), refusals, failing allocations. */
#include "lib/llm/llm.h"
#include "tests/ggufw.h"
#include "tests/tap.h"

#include <string.h>

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
    ok(n == 2 && !zt_template_list(-1) && !zt_template_find("alpaca"), "two templates, no others");
}

static void test_recognised(void)
{
    static const struct {
        const char *what, *text, *name;
        zt_status status;
    } cases[] = {
        {"SmolLM2's", smollm2, "chatml", ZT_OK},
        {"Gemma's", gemma, "gemma", ZT_OK},
        {"none", NULL, NULL, ZT_OK},
        {"an unknown one", "{% for m in messages %}[INST] {{ m }} [/INST]", NULL, ZT_ENOTSUP},
        {"one that is only like ChatML", "'<|im_start|>' + 'user' + '<|im_sep|>'", NULL, ZT_ENOTSUP},
        {"an empty one", "", NULL, ZT_ENOTSUP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = make(cases[i].text);
        const zt_template *t = zt_template_of(m.g);
        const char *says = zt_ctx_error(m.ctx);
        ok((t && cases[i].name ? strcmp(zt_template_name(t), cases[i].name) == 0
                               : !t && !cases[i].name) &&
               zt_ctx_status(m.ctx) == cases[i].status &&
               (!cases[i].status || (strstr(says, "m.gguf") && strstr(says, "chatml, gemma") &&
                                     strstr(says, "--raw"))),
           "recognised: %s", cases[i].what);
        drop(&m);
    }
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
        zt_status st = zt_template_render(zt_template_find(cases[i].name), m.g,
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
        zt_template_render(zt_template_find("chatml"), m.g, &turns[3], 1, &s);
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
    ok(zt_template_render(zt_template_find("chatml"), m.g, tool, 2, &s) == ZT_EUSAGE &&
           strstr(zt_ctx_error(m.ctx), "message 1: role 'tool'"),
       "a role that is none");
    zt_ctx_clear(m.ctx);
    ok(zt_template_render(zt_template_find("gemma"), m.g, lone, 1, &s) == ZT_EUSAGE,
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
        done = !zt_template_render(zt_template_find("chatml"), m.g, &turns[3], 1, &s);
        wrong += zt_ctx_status(m.ctx) != (done ? ZT_OK : ZT_ENOMEM);
        zt_mem_fail(m.ctx, 0, false);
        zt_ctx_clear(m.ctx);
        zt_str_fini(&s);
        wrong += zt_mem_get(m.ctx).blocks != before.blocks;
    }
    ok(n > 1 && n < 100 && !wrong, "each of %d allocations failing", n - 1);
    drop(&m);
}

int main(void)
{
    test_names();
    test_recognised();
    test_rendered();
    test_default_system();
    test_refused();
    test_faults();
    return tap_done();
}
