/* close_name.c - words that are not known, and the name that was meant: only where one is close. */
#include "lib/base/near.h"
#include "tests/common/tap.h"

#include <string.h>

static const char *const names[] = {"cos", "exp",  "rms_norm",      "layer_norm",  "softmax", "q4_k_m",
                                    "",    "q4_0", "cross_entropy", "temperature", NULL};

static const struct {
    const char *word, *near; /* NULL: none */
} cases[] = {
    {"coz", "cos"},
    {"cso", "cos"},
    {"csx", NULL}, /* two edits in three letters */
    {"x", NULL},   /* nothing of it is there */
    {"e", NULL},
    {"", NULL},
    {"expp", "exp"},
    {"rmsnorm", "rms_norm"},
    {"rms-norm", "rms_norm"},
    {"RMS_NORM", "rms_norm"},
    {"layernorm", "layer_norm"},
    {"sotfmax", "softmax"},
    {"softmaxxx", "softmax"},
    {"softxxxx", NULL},
    {"q4_k_n", "q4_k_m"},
    {"crossentropy", "cross_entropy"},
    {"cross_entropie", "cross_entropy"},
    {"temprature", "temperature"},
    {"tempreature", "temperature"},
    {"nonesuch", NULL},
    {"a word of so many letters that only its beginning counts, and more of it than that is", NULL},
};

static void test_near(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = zt_near_name(cases[i].word, strlen(cases[i].word), zt_near_list, names);
        ok(got && cases[i].near ? !strcmp(got, cases[i].near) : got == cases[i].near, "'%s': %s", cases[i].word,
           cases[i].near ? cases[i].near : "none is near");
    }
    zt_near_hint hint;
    ok(!strcmp(zt_near(hint, "coz", zt_near_list, names), " (did you mean 'cos'?)") &&
           !strcmp(zt_near(hint, "nonesuch", zt_near_list, names), ""),
       "as a part of a message");
}

static void test_messages(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_str text;
    zt_str_init(&text, ctx);
    zt_near_put(&text, 20, zt_near_list, names);
    ok(!strcmp(text.data, "cos, exp, rms_norm, layer_norm, softmax, q4_k_m, q4_0, cross_entropy or "
                          "temperature"),
       "all names: %s", text.data);
    zt_str_clear(&text);
    zt_near_put(&text, 2, zt_near_list, names);
    ok(!strcmp(text.data, "cos, exp, ..."), "the first of many: %s", text.data);
    zt_str_fini(&text);
    static const char *const two[] = {"red", "blue", NULL};
    ok(zt_fail_unknown(ctx, ZT_EDATA, "unknown colour", "bleu\033", 4, zt_near_list, two) == ZT_EDATA &&
           !strcmp(zt_ctx_error(ctx), "unknown colour 'bleu' (did you mean 'blue'?): expected red or blue"),
       "what is wrong, what was meant, what there is");
    zt_ctx_clear(ctx);
    zt_fail_unknown(ctx, ZT_EUSAGE, "unknown colour", "\033[2J", 4, zt_near_list, two);
    ok(!strcmp(zt_ctx_error(ctx), "unknown colour '\\x1b[2J': expected red or blue"), "escaped: %s", zt_ctx_error(ctx));
    zt_ctx_free(ctx);
}

int main(void)
{
    test_near();
    test_messages();
    return tap_done();
}
