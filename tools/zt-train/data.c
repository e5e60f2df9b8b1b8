/* data.c - DATA of a command line, in whatever form: arrays, lines of CSV or of NDJSON. */
#include "tools/zt-train/train_tool.h"

#include <string.h>

/* Lines of text are no container: what they begin with tells. */
static bool is_text(const char *text, size_t n)
{
    if (n >= 2 && !memcmp(text, "PK", 2)) return false;
    if (n >= 4 && !memcmp(text, "GGUF", 4)) return false;
    for (size_t i = 0; i < n && i < 16; i++)
        if (((unsigned char)text[i] < ' ' && !memchr("\t\r\n", text[i], 3)) || text[i] & 0x80)
            return false;
    return true;
}

static zt_status read_text(zt_samples *s, const zt_source *in)
{
    size_t n = (size_t)zt_source_size(in);
    char *text = zt_alloc(s->ctx, n + 1);
    zt_status st = text ? zt_source_read(in, 0, text, n) : ZT_ENOMEM;
    size_t blank = 0;
    while (!st && blank < n && memchr(" \t\r\n", text[blank], 4)) blank++;
    bool json = !st && blank < n && memchr("{[", text[blank], 2);
    const char *name = zt_source_name(in);
    if (!st) st = json ? zt_samples_ndjson(s, name, text, n) : zt_samples_csv(s, name, text, n);
    zt_free(s->ctx, text);
    return st;
}

/* All of stdin: what several networks, or a second way to read it, look at again. */
static char *held;
static size_t held_bytes;

void train_data_done(zt_ctx *ctx)
{
    zt_free(ctx, held);
    held = NULL;
}

static zt_source *open_source(zt_ctx *ctx, const char *path)
{
    if (strcmp(path, "-")) return zt_source_open(ctx, path);
    if (!held) held = zt_read_all(ctx, path, &held_bytes);
    return held ? zt_source_memory(ctx, "stdin", held, held_bytes) : NULL;
}

/* Rows of one file; only: of the input of that name alone. */
static zt_status read_file(zt_samples *s, const char *path, const char *only)
{
    char head[16];
    zt_source *in = open_source(s->ctx, path);
    if (!in) return zt_ctx_status(s->ctx);
    size_t n = zt_source_size(in) < sizeof head ? (size_t)zt_source_size(in) : sizeof head;
    zt_status st = n ? zt_source_read(in, 0, head, n)
                     : zt_fail(s->ctx, ZT_EDATA, "%s: is empty", zt_source_name(in));
    if (!st && !only && is_text(head, n)) {
        st = read_text(s, in);
        zt_source_close(in);
        return st;
    }
    zt_checkpoint *c = st ? NULL : zt_checkpoint_take(s->ctx, in);
    if (st) zt_source_close(in);
    if (!c) return zt_ctx_status(s->ctx);
    st = zt_samples_arrays(s, c, only);
    zt_checkpoint_close(c);
    return st;
}

zt_samples *train_data_open(train_learner *l, const train_options *o, const char *path,
                            const char *target)
{
    zt_samples *s = zt_samples_new(l->cli->ctx, l->forward, NULL, 0);
    if (!s) return NULL;
    zt_status st = read_file(s, path, NULL);
    if (!st && target) st = read_file(s, target, s->fields[s->field_count - 1].name);
    if (!st) st = zt_samples_check(s, path);
    if (!st) zt_samples_scale(s, o->scale);
    if (!st) return s;
    zt_samples_free(s);
    return NULL;
}

/* ---- several ids a sample -------------------------------------------------------------------- */

/* So many numbers a sample has at most: those of a line, or of a row of the largest array. */
static int64_t widest(zt_ctx *ctx, const char *path)
{
    char head[4096];
    size_t n = 0;
    int64_t most = 1;
    zt_source *in = open_source(ctx, path);
    if (!in) return 0;
    bool read = !zt_source_read_some(in, 0, head, sizeof head, sizeof head, &n);
    if (read && is_text(head, n)) {
        for (size_t i = 0; i < n && (head[i] != '\n' || most == 1); i++) most += head[i] == ',';
        zt_source_close(in);
        return most;
    }
    zt_checkpoint *c = read ? zt_checkpoint_take(ctx, in) : NULL;
    if (!read) zt_source_close(in);
    for (int64_t i = 0; c && i < zt_checkpoint_count(c); i++) {
        zt_entry e;
        zt_checkpoint_get(c, i, &e);
        int64_t rows = e.type.rank > 0 ? e.type.dim[0] : 0;
        int64_t each = rows > 0 ? zt_type_count(&e.type) / rows : 0;
        most = each > most ? each : most;
    }
    zt_checkpoint_close(c);
    return most;
}

zt_samples *train_data_ids(train_learner **l, const train_options *o)
{
    enum { MOST = 1 << 12 };
    zt_ctx *ctx = (*l)->cli->ctx;
    zt_nn_shape in;
    char why[1024];
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    bool ids = (*l)->nn && !o->ids && zt_nn_input((*l)->nn, &in) == ZT_OK && in.rank == 1;
    int64_t most = ids ? widest(ctx, o->input) : 0;
    for (int64_t n = most < MOST ? most : MOST; n > 1; n--) {
        train_options some = *o;
        some.ids = n;
        zt_ctx_clear(ctx);
        train_learner *other = train_learner_open((*l)->cli, &some);
        zt_samples *s = other ? train_data_open(other, &some, o->input, o->target) : NULL;
        if (s) {
            train_learner_close(*l);
            *l = other;
            return s;
        }
        train_learner_close(other);
    }
    zt_ctx_clear(ctx);
    zt_fail(ctx, ZT_EDATA, "%s", why);
    return NULL;
}
