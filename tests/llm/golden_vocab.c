/* golden_vocab.c - vocabularies of well-known models against golden/tokenizers/ggml: whatever cases
 * are there; the ids are exact, and decoded they are the text again. How long a mebibyte of one
 * thing takes is printed beside it.
 */
#include "lib/llm/llm.h"
#include "tests/common/golden.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"

#include <dirent.h>
#include <jansson.h>
#include <time.h>

/* ---- files ----------------------------------------------------------------------------------- */

static uint32_t u32(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

/* RFC 1952: a header with perhaps a name, deflate, a checksum, the size. NULL when it is not so. */
static uint8_t *gunzip(const char *path, size_t *count)
{
    size_t size = 0, at = 10;
    uint8_t *in = npy_file(path, &size), *out = NULL;
    if (in && size > 18 && in[0] == 0x1f && in[1] == 0x8b && in[2] == 8 && !(in[3] & ~8)) {
        if (in[3] & 8)
            while (at < size - 8 && in[at++])
                ;
        *count = u32(in + size - 4);
        out = malloc(*count + 1);
        if (out && !inflate_bytes(in + at, size - 8 - at, out, *count)) {
            free(out);
            out = NULL;
        }
    }
    free(in);
    return out;
}

typedef struct made { /* an open vocabulary */
    zt_ctx *ctx;
    uint8_t *bytes;
    zt_source *src;
    zt_gguf *g;
    zt_vocab *v;
} made;

/* Files that name no pre-tokenizer: the file's own name does ("ggml-vocab-deepseek-llm"), or its
 * first words. */
static zt_vocab *open_by_name(made *made_model, const char *name)
{
    static const char prefix[] = "ggml-vocab-";
    char pre[300];
    zt_bytes text;
    if (zt_gguf_str(made_model->g, "tokenizer.ggml.pre", &text) || !zt_gguf_str(made_model->g, "tokenizer.ggml.model", &text) ||
        text.n != 4 || memcmp(text.data, "gpt2", 4) != 0)
        return zt_vocab_open(made_model->g);
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    snprintf(pre, sizeof pre, "%s", name);
    for (;;) {
        zt_vocab *v = zt_vocab_open_pre(made_model->g, pre);
        char *dash = strrchr(pre, '-');
        if (v || !dash || zt_ctx_status(made_model->ctx) != ZT_ENOTSUP) return v;
        *dash = 0;
        zt_ctx_clear(made_model->ctx);
    }
}

static made open_vocab(const char *path, const char *name)
{
    made m = {.ctx = zt_ctx_new()};
    size_t count = 0;
    m.bytes = gunzip(path, &count);
    m.src = m.bytes ? zt_source_memory(m.ctx, name, m.bytes, count) : NULL;
    m.g = m.src ? zt_gguf_from(m.ctx, m.src) : NULL;
    m.v = m.g ? open_by_name(&m, name) : NULL;
    return m;
}

static void close_vocab(made *m)
{
    zt_vocab_free(m->v);
    zt_gguf_close(m->g);
    zt_source_close(m->src);
    zt_ctx_free(m->ctx);
    free(m->bytes);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static bool same_ids(const json_t *want, const zt_ids *ids)
{
    bool same = json_array_size(want) == ids->count;
    for (size_t i = 0; same && i < ids->count; i++) same = json_integer_value(json_array_get(want, i)) == ids->id[i];
    return same;
}

static bool same_text(const made *made_model, const zt_ids *ids, const json_t *text)
{
    zt_str string;
    zt_str_init(&string, made_model->ctx);
    zt_status st = zt_str_puts(&string, "");
    for (size_t i = 0; !st && i < ids->count; i++) st = zt_vocab_decode(made_model->v, ids->id[i], true, i == 0, &string);
    bool same = !st && string.len == json_string_length(text) && memcmp(string.data, json_string_value(text), string.len) == 0;
    zt_str_fini(&string);
    return same;
}

static void show(const char *what, const made *made_model, const zt_ids *ids, const json_t *text)
{
    char line[400], escaped[200];
    size_t at = 0;
    for (size_t i = 0; i < ids->count && at + 16 < sizeof line; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, " %d", ids->id[i]);
    line[at] = 0;
    diag("%s: '%s':%s", what, zt_escape(escaped, sizeof escaped, json_string_value(text), json_string_length(text)), line);
    if (zt_ctx_status(made_model->ctx)) diag("%s", zt_ctx_error(made_model->ctx));
}

static void try_cases(const made *made_model, const char *name, const json_t *top, bool decodes)
{
    const json_t *item;
    size_t i, wrong = 0, lost = 0;
    json_array_foreach(json_object_get(top, "cases"), i, item)
    {
        const json_t *text = json_object_get(item, "text");
        zt_ids ids = {0};
        zt_status status = zt_vocab_encode(made_model->v, json_string_value(text), json_string_length(text), 0, &ids);
        bool right = !status && same_ids(json_object_get(item, "ids"), &ids);
        bool back = !right || !decodes || same_text(made_model, &ids, text);
        if (!right || !back) show(right ? "comes back otherwise" : "other ids", made_model, &ids, text);
        wrong += !right;
        lost += !back;
        zt_ids_fini(made_model->ctx, &ids);
    }
    ok(i > 0 && !wrong, "%s: the ids of %zu texts", name, i);
    if (decodes) ok(!lost, "%s: and they are the texts again", name);
}

/* ---- a mebibyte of one thing ----------------------------------------------------------------- */

enum { MEBI = 1 << 20 };
#define MOST_SECONDS 30.0 /* far above what is printed, far below what a quadratic step would take */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void try_long(const made *made_model, const char *name)
{
    static const char *const of[] = {"a", " ", "\n", "ab", "7", "A", "!", " a", "\xe4\xb8\xad"};
    char *text = malloc(MEBI), line[200];
    double slowest = 0;
    size_t at = 0;
    bool good = text != NULL;
    for (size_t i = 0; good && i < sizeof of / sizeof *of; i++) {
        zt_ids ids = {0};
        size_t length = strlen(of[i]);
        for (size_t k = 0; k + length <= MEBI; k += length) memcpy(text + k, of[i], length);
        double start = seconds();
        good = !zt_vocab_encode(made_model->v, text, MEBI / length * length, 0, &ids);
        double took = seconds() - start;
        slowest = took > slowest ? took : slowest;
        at += (size_t)snprintf(line + at, sizeof line - at, " %.2f", took);
        zt_ids_fini(made_model->ctx, &ids);
    }
    ok(good && slowest < MOST_SECONDS, "%s: 1 MiB of one thing, in seconds:%s", name, line);
    free(text);
}

static void try_file(const char *folder, const char *name)
{
    char path[1400];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    json_t *top = json_load_file(path, JSON_ALLOW_NUL, &error);
    snprintf(path, sizeof path, "%s/%s.gguf.gz", folder, name);
    made made_model = open_vocab(path, name);
    const char *model = json_string_value(json_object_get(top, "model"));
    if (ok(top && made_model.v, "%s opens", name)) {
        try_cases(&made_model, name, top, !model || strcmp(model, "bert") != 0);
        try_long(&made_model, name);
    } else {
        diag("%s", made_model.v ? error.text : zt_ctx_error(made_model.ctx));
    }
    close_vocab(&made_model);
    json_decref(top);
}

/* NAME of every NAME.json beside which NAME.gguf.gz lies. */
static void try_folder(const char *folder)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        char packed[1400];
        const char *dot = strstr(entry->d_name, ".json");
        if (!dot || dot[5]) continue;
        *(char *)dot = 0;
        snprintf(packed, sizeof packed, "%s/%s.gguf.gz", folder, entry->d_name);
        if (golden_has(packed)) try_file(folder, entry->d_name);
    }
    if (directory) closedir(directory);
}

int main(void)
{
    char folder[1000];
    if (golden_holds("tokenizers/ggml", folder)) try_folder(folder);
    return tap_done();
}
