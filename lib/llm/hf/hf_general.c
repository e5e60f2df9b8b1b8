/* hf_general.c - owns general.*: what a file says of itself, and how its makers want it sampled.
 *
 * Names come from the directory's; what the converter guesses from words in it (basename, finetune,
 * version, organization) is left out, and of a model card the models and data it was made of.
 * Facts: gguf-py/gguf/metadata.py, utility.py. */
#include "lib/llm/hf/hf.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- name ------------------------------------------------------------------------------------ */

static bool is_number(const char *word, size_t n)
{
    return n > 0 && (isdigit((unsigned char)word[0]) ||
                     (n > 1 && word[0] == 'v' && isdigit((unsigned char)word[1])));
}

/* "tiny-llama-1b" reads "Tiny Llama 1b": words in small letters get a capital. */
static zt_status put_title(zt_str *out, const char *name, size_t n)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < n;) {
        size_t k = 0, small = 0, capital = 0;
        while (i + k < n && name[i + k] != '-' && name[i + k] != ' ')
            k++;
        for (size_t j = i; j < i + k; j++) {
            small += islower((unsigned char)name[j]) != 0;
            capital += isupper((unsigned char)name[j]) != 0;
        }
        bool title = small && !capital && !is_number(name + i, k);
        if (k && out->len)
            s = zt_str_putc(out, ' ');
        for (size_t j = i; s == ZT_OK && j < i + k; j++) {
            bool first = j == i || !isalpha((unsigned char)name[j - 1]);
            s = zt_str_putc(out, title && first ? (char)toupper((unsigned char)name[j]) : name[j]);
        }
        i += k + 1;
    }
    return s;
}

/* config.json's _name_or_path ("maker/model") where it is no path of a disk, else the directory. */
static zt_status put_name(hf *m)
{
    const char *given = json_string_value(json_object_get(m->config, "_name_or_path"));
    const char *slash = given ? strchr(given, '/') : NULL;
    bool use = given && *given && (!slash || !strchr(slash + 1, '/'));
    char *path = use ? NULL : realpath(m->folder.len ? m->folder.data : ".", NULL);
    const char *name = use ? given : path ? path : "model";
    zt_str title;
    if (strrchr(name, '/'))
        name = strrchr(name, '/') + 1;
    zt_str_init(&title, m->ctx);
    zt_status s =
        strchr(name, ' ') ? zt_str_puts(&title, name) : put_title(&title, name, strlen(name));
    if (s == ZT_OK)
        s = zt_gguf_put_str(m->w, "general.name", title.data ? title.data : "", title.len);
    zt_str_fini(&title);
    free(path);
    return s;
}

/* ---- size and type --------------------------------------------------------------------------- */

/* "135M": two digits at least. */
static zt_status put_size(hf *m)
{
    static const struct {
        double above, unit;
        char letter;
    } units[] = {{1e12, 1e12, 'T'}, {1e9, 1e9, 'B'}, {1e6, 1e6, 'M'}, {0, 1e3, 'K'}};
    double n = 0;
    char text[40], whole[40];
    for (int64_t i = 0; i < m->tensors->n; i++)
        n += (double)zt_type_count(&m->tensors->list[i].type);
    int u = 0;
    while (n <= units[u].above && units[u].above > 0)
        u++;
    double scaled = n / units[u].unit;
    snprintf(whole, sizeof whole, "%.0f", rint(scaled));
    int digits = whole[0] == '0' ? 0 : (int)strlen(whole);
    snprintf(text, sizeof text, "%.*f%c", digits < 2 ? 2 - digits : 0, scaled, units[u].letter);
    return n > 0 ? zt_gguf_put_str(m->w, "general.size_label", text, strlen(text)) : ZT_OK;
}

/* llama.h's LLAMA_FTYPE, by the first matrix of those that it is of. */
static zt_status put_file_type(hf *m)
{
    int64_t type = 0;
    for (int64_t i = m->tensors->n - 1; i >= 0; i--) {
        const hf_tensor *t = &m->tensors->list[i];
        if (t->source < 0 || zt_model_stays_f32(t->name, &t->type))
            continue;
        type = t->from == ZT_F16 ? 1 : t->from == ZT_BF16 ? 32 : 0;
    }
    return zt_gguf_put_int(m->w, "general.file_type", ZT_GGUF_U32, type);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static const hf_sampling samplings[] = {
    {"top_k", "top_k", ZT_GGUF_I32},
    {"top_p", "top_p", ZT_GGUF_F32},
    {"min_p", "min_p", ZT_GGUF_F32},
    {"temperature", "temp", ZT_GGUF_F32},
    {"repetition_penalty", "penalty_repeat", ZT_GGUF_F32},
};

const hf_sampling *zt_hf_samplings(size_t *n)
{
    *n = sizeof samplings / sizeof *samplings;
    return samplings;
}

static zt_status put_sampling(hf *m)
{
    const hf_sampling *rows = samplings;
    zt_status s;
    json_t *generation = zt_hf_load(m, "generation_config.json", &s);
    for (size_t i = 0; s == ZT_OK && i < sizeof samplings / sizeof *samplings; i++) {
        const json_t *v = json_object_get(generation, rows[i].name);
        double x = json_number_value(v);
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", rows[i].key);
        if (!json_is_number(v))
            continue;
        s = rows[i].kind == ZT_GGUF_F32
                ? zt_gguf_put_real(m->w, key, ZT_GGUF_F32, x)
                : zt_gguf_put_int(m->w, key, ZT_GGUF_I32, fabs(x) < 1e9 ? (int64_t)x : 0);
    }
    json_decref(generation);
    return s;
}

zt_status zt_hf_put_general(hf *m)
{
    zt_gguf_put_str(m->w, "general.type", "model", 5);
    zt_status s = put_sampling(m);
    if (s == ZT_OK)
        s = put_name(m);
    if (s == ZT_OK)
        s = put_size(m);
    if (s == ZT_OK)
        s = zt_hf_put_card(m);
    if (s == ZT_OK)
        s = put_file_type(m);
    return s == ZT_OK ? zt_gguf_put_int(m->w, "general.quantization_version", ZT_GGUF_U32, 2) : s;
}
