/* vocab_bpe.c - BPE by a list of merges, and the 'gpt2' tokenizer, which is byte-level BPE.
 *
 * Text is cut into pieces by the pre-tokenizer; a piece's bytes (or characters) are its symbols;
 * two neighbours merge when the file lists them, the earliest line first. In byte-level files a
 * byte is written as one printable character. Source: GPT-2's encoder.py, as facts.
 */
#include "lib/llm/vocab/vocab.h"

#include <string.h>

/* ---- bytes as printable characters ----------------------------------------------------------- */

/* Bytes that print in Latin-1 stand for themselves; the others, in order, for U+0100 and on. */
static uint32_t char_of_byte(int b)
{
    return b <= 32                ? 256 + (uint32_t)b
           : b >= 127 && b <= 160 ? 256 + 33 + (uint32_t)(b - 127)
           : b == 173             ? 256 + 33 + 34
                                  : (uint32_t)b;
}

static int byte_of_char(uint32_t cp) /* -1: stands for none */
{
    if (cp < 256)
        return char_of_byte((int)cp) == cp ? (int)cp : -1;
    cp -= 256;
    return cp < 33 ? (int)cp : cp < 67 ? (int)cp + 127 - 33 : cp == 67 ? 173 : -1;
}

static void printed_bytes(zt_vocab *v)
{
    for (int b = 0; b < 256; b++) {
        char text[4];
        int n = zt_utf8_encode(char_of_byte(b), text);
        v->byte_id[b] = zt_vocab_find(v, text, (size_t)n);
    }
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Both, and both together, must be tokens. A pair listed twice keeps its first line. */
static zt_status put_merge(zt_vocab *v, const zt_merge_spec *m, uint32_t rank)
{
    char l[80], r[80];
    zt_bytes none = {"", 0}, a = m->left, b = m->right;
    uint64_t h = zt_hash_more(ZT_HASH_SEED, a.data, a.n);
    int32_t left = a.n ? zt_vocab_lookup(v, h, a, none) : -1;
    int32_t right = zt_vocab_find(v, b.data, b.n);
    int32_t both = zt_vocab_lookup(v, zt_hash_more(h, b.data, b.n), a, b);
    if (left < 0 || right < 0 || both < 0)
        return zt_fail(v->ctx, ZT_EDATA,
                       "%s: merge %u, '%s %s', is not two tokens that make a third", v->file, rank,
                       zt_escape(l, sizeof l, a.data, a.n), zt_escape(r, sizeof r, b.data, b.n));
    uint32_t first;
    int32_t its;
    if (!zt_pairs_find(v->merges, left, right, &first, &its))
        zt_pairs_put(v->merges, left, right, rank, both);
    return ZT_OK;
}

static zt_status open_bpe(zt_vocab *v, const zt_vocab_spec *spec)
{
    if (v->byte_level)
        printed_bytes(v);
    else
        zt_vocab_hex_bytes(v);
    v->merges = zt_pairs_new(v->ctx, (size_t)spec->n_merges);
    zt_status s = v->merges ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; !s && i < spec->n_merges; i++)
        s = put_merge(v, &spec->merge[i], (uint32_t)i);
    return s;
}

static void close_bpe(zt_vocab *v)
{
    zt_free(v->ctx, v->merges);
}

static bool pair(const void *arg, const char *text, const zt_sym *a, const zt_sym *b,
                 uint32_t *rank, int32_t *id)
{
    const zt_vocab *v = arg;
    (void)text;
    return a->id >= 0 && b->id >= 0 && zt_pairs_find(v->merges, a->id, b->id, rank, id);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

typedef struct job { /* one call of encode */
    const zt_vocab *v;
    zt_merger *m;
    zt_ids *ids;
} job;

/* The token that is the whole piece, -1: none. */
static zt_status whole(const zt_vocab *v, const char *text, size_t n, zt_merger *m, int32_t *id)
{
    zt_status s = ZT_OK;
    *id = -1;
    if (n > v->longest)
        return s;
    if (!v->byte_level) {
        *id = zt_vocab_find(v, text, n);
        return s;
    }
    zt_str_clear(&m->printed);
    for (size_t i = 0; !s && i < n; i++) {
        char c[4];
        int len = zt_utf8_encode(char_of_byte((unsigned char)text[i]), c);
        s = zt_str_put(&m->printed, c, (size_t)len);
    }
    if (!s)
        *id = zt_vocab_find(v, m->printed.data, m->printed.len);
    return s;
}

/* A byte that the vocabulary has no token for is left out, as everywhere: such files are made from
 * texts that never had it. */
static void bytes(const zt_vocab *v, const char *text, size_t at, size_t n, zt_merger *m)
{
    for (size_t i = at; i < at + n; i++)
        m->sym[m->n++] = (zt_sym){.at = (uint32_t)i, .len = 1,
                                  .id = v->byte_id[(unsigned char)text[i]]};
}

/* A character that is no token becomes its bytes' tokens. */
static void characters(const zt_vocab *v, const char *text, size_t n, zt_merger *m)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        int utf8 = zt_utf8_decode(text + i, n - i, &cp);
        len = utf8 ? (size_t)utf8 : 1;
        int32_t id = zt_vocab_find(v, text + i, len);
        if (id < 0)
            bytes(v, text, i, len, m);
        else
            m->sym[m->n++] = (zt_sym){.at = (uint32_t)i, .len = (uint32_t)len, .id = id};
    }
}

/* Line ends that are a token are that token, whatever merges say: Gemma 4's rule. */
static bool all_newlines(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] == '\n')
        i++;
    return i == n;
}

static zt_status piece(void *arg, const char *text, size_t n)
{
    const job *j = arg;
    const zt_vocab *v = j->v;
    zt_merger *m = j->m;
    int32_t id = -1;
    bool at_once = v->ignore_merges || (!v->byte_level && all_newlines(text, n));
    zt_status s = at_once ? whole(v, text, n, m, &id) : ZT_OK;
    if (id >= 0)
        return zt_ids_push(v->ctx, j->ids, id);
    if (!s)
        s = zt_merger_reserve(m, n);
    if (s)
        return s;
    m->n = 0;
    if (v->byte_level)
        bytes(v, text, 0, n, m);
    else
        characters(v, text, n, m);
    zt_merger_run(m, v, text, pair);
    for (int32_t i = 0; !s && i >= 0; i = m->sym[i].next)
        if (m->sym[i].id >= 0)
            s = zt_ids_push(v->ctx, j->ids, m->sym[i].id);
    return s;
}

static zt_status encode_bpe(const zt_vocab *v, const char *text, size_t n, zt_merger *m,
                            zt_ids *ids)
{
    job j = {v, m, ids};
    zt_str spaced;
    if (v->byte_level)
        return zt_split_run(v->split, text, n, piece, &j);
    zt_str_init(&spaced, v->ctx);
    zt_status s = zt_vocab_put_spaces(&spaced, text, n);
    if (!s)
        s = zt_split_run(v->split, spaced.data, spaced.len, piece, &j);
    zt_str_fini(&spaced);
    return s;
}

/* ---- ids to text ----------------------------------------------------------------------------- */

/* Characters that stand for no byte are kept as they are: added tokens are written plainly. */
static zt_status decode_bpe(const zt_vocab *v, int32_t id, bool first, zt_str *out)
{
    zt_bytes t = v->text[id];
    zt_status s = ZT_OK;
    if (!v->byte_level)
        return zt_vocab_decode_spaced(v, id, first, out);
    for (size_t i = 0; !s && i < t.n;) {
        uint32_t cp = 0;
        int len = zt_utf8_decode(t.data + i, t.n - i, &cp);
        int b = len ? byte_of_char(cp) : -1;
        len = len ? len : 1;
        if (b != ' ' || i || !first || !v->add_space) /* the space that was added goes */
            s = b >= 0 ? zt_str_putc(out, (char)b) : zt_str_put(out, t.data + i, (size_t)len);
        i += (size_t)len;
    }
    return s;
}

const zt_vocab_kind zt_vocab_gpt2 = {
    .name = "gpt2",
    .open = open_bpe,
    .close = close_bpe,
    .encode = encode_bpe,
    .decode = decode_bpe,
};
