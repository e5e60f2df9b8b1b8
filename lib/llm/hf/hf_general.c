/* hf_general.c - the keys general.*: what a file says of itself, and how its makers want it sampled.
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

static bool is_number(const char *word, size_t length)
{
    return length > 0 && (isdigit((unsigned char)word[0]) || (length > 1 && word[0] == 'v' && isdigit((unsigned char)word[1])));
}

/* "tiny-llama-1b" reads "Tiny Llama 1b": words in small letters get a capital. */
static zt_status put_title(zt_str *out, const char *name, size_t length)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < length;) {
        size_t word_length = 0, small = 0, capital = 0;
        while (i + word_length < length && name[i + word_length] != '-' && name[i + word_length] != ' ') word_length++;
        for (size_t letter = i; letter < i + word_length; letter++) {
            small += islower((unsigned char)name[letter]) != 0;
            capital += isupper((unsigned char)name[letter]) != 0;
        }
        bool title = small && !capital && !is_number(name + i, word_length);
        if (word_length && out->len) status = zt_str_putc(out, ' ');
        for (size_t letter = i; status == ZT_OK && letter < i + word_length; letter++) {
            bool first = letter == i || !isalpha((unsigned char)name[letter - 1]);
            status = zt_str_putc(out, title && first ? (char)toupper((unsigned char)name[letter]) : name[letter]);
        }
        i += word_length + 1;
    }
    return status;
}

/* config.json's _name_or_path ("maker/model") where it is no path of a disk, else the directory. */
static zt_status put_name(hf_import *import)
{
    const char *given = json_string_value(json_object_get(import->config, "_name_or_path"));
    const char *slash = given ? strchr(given, '/') : NULL;
    bool use = given && *given && (!slash || !strchr(slash + 1, '/'));
    char *path = use ? NULL : realpath(import->folder.len ? import->folder.data : ".", NULL);
    const char *name = use ? given : path ? path : "model";
    zt_str title;
    if (strrchr(name, '/')) name = strrchr(name, '/') + 1;
    zt_str_init(&title, import->ctx);
    zt_status status = strchr(name, ' ') ? zt_str_puts(&title, name) : put_title(&title, name, strlen(name));
    if (status == ZT_OK) status = zt_gguf_put_str(import->writer, "general.name", title.data ? title.data : "", title.len);
    zt_str_fini(&title);
    free(path);
    return status;
}

/* ---- size and type --------------------------------------------------------------------------- */

/* "135M": two digits at least. */
static zt_status put_size(hf_import *import)
{
    static const struct {
        double above, unit;
        char letter;
    } units[] = {{1e12, 1e12, 'T'}, {1e9, 1e9, 'B'}, {1e6, 1e6, 'M'}, {0, 1e3, 'K'}};
    double parameters = 0;
    char text[40], whole[40];
    for (int64_t i = 0; i < import->tensors->count; i++) parameters += (double)zt_type_count(&import->tensors->list[i].type);
    int unit = 0;
    while (parameters <= units[unit].above && units[unit].above > 0) unit++;
    double scaled = parameters / units[unit].unit;
    snprintf(whole, sizeof whole, "%.0f", rint(scaled));
    int digits = whole[0] == '0' ? 0 : (int)strlen(whole);
    snprintf(text, sizeof text, "%.*f%c", digits < 2 ? 2 - digits : 0, scaled, units[unit].letter);
    return parameters > 0 ? zt_gguf_put_str(import->writer, "general.size_label", text, strlen(text)) : ZT_OK;
}

/* llama.h's LLAMA_FTYPE, by the first matrix of those that it is of. */
static zt_status put_file_type(hf_import *import)
{
    int64_t type = 0;
    bool mxfp4 = false;
    for (int64_t i = import->tensors->count - 1; i >= 0; i--) {
        const hf_tensor *tensor = &import->tensors->list[i];
        if (tensor->source < 0 || zt_model_stays_f32(tensor->name, &tensor->type)) continue;
        type = tensor->from == ZT_F16 ? 1 : tensor->from == ZT_BF16 ? 32 : 0;
        mxfp4 = mxfp4 || tensor->type.dtype == ZT_MXFP4;
    }
    return zt_gguf_put_int(import->writer, "general.file_type", ZT_GGUF_U32, mxfp4 ? 38 : type);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static const hf_sampling samplings[] = {
    {"top_k", "top_k", ZT_GGUF_I32},
    {"top_p", "top_p", ZT_GGUF_F32},
    {"min_p", "min_p", ZT_GGUF_F32},
    {"temperature", "temp", ZT_GGUF_F32},
    {"repetition_penalty", "penalty_repeat", ZT_GGUF_F32},
};

const hf_sampling *zt_hf_samplings(size_t *count)
{
    *count = sizeof samplings / sizeof *samplings;
    return samplings;
}

static zt_status put_sampling(hf_import *import)
{
    const hf_sampling *rows = samplings;
    zt_status status;
    json_t *generation = zt_hf_load(import, "generation_config.json", &status);
    for (size_t i = 0; status == ZT_OK && i < sizeof samplings / sizeof *samplings; i++) {
        const json_t *value = json_object_get(generation, rows[i].name);
        double number = json_number_value(value);
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", rows[i].key);
        if (!json_is_number(value)) continue;
        status = rows[i].kind == ZT_GGUF_F32
                     ? zt_gguf_put_real(import->writer, key, ZT_GGUF_F32, number)
                     : zt_gguf_put_int(import->writer, key, ZT_GGUF_I32, fabs(number) < 1e9 ? (int64_t)number : 0);
    }
    json_decref(generation);
    return status;
}

zt_status zt_hf_put_general(hf_import *import)
{
    zt_gguf_put_str(import->writer, "general.type", "model", 5);
    zt_status status = put_sampling(import);
    if (status == ZT_OK) status = put_name(import);
    if (status == ZT_OK) status = put_size(import);
    if (status == ZT_OK) status = zt_hf_put_card(import);
    if (status == ZT_OK) status = put_file_type(import);
    return status == ZT_OK ? zt_gguf_put_int(import->writer, "general.quantization_version", ZT_GGUF_U32, 2) : status;
}
