/* vocab_json_bpe.c - tokenizer.json's BPE: symbols are characters, pairs of ids merge by rank.
 *
 * A character that is no token becomes the tokens of its bytes (byte_fallback), else the unknown
 * token, several in a row one (fuse_unk), else nothing. An unknown token waits until a known one or
 * the end comes: tokens of bytes overtake it. So the library does. Source: huggingface/tokenizers,
 * models/bpe/, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

/* ---- merges ---------------------------------------------------------------------------------- */

/* ["left", "right"], or "left right" with one blank in all. */
static bool sides(const json_t *j, zt_bytes *a, zt_bytes *b)
{
    if (json_is_string(j)) {
        const char *text = json_string_value(j), *sp = strchr(text, ' ');
        if (!sp || strchr(sp + 1, ' '))
            return false;
        *a = (zt_bytes){text, (size_t)(sp - text)};
        *b = (zt_bytes){sp + 1, json_string_length(j) - a->n - 1};
        return true;
    }
    const json_t *left = json_array_get(j, 0), *right = json_array_get(j, 1);
    if (json_array_size(j) != 2 || !json_is_string(left) || !json_is_string(right))
        return false;
    *a = (zt_bytes){json_string_value(left), json_string_length(left)};
    *b = (zt_bytes){json_string_value(right), json_string_length(right)};
    return true;
}

/* A pair of which a side is no token can never be met, and is passed over (the library refuses the
 * file); what two tokens make has to be one. Of a pair listed twice the last line counts. */
static zt_status put_merge(zt_tj_reader *r, zt_tj *t, size_t rank, zt_bytes a, zt_bytes b,
                           zt_str *both)
{
    char buf[80];
    int32_t left = zt_model_find(t, a.data, a.n), right = zt_model_find(t, b.data, b.n);
    if (left < 0 || right < 0)
        return ZT_OK;
    size_t skip = b.n < t->prefix.n ? b.n : t->prefix.n;
    zt_str_clear(both);
    zt_status s = zt_str_put(both, a.data, a.n);
    if (!s)
        s = zt_str_put(both, b.data + skip, b.n - skip);
    if (s)
        return s;
    int32_t id = zt_model_find(t, both->data, both->len);
    if (id < 0)
        return zt_fail(r->ctx, ZT_EDATA, "%s: merge %zu makes '%s', which is no token", r->file,
                       rank, zt_escape(buf, sizeof buf, both->data, both->len));
    zt_pairs_put(t->pairs, left, right, (uint32_t)rank, id);
    return ZT_OK;
}

static zt_status read_merges(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    const json_t *list = json_object_get(o, "merges");
    size_t n = json_array_size(list), rank = 0;
    zt_str both;
    if (!json_is_array(list) || n > INT32_MAX / 4)
        return zt_fail(r->ctx, ZT_EDATA, "%s: model: 'merges' is no list, or too long", r->file);
    t->pairs = zt_pairs_new(r->ctx, n);
    zt_status s = t->pairs ? ZT_OK : ZT_ENOMEM;
    zt_str_init(&both, r->ctx);
    for (size_t i = 0; !s && i < n; i++) {
        const json_t *j = json_array_get(list, i);
        zt_bytes a, b;
        if (json_is_string(j) && strncmp(json_string_value(j), "#version", 8) == 0)
            continue;
        if (!sides(j, &a, &b))
            s = zt_fail(r->ctx, ZT_EDATA, "%s: merge %zu is not two texts", r->file, i);
        else if (!r->zeros)
            s = put_merge(r, t, rank++, a, b, &both);
        else { /* keys are kept with their zeros in place */
            a = zt_tj_keep(r, a.data, a.n);
            b = zt_tj_keep(r, b.data, b.n);
            s = a.data && b.data ? put_merge(r, t, rank++, a, b, &both) : ZT_ENOMEM;
        }
    }
    zt_str_fini(&both);
    return s;
}

static zt_status read_bpe(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    const json_t *dropout = json_object_get(o, "dropout");
    zt_status s = zt_vocab_object(r, o, t);
    if (!s && json_is_number(dropout) && json_number_value(dropout) != 0)
        s = zt_fail(r->ctx, ZT_ENOTSUP, "%s: model: 'dropout' is not supported", r->file);
    if (!s)
        s = zt_model_unk(r, o, t, NULL);
    if (!s)
        s = zt_tj_text(r, o, "continuing_subword_prefix", &t->prefix);
    if (!s)
        s = zt_tj_text(r, o, "end_of_word_suffix", &t->suffix);
    if (!s)
        s = zt_tj_bool(r, o, "fuse_unk", &t->fuse_unk);
    if (!s)
        s = zt_tj_bool(r, o, "byte_fallback", &t->byte_fallback);
    if (!s)
        s = zt_tj_bool(r, o, "ignore_merges", &t->ignore_merges);
    return s ? s : read_merges(r, o, t);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

/* The symbol that begins at text[at]: the character, with prefix and suffix where they belong. */
static zt_status symbol(const zt_tj *t, const char *text, size_t n, size_t at, size_t len,
                        zt_str *tmp, zt_bytes *out)
{
    bool first = at == 0, last = at + len == n;
    *out = (zt_bytes){text + at, len};
    if ((first || !t->prefix.n) && (!last || !t->suffix.n))
        return ZT_OK;
    zt_str_clear(tmp);
    zt_status s = first ? ZT_OK : zt_str_put(tmp, t->prefix.data, t->prefix.n);
    if (!s)
        s = zt_str_put(tmp, text + at, len);
    if (!s && last)
        s = zt_str_put(tmp, t->suffix.data, t->suffix.n);
    *out = (zt_bytes){tmp->data, tmp->len};
    return s;
}

static void add(zt_merger *m, int32_t id)
{
    size_t n = m->n++;
    m->sym[n] = (zt_sym){.at = (uint32_t)n, .len = 1, .id = id};
}

/* Symbols need no place in the text here: each has length 1, all that the merger asks for. */
static zt_status add_symbol(const zt_tj *t, zt_merger *m, zt_bytes sym, int *waiting)
{
    int32_t id = zt_model_find(t, sym.data, sym.n);
    if (id >= 0) {
        if (*waiting)
            add(m, t->unk);
        *waiting = 0;
        add(m, id);
        return ZT_OK;
    }
    if (t->byte_fallback && zt_tj_has_bytes(t, sym.data, sym.n)) {
        for (size_t i = 0; i < sym.n; i++)
            add(m, t->byte[(unsigned char)sym.data[i]]);
        return ZT_OK;
    }
    if (t->unk_missing)
        return zt_fail(t->ctx, ZT_EDATA, "the text needs the unknown token, which the vocabulary "
                       "names but does not have");
    if (t->unk >= 0) {
        if (*waiting && !t->fuse_unk)
            add(m, t->unk);
        *waiting = 1;
    }
    return ZT_OK;
}

static zt_status symbols(const zt_tj *t, zt_tj_work *w, const char *text, size_t n)
{
    zt_merger *m = &w->merger;
    zt_str tmp;
    zt_bytes sym;
    int waiting = 0;
    size_t around = t->prefix.n + t->suffix.n, most;
    if (around && (!zt_mul_size(n, around + 4, &most) || most > INT32_MAX / 4))
        return zt_fail(t->ctx, ZT_ENOMEM, "a piece of %zu bytes with prefixes of %zu is too long",
                       n, around);
    zt_status s = zt_merger_reserve(m, around ? n * (around + 1) + 1 : n + 1);
    m->n = 0;
    zt_str_init(&tmp, t->ctx);
    for (size_t i = 0, from = 0; !s && i < n; from = i) {
        zt_char_next(text, n, &i);
        s = symbol(t, text, n, from, i - from, &tmp, &sym);
        if (!s)
            s = add_symbol(t, m, sym, &waiting);
    }
    if (!s && waiting)
        add(m, t->unk);
    zt_str_fini(&tmp);
    return s;
}

static bool merges(const void *arg, const char *text, const zt_sym *a, const zt_sym *b,
                   uint32_t *rank, int32_t *id)
{
    const zt_tj *t = arg;
    (void)text;
    return zt_pairs_find(t->pairs, a->id, b->id, rank, id);
}

static zt_status bpe(const zt_tj *t, zt_tj_work *w, const char *text, size_t n)
{
    int32_t id = t->ignore_merges ? zt_model_find(t, text, n) : -1;
    if (id >= 0)
        return zt_tj_put(t, w, id);
    zt_status s = symbols(t, w, text, n);
    if (s || !w->merger.n)
        return s;
    zt_merger_run(&w->merger, t, text, merges);
    for (int32_t i = 0; !s && i >= 0; i = w->merger.sym[i].next)
        s = zt_tj_put(t, w, w->merger.sym[i].id);
    return s;
}

const zt_model_row zt_model_bpe = {"BPE", read_bpe, bpe};
