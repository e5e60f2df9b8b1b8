/* vocab_json.c - a vocabulary from Hugging Face's tokenizer.json: opening it, and the way of a text
 * through its parts (vocab_json.h draws it).
 *
 * Text may be any bytes. A stretch that is no UTF-8 goes past normalizers and pre-tokenizers: its
 * bytes become tokens of bytes where the vocabulary has such, else each is as U+FFFD. Truncation
 * and padding are not done: how long a text may be is not the vocabulary's matter. A file without
 * the member 'decoder' (the library always writes one) is decoded as its ByteLevel says.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

static const zt_vocab_kind huggingface;

/* ---- working memory -------------------------------------------------------------------------- */

void zt_tj_work_init(zt_tj_work *w, const zt_tj *t, const zt_vocab *v, zt_ids *ids)
{
    *w = (zt_tj_work){.t = t, .v = v, .ids = ids};
    zt_merger_init(&w->merger, t->ctx);
    for (int i = 0; i < t->pre.n; i++)
        zt_str_init(&w->step[i], t->ctx);
    zt_str_init(&w->norm[0], t->ctx);
    zt_str_init(&w->norm[1], t->ctx);
}

void zt_tj_work_fini(zt_tj_work *w)
{
    for (int i = 0; i < w->t->pre.n; i++)
        zt_str_fini(&w->step[i]);
    zt_str_fini(&w->norm[0]);
    zt_str_fini(&w->norm[1]);
    zt_merger_fini(&w->merger);
    zt_pattern_work_fini(w);
    zt_free(w->t->ctx, w->path);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void tj_free(zt_tj *t)
{
    zt_tj_steps_free(t->ctx, &t->norm);
    zt_tj_steps_free(t->ctx, &t->pre);
    zt_tj_steps_free(t->ctx, &t->decode);
    zt_added_free(t->ctx, &t->added);
    zt_ids_fini(t->ctx, &t->before);
    zt_ids_fini(t->ctx, &t->after);
    zt_map_free(t->ids);
    zt_trie_free(t->trie);
    zt_trie_free(t->trie_more);
    zt_free(t->ctx, t->text);
    zt_free(t->ctx, t->score);
    zt_free(t->ctx, t->pairs);
    zt_arena_free(t->texts);
    zt_free(t->ctx, t);
}

static bool has_step(const zt_tj_steps *steps, const char *name)
{
    for (int i = 0; i < steps->n; i++)
        if (strcmp(steps->step[i].row->name, name) == 0)
            return true;
    return false;
}

static zt_status read_decoder(zt_tj_reader *r, const json_t *root, zt_tj *t)
{
    const json_t *j = json_object_get(root, "decoder");
    json_t *own = NULL;
    if (!j && has_step(&t->pre, "ByteLevel"))
        j = own = json_pack("{ss}", "type", "ByteLevel");
    t->has_decoder = j && !json_is_null(j);
    zt_status s = zt_tj_steps_read(r, &zt_decoders, j, &t->decode);
    zt_decode_link(&t->decode);
    json_decref(own);
    return s;
}

static zt_status read_parts(zt_tj_reader *r, const json_t *root, zt_tj *t)
{
    zt_status s = zt_model_read(r, root, t);
    if (!s)
        s = zt_tj_steps_read(r, &zt_norms, json_object_get(root, "normalizer"), &t->norm);
    if (!s)
        s = zt_tj_steps_read(r, &zt_pres, json_object_get(root, "pre_tokenizer"), &t->pre);
    t->byte_level = has_step(&t->norm, "ByteLevel") || has_step(&t->pre, "ByteLevel");
    if (!s)
        s = read_decoder(r, root, t);
    if (!s)
        s = zt_post_read(r, root, t);
    return s ? s : zt_added_read(r, root, t);
}

static zt_tj *tj_new(zt_ctx *ctx, const char *file, const char *text, size_t n)
{
    zt_tj *t = zt_calloc(ctx, 1, sizeof *t);
    zt_tj_reader r = {.ctx = ctx, .file = file, .where = ""};
    void *held = NULL;
    if (!t)
        return NULL;
    t->ctx = ctx;
    t->unk = -1;
    memset(t->byte, 0xff, sizeof t->byte);
    r.texts = t->texts = zt_arena_new(ctx, 0);
    json_t *root = t->texts ? zt_tj_load(&r, text, n, &held) : NULL;
    zt_status s = root ? read_parts(&r, root, t) : ZT_EDATA;
    json_decref(root);
    zt_free(ctx, held);
    if (s == ZT_ENOMEM && !zt_ctx_status(ctx)) /* jansson's own */
        zt_fail(ctx, s, "%s: out of memory", file);
    if (!s)
        return t;
    tj_free(t);
    return NULL;
}

/* ---- the vocabulary of it -------------------------------------------------------------------- */

static int32_t size_of(const zt_tj *t)
{
    int32_t n = t->n;
    for (size_t i = 0; i < t->added.n; i++)
        n = t->added.token[i].id >= n ? t->added.token[i].id + 1 : n;
    return n;
}

static void set_special(zt_vocab_spec *s, const zt_tj *t)
{
    for (size_t i = 0; i < t->added.n; i++) {
        const zt_added *a = &t->added.token[i];
        s->text[a->id] = a->shown;
        s->attr[a->id] = a->special ? ZT_TOK_CONTROL : ZT_TOK_USER;
    }
}

static zt_status set_texts(zt_ctx *ctx, zt_vocab_spec *s, const zt_tj *t)
{
    s->n = size_of(t);
    if (!s->n)
        return zt_fail(ctx, ZT_EDATA, "%s: the vocabulary has no tokens", s->file);
    s->text = zt_alloc_array(ctx, (size_t)s->n, sizeof *s->text);
    s->attr = zt_alloc_array(ctx, (size_t)s->n, sizeof *s->attr);
    if (!s->text || !s->attr)
        return ZT_ENOMEM;
    for (int32_t i = 0; i < s->n; i++) {
        bool there = i < t->n && t->text[i].data;
        s->text[i] = there ? t->text[i] : (zt_bytes){"", 0};
        s->attr[i] = there ? ZT_TOK_NORMAL : ZT_TOK_UNUSED;
    }
    if (t->unk >= 0)
        s->attr[t->unk] = ZT_TOK_UNKNOWN;
    for (int b = 0; t->byte_fallback && b < 256; b++)
        if (t->byte[b] >= 0)
            s->attr[t->byte[b]] = ZT_TOK_BYTE;
    set_special(s, t);
    return ZT_OK;
}

/* An id that a key of the model's file names; absent: `def`. */
static zt_status key_id(zt_ctx *ctx, const zt_vocab_spec *s, const zt_gguf *g, const char *key,
                        int32_t def, int32_t *id)
{
    int64_t x = def;
    if (g && zt_gguf_i64(g, key, &x) && (x < 0 || x >= s->n))
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' is %lld, but there are %d tokens", s->file, key,
                       (long long)x, s->n);
    *id = (int32_t)x;
    return ZT_OK;
}

/* The model's keys may say that BOS goes first, and EOS last, or that it does not. */
static zt_status key_adds(zt_ctx *ctx, const zt_gguf *g, const char *key, zt_ids *ids, int32_t id,
                          bool first)
{
    int64_t add;
    if (!g || id < 0 || !zt_gguf_i64(g, key, &add))
        return ZT_OK;
    size_t at = first || !ids->count ? 0 : ids->count - 1;
    bool there = ids->count && ids->id[at] == id;
    if (there == (add != 0))
        return ZT_OK;
    if (there) {
        ids->count--;
        memmove(ids->id + at, ids->id + at + 1, (ids->count - at) * sizeof *ids->id);
        return ZT_OK;
    }
    zt_status s = zt_ids_push(ctx, ids, id);
    if (!s && first) {
        memmove(ids->id + 1, ids->id, (ids->count - 1) * sizeof *ids->id);
        ids->id[0] = id;
    }
    return s;
}

/* BOS and EOS are what the model's keys say, else what stands alone before a text, and after it. */
static zt_status set_ends(zt_ctx *ctx, zt_vocab_spec *s, zt_tj *t, const zt_gguf *g)
{
    int32_t bos = t->before.count ? t->before.id[0] : -1, eos = t->after.count == 1 ? t->after.id[0] : -1;
    for (size_t i = 0; i < t->before.count + t->after.count; i++) {
        int32_t id = i < t->before.count ? t->before.id[i] : t->after.id[i - t->before.count];
        if (id >= s->n)
            return zt_fail(ctx, ZT_EDATA, "%s: post_processor adds token %d, but there are %d",
                           s->file, id, s->n);
    }
    zt_status st = key_id(ctx, s, g, "tokenizer.ggml.bos_token_id", bos, &s->bos);
    if (!st)
        st = key_id(ctx, s, g, "tokenizer.ggml.eos_token_id", eos, &s->eos);
    if (!st)
        st = key_adds(ctx, g, "tokenizer.ggml.add_bos_token", &t->before, s->bos, true);
    if (!st)
        st = key_adds(ctx, g, "tokenizer.ggml.add_eos_token", &t->after, s->eos, false);
    s->unk = t->unk;
    return st ? st : zt_vocab_ends(ctx, s, g);
}

static zt_vocab *open_text(zt_ctx *ctx, const char *name, const char *text, size_t n,
                           const zt_gguf *g)
{
    zt_tj *t = tj_new(ctx, name, text, n), *left = t; /* not yet the vocabulary's */
    zt_vocab_spec s = {.file = name, .kind = &huggingface, .extra = &left};
    zt_vocab *v = NULL;
    if (!t)
        return NULL;
    zt_status st = set_texts(ctx, &s, t);
    if (!st)
        st = set_ends(ctx, &s, t, g);
    if (!st) {
        v = zt_vocab_from(ctx, &s);
    } else {
        zt_free(ctx, s.text);
        zt_free(ctx, s.attr);
    }
    if (left)
        tj_free(left);
    return v;
}

zt_vocab *zt_vocab_open_json(zt_ctx *ctx, const char *name, const char *text, size_t n)
{
    return open_text(ctx, name, text, n, NULL);
}

zt_vocab *zt_vocab_from_json(const zt_gguf *g, zt_bytes text)
{
    return open_text(zt_gguf_ctx(g), zt_gguf_name(g), text.data, text.n, g);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

/* Normalized text without added tokens in it. */
static zt_status stretch(zt_tj_work *w, zt_text in, size_t from, size_t to)
{
    size_t zero = in.zero > from ? in.zero - from : 0;
    return zt_pre_run(w, w->t->pre.step,
                      (zt_text){in.s + from, to - from, zero < to - from ? zero : to - from});
}

/* Raw text without those added tokens that are found raw. */
static zt_status normalized(zt_tj_work *w, zt_text in, bool special)
{
    zt_text text;
    size_t from, to;
    zt_status s = zt_norm_run(w->t, w, in, &text);
    zt_added_finder f = {.t = w->t, .trie = w->t->added.normal, .text = text.s, .n = text.n,
                         .special = special};
    for (const zt_added *a; !s && (a = zt_added_next(&f, &from, &to)); f.done = to) {
        if (f.done < from)
            s = stretch(w, text, f.done, from);
        if (!s)
            s = zt_tj_put(w->t, w, a->id);
    }
    return !s && f.done < text.n ? stretch(w, text, f.done, text.n) : s;
}

/* Valid UTF-8; `opens`: nothing is before it. */
static zt_status valid(zt_tj_work *w, const char *text, size_t n, bool opens, bool special)
{
    size_t from, to, zero = 0;
    zt_status s = ZT_OK;
    zt_added_finder f = {.t = w->t, .trie = w->t->added.raw, .text = text, .n = n,
                         .special = special};
    if (opens)
        zt_char_next(text, n, &zero);
    for (const zt_added *a; !s && (a = zt_added_next(&f, &from, &to)); f.done = to) {
        if (f.done < from)
            s = normalized(w, (zt_text){text + f.done, from - f.done, f.done ? 0 : zero}, special);
        if (!s)
            s = zt_tj_put(w->t, w, a->id);
    }
    if (!s && f.done < n)
        s = normalized(w, (zt_text){text + f.done, n - f.done, f.done ? 0 : zero}, special);
    return s;
}

/* Bytes that are no UTF-8. */
static zt_status invalid(zt_tj_work *w, const char *text, size_t n)
{
    const zt_tj *t = w->t;
    zt_str *tmp = &w->norm[0];
    zt_status s = ZT_OK;
    zt_str_clear(tmp);
    if (!t->byte_level && t->byte_fallback && zt_tj_has_bytes(t, text, n)) {
        for (size_t i = 0; !s && i < n; i++)
            s = zt_tj_put(t, w, t->byte[(unsigned char)text[i]]);
        return s;
    }
    if (t->byte_level)
        s = zt_char_print(text, n, tmp);
    for (size_t i = 0; !s && !t->byte_level && i < n; i++)
        s = zt_str_puts(tmp, "\xef\xbf\xbd");
    return s ? s : t->model->piece(t, w, tmp->data, tmp->len);
}

/* Bytes at the start of text that are all UTF-8, or all not. */
static size_t same_stretch(const char *text, size_t n, bool want)
{
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        int len = (unsigned char)text[i] < 0x80 ? 1 : zt_utf8_decode(text + i, n - i, &cp);
        if ((len > 0) != want)
            break;
        i += len ? (size_t)len : 1;
    }
    return i;
}

static zt_status put_all(const zt_tj *t, zt_tj_work *w, const zt_ids *ids)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i < ids->count; i++)
        s = zt_tj_put(t, w, ids->id[i]);
    return s;
}

static zt_status encode_all(const zt_vocab *v, const char *text, size_t n, unsigned flags,
                            zt_ids *ids)
{
    const zt_tj *t = v->extra;
    bool rule = flags & ZT_TOK_BOS_RULE, special = flags & ZT_TOK_SPECIAL;
    zt_tj_work w;
    zt_status s = ZT_OK;
    zt_tj_work_init(&w, t, v, ids);
    bool has_bos = rule && t->before.count && t->before.id[0] == v->bos;
    if (flags & ZT_TOK_BOS && v->bos >= 0 && !has_bos)
        s = zt_tj_put(t, &w, v->bos);
    if (!s && rule)
        s = put_all(t, &w, &t->before);
    for (size_t at = 0; !s && at < n;) {
        size_t good = same_stretch(text + at, n - at, true);
        if (good)
            s = valid(&w, text + at, good, at == 0, special);
        at += good;
        size_t bad = same_stretch(text + at, n - at, false);
        if (!s && bad)
            s = invalid(&w, text + at, bad);
        at += bad;
    }
    if (!s && rule)
        s = put_all(t, &w, &t->after);
    zt_tj_work_fini(&w);
    return s;
}

/* ---- ids to text ----------------------------------------------------------------------------- */

static zt_status put_part(const zt_vocab *v, int32_t id, bool special, zt_parts *p)
{
    bool hidden = !special && zt_vocab_is_control(v, id);
    if (hidden || zt_vocab_type(v, id) == ZT_TOK_UNUSED)
        return ZT_OK;
    zt_status s = zt_str_put(&p->bytes, v->text[id].data, v->text[id].n);
    return s ? s : zt_parts_end(p);
}

static zt_status decode(const zt_vocab *v, const int32_t *ids, size_t n, bool special, bool alone,
                        bool first, zt_str *out)
{
    zt_parts p = {0};
    zt_tj_work w;
    zt_status s = ZT_OK;
    zt_tj_work_init(&w, v->extra, v, NULL);
    w.alone = alone;
    w.first = first;
    zt_str_init(&p.bytes, v->ctx);
    for (size_t i = 0; !s && i < n; i++)
        s = put_part(v, ids[i], special, &p);
    if (!s && p.n)
        s = zt_decode_run(v->extra, &w, &p, out);
    zt_str_fini(&p.bytes);
    zt_free(v->ctx, p.end);
    zt_tj_work_fini(&w);
    return s;
}

static zt_status decode_all(const zt_vocab *v, const int32_t *ids, size_t n, bool special,
                            zt_str *out)
{
    return decode(v, ids, n, special, false, true, out);
}

static zt_status decode_one(const zt_vocab *v, int32_t id, bool first, zt_str *out)
{
    return decode(v, &id, 1, true, true, first, out);
}

/* ---- the kind -------------------------------------------------------------------------------- */

static zt_status open_kind(zt_vocab *v, const zt_vocab_spec *spec)
{
    zt_tj **left = spec->extra;
    v->extra = *left;
    *left = NULL;
    return ZT_OK;
}

static void close_kind(zt_vocab *v)
{
    if (v->extra)
        tj_free(v->extra);
}

static const zt_vocab_kind huggingface = {
    .name = "huggingface",
    .open = open_kind,
    .close = close_kind,
    .encode_all = encode_all,
    .decode_all = decode_all,
    .decode = decode_one,
};
