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

static uint32_t u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* RFC 1952: a header with perhaps a name, deflate, a checksum, the size. NULL when it is not so. */
static uint8_t *gunzip(const char *path, size_t *n)
{
    size_t size = 0, at = 10;
    uint8_t *in = npy_file(path, &size), *out = NULL;
    if (in && size > 18 && in[0] == 0x1f && in[1] == 0x8b && in[2] == 8 && !(in[3] & ~8)) {
        if (in[3] & 8)
            while (at < size - 8 && in[at++])
                ;
        *n = u32(in + size - 4);
        out = malloc(*n + 1);
        if (out && !inflate_bytes(in + at, size - 8 - at, out, *n)) {
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
static zt_vocab *open_by_name(made *m, const char *name)
{
    static const char prefix[] = "ggml-vocab-";
    char pre[300];
    zt_bytes text;
    if (zt_gguf_str(m->g, "tokenizer.ggml.pre", &text) ||
        !zt_gguf_str(m->g, "tokenizer.ggml.model", &text) || text.n != 4 ||
        memcmp(text.data, "gpt2", 4) != 0)
        return zt_vocab_open(m->g);
    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    snprintf(pre, sizeof pre, "%s", name);
    for (;;) {
        zt_vocab *v = zt_vocab_open_pre(m->g, pre);
        char *dash = strrchr(pre, '-');
        if (v || !dash || zt_ctx_status(m->ctx) != ZT_ENOTSUP)
            return v;
        *dash = 0;
        zt_ctx_clear(m->ctx);
    }
}

static made open_vocab(const char *path, const char *name)
{
    made m = {.ctx = zt_ctx_new()};
    size_t n = 0;
    m.bytes = gunzip(path, &n);
    m.src = m.bytes ? zt_source_memory(m.ctx, name, m.bytes, n) : NULL;
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
    for (size_t i = 0; same && i < ids->count; i++)
        same = json_integer_value(json_array_get(want, i)) == ids->id[i];
    return same;
}

static bool same_text(const made *m, const zt_ids *ids, const json_t *text)
{
    zt_str s;
    zt_str_init(&s, m->ctx);
    zt_status st = zt_str_puts(&s, "");
    for (size_t i = 0; !st && i < ids->count; i++)
        st = zt_vocab_decode(m->v, ids->id[i], true, i == 0, &s);
    bool same = !st && s.len == json_string_length(text) &&
                memcmp(s.data, json_string_value(text), s.len) == 0;
    zt_str_fini(&s);
    return same;
}

static void show(const char *what, const made *m, const zt_ids *ids, const json_t *text)
{
    char line[400], escaped[200];
    size_t at = 0;
    for (size_t i = 0; i < ids->count && at + 16 < sizeof line; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, " %d", ids->id[i]);
    line[at] = 0;
    diag("%s: '%s':%s", what, zt_escape(escaped, sizeof escaped, json_string_value(text),
                                        json_string_length(text)), line);
    if (zt_ctx_status(m->ctx))
        diag("%s", zt_ctx_error(m->ctx));
}

static void try_cases(const made *m, const char *name, const json_t *top, bool decodes)
{
    const json_t *c;
    size_t i, wrong = 0, lost = 0;
    json_array_foreach(json_object_get(top, "cases"), i, c) {
        const json_t *text = json_object_get(c, "text");
        zt_ids ids = {0};
        zt_status s = zt_vocab_encode(m->v, json_string_value(text), json_string_length(text), 0,
                                      &ids);
        bool right = !s && same_ids(json_object_get(c, "ids"), &ids);
        bool back = !right || !decodes || same_text(m, &ids, text);
        if (!right || !back)
            show(right ? "comes back otherwise" : "other ids", m, &ids, text);
        wrong += !right;
        lost += !back;
        zt_ids_fini(m->ctx, &ids);
    }
    ok(i > 0 && !wrong, "%s: the ids of %zu texts", name, i);
    if (decodes)
        ok(!lost, "%s: and they are the texts again", name);
}

/* ---- a mebibyte of one thing ----------------------------------------------------------------- */

enum { MEBI = 1 << 20 };
#define MOST_SECONDS 30.0 /* far above what is printed, far below what a quadratic step would take */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void try_long(const made *m, const char *name)
{
    static const char *const of[] = {"a", " ", "\n", "ab", "7", "A", "!", " a", "\xe4\xb8\xad"};
    char *text = malloc(MEBI), line[200];
    double slowest = 0;
    size_t at = 0;
    bool good = text != NULL;
    for (size_t i = 0; good && i < sizeof of / sizeof *of; i++) {
        zt_ids ids = {0};
        size_t n = strlen(of[i]);
        for (size_t k = 0; k + n <= MEBI; k += n)
            memcpy(text + k, of[i], n);
        double start = seconds();
        good = !zt_vocab_encode(m->v, text, MEBI / n * n, 0, &ids);
        double took = seconds() - start;
        slowest = took > slowest ? took : slowest;
        at += (size_t)snprintf(line + at, sizeof line - at, " %.2f", took);
        zt_ids_fini(m->ctx, &ids);
    }
    ok(good && slowest < MOST_SECONDS, "%s: 1 MiB of one thing, in seconds:%s", name, line);
    free(text);
}

static void try_file(const char *folder, const char *name)
{
    char path[1400];
    json_error_t e;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    json_t *top = json_load_file(path, JSON_ALLOW_NUL, &e);
    snprintf(path, sizeof path, "%s/%s.gguf.gz", folder, name);
    made m = open_vocab(path, name);
    const char *model = json_string_value(json_object_get(top, "model"));
    if (ok(top && m.v, "%s opens", name)) {
        try_cases(&m, name, top, !model || strcmp(model, "bert") != 0);
        try_long(&m, name);
    } else {
        diag("%s", m.v ? e.text : zt_ctx_error(m.ctx));
    }
    close_vocab(&m);
    json_decref(top);
}

/* NAME of every NAME.json beside which NAME.gguf.gz lies. */
static void try_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char packed[1400];
        const char *dot = strstr(e->d_name, ".json");
        if (!dot || dot[5])
            continue;
        *(char *)dot = 0;
        snprintf(packed, sizeof packed, "%s/%s.gguf.gz", folder, e->d_name);
        if (golden_has(packed))
            try_file(folder, e->d_name);
    }
    if (d)
        closedir(d);
}

int main(void)
{
    char folder[1000];
    if (golden_holds("tokenizers/ggml", folder))
        try_folder(folder);
    return tap_done();
}
