/* vocab_sentencepiece.c - the vocabulary kind of a whole tokenizer.model: normalization, one of the
 * four models (unigram, BPE, word, char), bytes for what is not known; and back.
 *
 * The ids are those of SentencePiece 0.2.3. Tokens behind the file's pieces, which a Hugging Face
 * directory adds, are found in raw text by vocab.c. Source: google/sentencepiece (Kudo, 2018),
 * sentencepiece_processor.cc, unigram_model.cc, bpe_model.cc, as facts. */
#include "lib/llm/vocab/vocab_sentencepiece.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_ordinary(const zt_sp_piece *p)
{
    return p->type == ZT_TOK_NORMAL || p->type == ZT_TOK_USER || p->type == ZT_TOK_UNUSED;
}

static zt_status open_norm(zt_sp *k, const zt_sp_rule *rule, zt_sp_norm *norm)
{
    *norm = (zt_sp_norm){.ctx = k->m.ctx, .rule = rule};
    if (!rule->charsmap.n)
        return ZT_OK;
    norm->map = zt_charsmap_new(k->m.ctx, k->m.file, rule->charsmap);
    return norm->map ? ZT_OK : zt_ctx_status(k->m.ctx);
}

static zt_status index_piece(zt_sp *k, int32_t i)
{
    const zt_sp_piece *p = &k->m.piece[i];
    bool zero = memchr(p->text.data, 0, p->text.n) != NULL; /* zt_sp_check let it pass: never met */
    zt_status s = ZT_OK;
    if (p->type == ZT_TOK_BYTE)
        k->byte_id[zt_vocab_hex_byte(p->text)] = i;
    if (p->type == ZT_TOK_NORMAL && p->score < k->worst)
        k->worst = p->score;
    if (!is_ordinary(p) || zero)
        return ZT_OK;
    k->unused = k->unused || p->type == ZT_TOK_UNUSED;
    k->longest = p->text.n > k->longest ? p->text.n : k->longest;
    if (p->type == ZT_TOK_USER) {
        s = zt_trie_put(k->user, p->text, i);
        k->norm.user = k->user;
    }
    if (s != ZT_OK)
        return s;
    return k->trie ? zt_trie_put(k->trie, p->text, i)
                   : zt_map_put(k->ids, p->text.data, p->text.n, i);
}

static zt_status open_model(zt_sp *k, zt_vocab *v, const zt_vocab_spec *spec)
{
    zt_sp_model *read = spec->extra;
    zt_status s = ZT_OK;
    k->m = *read;
    read->piece = NULL; /* ours from now on */
    if (k->m.n > v->n)
        s = zt_fail(v->ctx, ZT_EDATA,
                    "%s: the SentencePiece model has %d pieces, the vocabulary %d tokens", v->file,
                    k->m.n, v->n);
    if (s == ZT_OK)
        s = open_norm(k, &k->m.norm, &k->norm);
    if (s == ZT_OK && k->m.denorm.charsmap.n)
        s = open_norm(k, &k->m.denorm, &k->denorm);
    k->norm.suffix = k->m.suffix && !k->m.prefix_once;
    return s;
}

static zt_status open_sp(zt_vocab *v, const zt_vocab_spec *spec)
{
    zt_sp *k = v->extra = zt_calloc(v->ctx, 1, sizeof *k);
    if (!k)
        return ZT_ENOMEM;
    k->worst = 3.40282347e38f; /* FLT_MAX */
    for (int b = 0; b < 256; b++)
        k->byte_id[b] = -1;
    zt_status s = open_model(k, v, spec);
    if (s != ZT_OK)
        return s;
    k->user = zt_trie_new(v->ctx);
    if (k->m.type == ZT_SP_UNIGRAM)
        k->trie = zt_trie_new(v->ctx);
    else
        k->ids = zt_map_new(v->ctx, (size_t)k->m.n);
    s = k->user && (k->trie || k->ids) ? ZT_OK : ZT_ENOMEM;
    for (int32_t i = 0; s == ZT_OK && i < k->m.n; i++)
        s = index_piece(k, i);
    return s;
}

static void close_sp(zt_vocab *v)
{
    zt_sp *k = v->extra;
    if (!k)
        return;
    zt_charsmap_free(k->norm.map);
    zt_charsmap_free(k->denorm.map);
    zt_trie_free(k->user);
    zt_trie_free(k->trie);
    zt_map_free(k->ids);
    zt_sp_fini(&k->m);
    zt_free(v->ctx, k);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

/* A run of what is not known is one token, where it does not become its bytes. */
zt_status zt_sp_emit(zt_sp_out *o, size_t at, size_t n, int32_t id)
{
    const zt_sp *k = o->k;
    bool unknown = id == k->m.unk, again = unknown && o->unknown;
    zt_status s = ZT_OK;
    o->unknown = unknown;
    if (!unknown)
        return zt_ids_push(k->m.ctx, o->ids, id);
    for (size_t i = at; s == ZT_OK && k->m.byte_fallback && i < at + n; i++)
        s = zt_ids_push(k->m.ctx, o->ids, k->byte_id[(unsigned char)o->text[i]]);
    return s != ZT_OK || k->m.byte_fallback || again ? s : zt_ids_push(k->m.ctx, o->ids, id);
}

int32_t zt_sp_find(const zt_sp *k, const char *text, size_t n)
{
    int64_t id;
    return n <= k->longest && zt_map_get(k->ids, text, n, &id) ? (int32_t)id : -1;
}

/* The whole text is looked up: a piece that is not used is as good as none. */
static zt_status emit_whole(zt_sp_out *o, size_t at, size_t n)
{
    const zt_sp *k = o->k;
    int32_t id = zt_sp_find(k, o->text + at, n);
    bool used = id >= 0 && k->m.piece[id].type != ZT_TOK_UNUSED;
    return zt_sp_emit(o, at, n, used ? id : k->m.unk);
}

/* Words begin with the mark of a blank. */
static zt_status encode_words(zt_sp_out *o, zt_merger *m)
{
    zt_status s = ZT_OK;
    (void)m;
    for (size_t at = 0, end; s == ZT_OK && at < o->n; at = end) {
        const char *next =
            o->n - at > 1 ? memmem(o->text + at + 1, o->n - at - 1, ZT_SPACE, ZT_SPACE_LEN) : NULL;
        end = next ? (size_t)(next - o->text) : o->n;
        s = emit_whole(o, at, end - at);
    }
    return s;
}

static zt_status encode_chars(zt_sp_out *o, zt_merger *m)
{
    zt_status s = ZT_OK;
    (void)m;
    for (size_t at = 0, len; s == ZT_OK && at < o->n; at += len) {
        len = zt_sp_longest(o->k->user, o->text + at, o->n - at);
        len = len ? len : zt_sp_char(o->text + at, o->n - at);
        s = emit_whole(o, at, len);
    }
    return s;
}

/* Does this stretch of a text have the dummy blank? Without it transformers keeps one that the
 * stretch itself begins with, where the model would take it away. */
static bool has_dummy(const zt_sp *k, bool next, const char *text)
{
    if (k->m.prefix_once && k->m.norm.remove_extra && text[0] == ' ')
        return true;
    return k->m.norm.dummy_prefix && !(next && k->m.prefix_once);
}

static zt_status encode_stretch(const zt_vocab *v, bool next, const char *text, size_t n,
                                zt_merger *m, zt_ids *ids)
{
    static zt_status (*const encode[])(zt_sp_out * o, zt_merger * m) = {
        [ZT_SP_UNIGRAM] = zt_sp_unigram,
        [ZT_SP_BPE] = zt_sp_bpe,
        [ZT_SP_WORD] = encode_words,
        [ZT_SP_CHAR] = encode_chars,
    };
    const zt_sp *k = v->extra;
    zt_sp_rule rule = k->m.norm;
    zt_sp_norm norm = k->norm;
    zt_str normal;
    rule.dummy_prefix = has_dummy(k, next, text);
    norm.rule = &rule;
    zt_str_init(&normal, v->ctx);
    zt_status s = zt_sp_normalize(&norm, text, n, &normal);
    zt_sp_out o = {.k = k, .v = v, .text = normal.data, .n = normal.len, .ids = ids};
    if (s == ZT_OK && normal.len)
        s = encode[k->m.type](&o, m);
    zt_str_fini(&normal);
    return s;
}

static zt_status encode_sp(const zt_vocab *v, const char *text, size_t n, zt_merger *m, zt_ids *ids)
{
    return encode_stretch(v, false, text, n, m, ids);
}

static zt_status encode_next(const zt_vocab *v, const char *text, size_t n, zt_merger *m,
                             zt_ids *ids)
{
    return encode_stretch(v, true, text, n, m, ids);
}

/* ---- ids to text ----------------------------------------------------------------------------- */

static bool takes_blank(const zt_sp *k)
{
    return k->m.norm.dummy_prefix || k->m.norm.remove_extra;
}

/* The text of one of the model's pieces but a byte's; `first`: nothing came before it. */
static zt_status put_piece(const zt_sp *k, int32_t id, bool first, bool special, zt_str *out)
{
    const zt_sp_piece *p = &k->m.piece[id];
    zt_bytes t = p->text;
    if (p->type == ZT_TOK_CONTROL)
        return special ? zt_str_put(out, t.data, t.n) : ZT_OK;
    if (p->type == ZT_TOK_UNKNOWN)
        return zt_str_put(out, k->m.unk_surface.data, k->m.unk_surface.n);
    if (first && takes_blank(k) && t.n >= ZT_SPACE_LEN &&
        memcmp(t.data, ZT_SPACE, ZT_SPACE_LEN) == 0)
        t = (zt_bytes){t.data + ZT_SPACE_LEN, t.n - ZT_SPACE_LEN};
    return zt_vocab_take_spaces(out, t.data, t.n);
}

/* One token alone, as a text is streamed. */
static zt_status decode_sp(const zt_vocab *v, int32_t id, bool first, zt_str *out)
{
    const zt_sp *k = v->extra;
    if (id >= k->m.n)
        return zt_str_put(out, v->text[id].data, v->text[id].n);
    if (k->m.piece[id].type == ZT_TOK_BYTE)
        return zt_str_putc(out, (char)zt_vocab_hex_byte(k->m.piece[id].text));
    if (!k->denorm.map)
        return put_piece(k, id, first, true, out);
    zt_str one;
    zt_str_init(&one, v->ctx);
    zt_status s = put_piece(k, id, first, true, &one);
    if (s == ZT_OK)
        s = zt_sp_normalize(&k->denorm, one.data ? one.data : "", one.len, out);
    zt_str_fini(&one);
    return s;
}

/* Bytes that wait are characters, or U+FFFD each. */
static zt_status put_bytes(zt_str *bytes, zt_str *out)
{
    zt_status s = ZT_OK;
    for (size_t i = 0, len; s == ZT_OK && i < bytes->len; i += len) {
        uint32_t cp;
        int known = zt_utf8_decode(bytes->data + i, bytes->len - i, &cp);
        len = known ? (size_t)known : 1;
        s = known ? zt_str_put(out, bytes->data + i, len) : zt_str_puts(out, "\xef\xbf\xbd");
    }
    zt_str_clear(bytes);
    return s;
}

typedef struct text { /* being made of ids */
    const zt_vocab *v;
    const zt_sp *k;
    bool special, first; /* first: a blank of the model's own may still come */
    zt_str bytes, out;
} text;

static zt_status put_id(text *t, int32_t id)
{
    const zt_sp *k = t->k;
    bool added = id >= k->m.n;
    if (!added && k->m.piece[id].type == ZT_TOK_BYTE)
        return zt_str_putc(&t->bytes, (char)zt_vocab_hex_byte(k->m.piece[id].text));
    zt_status s = put_bytes(&t->bytes, &t->out);
    t->first = t->first && !t->out.len;
    if (s != ZT_OK)
        return s;
    if (added) {
        bool shown = t->special || zt_vocab_type(t->v, id) != ZT_TOK_CONTROL;
        return shown ? zt_str_put(&t->out, t->v->text[id].data, t->v->text[id].n) : ZT_OK;
    }
    s = put_piece(k, id, t->first, t->special, &t->out);
    /* a blank is taken once, but where blanks are merged all at the beginning go */
    bool control = k->m.piece[id].type == ZT_TOK_CONTROL;
    zt_bytes p = k->m.piece[id].text;
    bool blank = p.n >= ZT_SPACE_LEN && memcmp(p.data, ZT_SPACE, ZT_SPACE_LEN) == 0;
    if (t->first && !control && blank && takes_blank(k) && !k->m.norm.remove_extra)
        t->first = false;
    return s;
}

static zt_status decode_all(const zt_vocab *v, const int32_t *ids, size_t n, bool special,
                            zt_str *out)
{
    text t = {.v = v, .k = v->extra, .special = special, .first = true};
    zt_status s = ZT_OK;
    zt_str_init(&t.bytes, v->ctx);
    zt_str_init(&t.out, v->ctx);
    for (size_t i = 0; s == ZT_OK && i < n; i++)
        s = put_id(&t, ids[i]);
    if (s == ZT_OK)
        s = put_bytes(&t.bytes, &t.out);
    if (s == ZT_OK && t.out.len && t.k->denorm.map)
        s = zt_sp_normalize(&t.k->denorm, t.out.data, t.out.len, out);
    else if (s == ZT_OK && t.out.len)
        s = zt_str_put(out, t.out.data, t.out.len);
    zt_str_fini(&t.bytes);
    zt_str_fini(&t.out);
    return s;
}

const zt_vocab_kind zt_vocab_sentencepiece = {
    .name = "sentencepiece",
    .open = open_sp,
    .close = close_sp,
    .encode = encode_sp,
    .encode_next = encode_next,
    .decode = decode_sp,
    .decode_all = decode_all,
};
