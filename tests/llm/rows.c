/* rows.c - keys of the rows of tests/llm/rows in made models: missing ones, and numbers that make no sense. */
#include "tests/common/made_llm.h"

static file make_row(const char *arch)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    file f = {0};
    ggufw writer = {0};
    o.type = mkmodel_type("f32");
    const char *why = mkmodel(&o, &writer);
    if (why) diag("mkmodel: %s", why);
    f.bytes = ggufw_bytes(&writer, &f.n);
    return f;
}

static void hide_key(file *f, const char *key)
{
    char other[64];
    snprintf(other, sizeof other, "%s", key);
    other[strlen(other) - 1] = 'Z';
    rename_to(f, key, other);
}

enum { NOT_A_NUMBER = 0x7fc00000, INFINITE = 0x7f800000, MINUS_ONE = 0xbf800000 };

static void test_numbers(void)
{
    static const struct {
        const char *arch, *key;
        uint32_t value; /* 0: the key is missing */
        const char *word;
    } row[] = {
        {"minicpm", "minicpm.logit_scale", 0, "'minicpm.logit_scale' is missing"},
        {"minicpm", "minicpm.logit_scale", NOT_A_NUMBER, "logit_scale is nan"},
        {"minicpm", "minicpm.logit_scale", MINUS_ONE, "logit_scale is -1"},
        {"minicpm", "minicpm.embedding_scale", INFINITE, "embedding_scale is inf"},
        {"minicpm", "minicpm.residual_scale", MINUS_ONE, "residual_scale is -1"},
        {"mpt", "mpt.attention.max_alibi_bias", 0, "max_alibi_bias' is missing"},
        {"mpt", "mpt.attention.max_alibi_bias", NOT_A_NUMBER, "max_alibi_bias is nan"},
        {"mpt", "mpt.attention.max_alibi_bias", MINUS_ONE, "max_alibi_bias is -1"},
        {"mpt", "mpt.attention.max_alibi_bias", 0x45000000, "max_alibi_bias is too large (2048, 1024)"},
        {"mpt", "mpt.attention.max_alibi_bias", 0x7f7fffff, "max_alibi_bias is too large"},
        {"mpt", "mpt.attention.clamp_kqv", MINUS_ONE, "clamp_kqv is -1"},
        {"mpt", "mpt.attention.clamp_kqv", INFINITE, "clamp_kqv is inf"},
        {"apertus", "xielu.alpha_n", 0, "'xielu.alpha_n' is missing or not 2 finite numbers"},
        {"apertus", "xielu.alpha_p", 0, "'xielu.alpha_p' is missing"},
        {"apertus", "xielu.beta", 0, "'xielu.beta' is missing"},
        {"apertus", "xielu.eps", 0, "'xielu.eps' is missing"},
        {"apertus", "xielu.alpha_n", NOT_A_NUMBER, "'xielu.alpha_n' is missing or not 2 finite"},
        {"apertus", "xielu.eps", INFINITE, "'xielu.eps' is missing or not 2 finite"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        file f = make_row(row[i].arch);
        if (row[i].value)
            patch(&f, row[i].key, row[i].value);
        else
            hide_key(&f, row[i].key);
        expect(&f, ZT_EDATA, row[i].word, row[i].word);
        free(f.bytes);
    }
}

static void test_without_biases(void)
{
    file f = make_row("mpt");
    patch(&f, "mpt.attention.max_alibi_bias", 0);
    expect(&f, ZT_ENOTSUP, "mpt models without linear biases", "a bias of 0");
    free(f.bytes);
}

static float *logits_of_row(const char *arch, int64_t layers, int64_t *bytes)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    setup options = {.engine = "cpu", .threads = 2, .isa = zt_isa_best(), .exact = true};
    file f = {0};
    ggufw writer = {0};
    o.type = mkmodel_type("f32");
    o.layers = layers;
    mkmodel(&o, &writer);
    f.bytes = ggufw_bytes(&writer, &f.n);
    float *logits = all_logits(&f, &options, vocab_of(&f));
    *bytes = N_TOKENS * vocab_of(&f) * (int64_t)sizeof *logits;
    free(f.bytes);
    return logits;
}

/* Baichuan is Llama's graph; of 40 layers it does not rotate. */
static void test_baichuan(void)
{
    for (int64_t layers = 2; layers <= 40; layers += 38) {
        int64_t bytes;
        float *llama = logits_of_row("llama", layers, &bytes), *baichuan = logits_of_row("baichuan", layers, &bytes);
        bool same = llama && baichuan && memcmp(llama, baichuan, (size_t)bytes) == 0;
        ok(llama && baichuan && same == (layers < 40), "baichuan of %d layers: %s bits as llama", (int)layers,
           same ? "the same" : "other");
        free(llama);
        free(baichuan);
    }
}

int main(void)
{
    test_numbers();
    test_without_biases();
    test_baichuan();
    return tap_done();
}
