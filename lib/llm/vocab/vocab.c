/* vocab.c - what all vocabularies share, whatever file they came from: the table from texts to ids,
 * special tokens in raw text, what goes before and after a text, which tokens end a generation.
 */
#include "lib/llm/vocab/vocab.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Texts that end a generation in one model family or another, whatever their type: as llama.cpp,
 * we then treat them as control tokens. The last two lines end a file in code models. */
static const char *const eog_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~[",
    ("<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"), /* DeepSeek */
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
};

/* Where all of `with` are tokens, `text` does not end a generation after all: it is one of the
 * user's defined tokens, or plain text. llama.cpp's exceptions, for gpt-oss, Solar and Gemma 4. */
static const struct {
    const char *text, *with[3];
    uint16_t type;
} not_eog[] = {
    {"<|end|>", {"<|return|>", "<|call|>"}, ZT_TOK_USER},
    {"<|end|>", {"<|return|>", "<|calls|>"}, ZT_TOK_USER},
    {"<|end|>", {"<|flush|>", "<|call|>"}, ZT_TOK_USER},
    {"<|end|>", {"<|flush|>", "<|calls|>"}, ZT_TOK_USER},
    {"</s>", {"<|tool_response>"}, ZT_TOK_NORMAL},
    {"<|channel|>", {NULL}, ZT_TOK_USER},
    {"<|message|>", {NULL}, ZT_TOK_USER},
    {"<|start|>", {NULL}, ZT_TOK_USER},
    {"<|constrain|>", {NULL}, ZT_TOK_USER},
};

/* ---- lists of ids ---------------------------------------------------------------------------- */

zt_status zt_ids_push(zt_ctx *ctx, zt_ids *ids, int32_t id)
{
    if (ids->count == ids->capacity) {
        size_t cap = ids->capacity ? ids->capacity : 32, bytes;
        if (!zt_mul_size(cap, 2 * sizeof *ids->id, &bytes))
            return zt_fail(ctx, ZT_ENOMEM, "%zu token ids are too many", ids->count);
        int32_t *p = zt_realloc(ctx, ids->id, bytes);
        if (!p)
            return ZT_ENOMEM;
        ids->id = p;
        ids->capacity = 2 * cap;
    }
    ids->id[ids->count++] = id;
    return ZT_OK;
}

void zt_ids_fini(zt_ctx *ctx, zt_ids *ids)
{
    zt_free(ctx, ids->id);
    *ids = (zt_ids){0};
}

/* ---- the text table -------------------------------------------------------------------------- */

/* Longest run of taken slots that an honest file could make, with room to spare: beyond it the
 * texts were chosen to collide, and every look-up would be slow. */
enum { MOST_PROBES = 4096 };

static size_t home(const zt_vocab *v, uint64_t h)
{
    return (size_t)(h ^ h >> 29) & v->mask;
}

static uint32_t tag(uint64_t h)
{
    return (uint32_t)(h >> 32);
}

static bool same(zt_bytes t, zt_bytes a, zt_bytes b)
{
    return t.n == a.n + b.n && memcmp(t.data, a.data, a.n) == 0 &&
           (b.n == 0 || memcmp(t.data + a.n, b.data, b.n) == 0);
}

int32_t zt_vocab_lookup(const zt_vocab *v, uint64_t h, zt_bytes a, zt_bytes b)
{
    for (size_t i = home(v, h);; i = (i + 1) & v->mask) {
        const zt_slot *s = &v->slot[i];
        if (!s->id)
            return -1;
        if (s->tag == tag(h) && same(v->text[s->id - 1], a, b))
            return (int32_t)(s->id - 1);
    }
}

/* Of tokens with one text the last counts. */
static zt_status insert(zt_vocab *v, int32_t id)
{
    zt_bytes t = v->text[id];
    uint64_t h = zt_hash_more(ZT_HASH_SEED, t.data, t.n);
    size_t i = home(v, h);
    for (int probes = 0; v->slot[i].id; i = (i + 1) & v->mask) {
        if (v->slot[i].tag == tag(h) && same(v->text[v->slot[i].id - 1], t, (zt_bytes){"", 0}))
            break;
        if (++probes > MOST_PROBES)
            return zt_fail(v->ctx, ZT_EDATA, "%s: the texts of %d tokens all collide", v->file,
                           MOST_PROBES);
    }
    v->slot[i] = (zt_slot){tag(h), (uint32_t)id + 1};
    return ZT_OK;
}

static zt_status build_table(zt_vocab *v)
{
    size_t slots = 64;
    while (slots < 2 * (size_t)v->n)
        slots *= 2;
    v->slot = zt_calloc(v->ctx, slots, sizeof *v->slot);
    if (!v->slot)
        return ZT_ENOMEM;
    v->mask = slots - 1;
    for (int32_t id = 0; id < v->n; id++) {
        if (v->text[id].n > v->longest)
            v->longest = v->text[id].n;
        zt_status s = v->text[id].n ? insert(v, id) : ZT_OK;
        if (s)
            return s;
    }
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int32_t find_text(const zt_vocab *v, const char *text)
{
    return zt_vocab_find(v, text, strlen(text));
}

/* Bits beside type and ZT_TOK_EOG stay. */
static void set_type(zt_vocab *v, int32_t id, unsigned type)
{
    v->attr[id] = (uint16_t)((v->attr[id] & ~(ZT_TOK_TYPE_MASK | ZT_TOK_EOG)) | type);
}

/* Tokens of these texts end a generation whatever the file says of them. */
static void mark_ends(zt_vocab *v)
{
    if (v->eos >= 0)
        v->attr[v->eos] |= ZT_TOK_EOG;
    for (size_t i = 0; i < COUNT(eog_texts); i++) {
        int32_t id = find_text(v, eog_texts[i]);
        if (id >= 0)
            set_type(v, id, ZT_TOK_CONTROL | ZT_TOK_EOG);
    }
    for (size_t i = 0; i < COUNT(not_eog); i++) {
        int32_t id = find_text(v, not_eog[i].text);
        bool applies = id >= 0 && id != v->eos;
        for (int k = 0; applies && k < 3 && not_eog[i].with[k]; k++)
            applies = find_text(v, not_eog[i].with[k]) >= 0;
        if (applies)
            set_type(v, id, not_eog[i].type);
    }
}

static zt_status index_special(zt_vocab *v)
{
    for (int32_t id = 0; id < v->n; id++) {
        size_t n = v->text[id].n;
        if (!n || !zt_vocab_is_special(v, id))
            continue;
        if (n > ZT_SPECIAL_MAX)
            return zt_fail(v->ctx, ZT_EDATA, "%s: special token %d has %zu bytes, at most %d fit",
                           v->file, id, n, ZT_SPECIAL_MAX);
        v->special[(unsigned char)v->text[id].data[0]][(n - 1) / 64] |= UINT64_C(1) << (n - 1) % 64;
    }
    return ZT_OK;
}

static zt_status check_id(const zt_vocab *v, const char *what, int32_t id)
{
    if (id < -1 || id >= v->n)
        return zt_fail(v->ctx, ZT_EDATA, "%s: the %s token is %d, but there are %d tokens", v->file,
                       what, id, v->n);
    return ZT_OK;
}

static zt_status check_ids(const zt_vocab *v)
{
    zt_status s = check_id(v, "BOS", v->bos);
    if (!s)
        s = check_id(v, "EOS", v->eos);
    if (!s)
        s = check_id(v, "unknown", v->unk);
    for (int i = 0; !s && i < v->before.n; i++)
        s = check_id(v, "first", v->before.id[i]);
    for (int i = 0; !s && i < v->after.n; i++)
        s = check_id(v, "last", v->after.id[i]);
    return s;
}

static zt_status open_vocab(zt_vocab *v, const zt_vocab_spec *spec)
{
    zt_status s = check_ids(v);
    if (!s)
        s = build_table(v);
    if (s)
        return s;
    mark_ends(v);
    s = v->kind->encode_all ? ZT_OK : index_special(v);
    if (!s && spec->n_rules) {
        v->split = zt_split_new(v->ctx, v->file, spec->rule, spec->n_rules);
        s = v->split ? ZT_OK : zt_ctx_status(v->ctx);
    }
    return s ? s : v->kind->open(v, spec);
}

static void take(zt_vocab *v, zt_vocab_spec *spec)
{
    v->file = spec->file;
    v->kind = spec->kind;
    v->n = spec->n;
    v->text = spec->text;
    v->attr = spec->attr;
    v->score = spec->score;
    v->storage = spec->storage;
    v->bos = spec->bos;
    v->eos = spec->eos;
    v->unk = spec->unk;
    v->before = spec->before;
    v->after = spec->after;
    v->byte_level = spec->byte_level;
    v->ignore_merges = spec->ignore_merges;
    v->byte_fallback = spec->byte_fallback;
    v->add_space = spec->add_space;
    v->merge_spaces = spec->merge_spaces;
    v->lowercase = spec->lowercase;
    v->strip_accents = spec->strip_accents;
    for (int b = 0; b < 256; b++)
        v->byte_id[b] = -1;
}

zt_vocab *zt_vocab_from(zt_ctx *ctx, zt_vocab_spec *spec)
{
    zt_vocab *v = zt_calloc(ctx, 1, sizeof *v);
    if (v) {
        v->ctx = ctx;
        take(v, spec);
        if (!open_vocab(v, spec))
            return v;
        zt_vocab_free(v);
        return NULL;
    }
    zt_free(ctx, spec->text);
    zt_free(ctx, spec->attr);
    zt_free(ctx, spec->score);
    zt_free(ctx, spec->storage);
    return NULL;
}

void zt_vocab_free(zt_vocab *v)
{
    if (!v)
        return;
    v->kind->close(v);
    zt_split_free(v->split);
    zt_free(v->ctx, v->text);
    zt_free(v->ctx, v->attr);
    zt_free(v->ctx, v->score);
    zt_free(v->ctx, v->storage);
    zt_free(v->ctx, v->slot);
    zt_free(v->ctx, v);
}

/* ---- questions ------------------------------------------------------------------------------- */

int32_t zt_vocab_size(const zt_vocab *v)
{
    return v->n;
}

int32_t zt_vocab_bos(const zt_vocab *v)
{
    return v->bos;
}

int32_t zt_vocab_eos(const zt_vocab *v)
{
    return v->eos;
}

zt_status zt_vocab_check_rows(const zt_vocab *v, int64_t rows)
{
    char buf[80];
    for (int64_t id = rows; id < v->n; id++)
        if (v->text[id].n && !zt_vocab_is_control(v, (int32_t)id))
            return zt_fail(v->ctx, ZT_EDATA,
                           "%s: token %" PRId64
                           ", '%s', has no row in the embedding: %d tokens, %" PRId64 " rows",
                           v->file, id, zt_escape(buf, sizeof buf, v->text[id].data, v->text[id].n),
                           v->n, rows);
    return ZT_OK;
}

bool zt_vocab_is_pieces(const zt_vocab *v)
{
    return v->kind == &zt_vocab_sentencepiece;
}

bool zt_vocab_is_eog(const zt_vocab *v, int32_t id)
{
    return id >= 0 && id < v->n && v->attr[id] & ZT_TOK_EOG;
}

bool zt_vocab_is_control(const zt_vocab *v, int32_t id)
{
    return id >= 0 && id < v->n && zt_vocab_type(v, id) == ZT_TOK_CONTROL;
}

int32_t zt_vocab_find(const zt_vocab *v, const char *text, size_t n)
{
    uint64_t h = zt_hash_more(ZT_HASH_SEED, text, n);
    return n ? zt_vocab_lookup(v, h, (zt_bytes){text, n}, (zt_bytes){"", 0}) : -1;
}

/* ---- byte tokens ----------------------------------------------------------------------------- */

void zt_vocab_hex_bytes(zt_vocab *v)
{
    for (int b = 0; b < 256; b++) {
        char text[8];
        int n = snprintf(text, sizeof text, "<0x%02X>", b);
        v->byte_id[b] = zt_vocab_find(v, text, (size_t)n);
    }
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int zt_vocab_hex_byte(zt_bytes t)
{
    if (t.n != 6 || memcmp(t.data, "<0x", 3) != 0 || t.data[5] != '>')
        return -1;
    int hi = hex(t.data[3]), lo = hex(t.data[4]);
    return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

/* ---- spaces as U+2581 ------------------------------------------------------------------------ */

static zt_status replace(zt_str *out, const char *text, size_t n, const char *old, const char *with)
{
    size_t n_old = strlen(old), done = 0; /* all before done is written */
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i < n; i++) {
        const char *at = memchr(text + i, old[0], n - i);
        i = at ? (size_t)(at - text) : n;
        if (n - i < n_old || memcmp(text + i, old, n_old) != 0)
            continue;
        s = zt_str_put(out, text + done, i - done);
        if (!s)
            s = zt_str_puts(out, with);
        done = i + n_old;
        i = done - 1;
    }
    return s ? s : zt_str_put(out, text + done, n - done);
}

zt_status zt_vocab_put_spaces(zt_str *out, const char *text, size_t n)
{
    return replace(out, text, n, " ", ZT_SPACE);
}

zt_status zt_vocab_take_spaces(zt_str *out, const char *text, size_t n)
{
    return replace(out, text, n, ZT_SPACE, " ");
}

zt_status zt_vocab_decode_spaced(const zt_vocab *v, int32_t id, bool first, zt_str *out)
{
    zt_bytes t = v->text[id];
    int b = zt_vocab_type(v, id) == ZT_TOK_BYTE ? zt_vocab_hex_byte(t) : -1;
    if (b >= 0)
        return zt_str_putc(out, (char)b);
    bool added = first && v->add_space && t.n >= ZT_SPACE_LEN &&
                 memcmp(t.data, ZT_SPACE, ZT_SPACE_LEN) == 0;
    size_t skip = added ? ZT_SPACE_LEN : 0;
    return zt_vocab_take_spaces(out, t.data + skip, t.n - skip);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

typedef struct marked { /* text in which special tokens are looked for */
    const char *text;
    size_t n;
    const char *origin; /* of each byte: 1, somebody typed it; NULL: not known */
    unsigned flags;
} marked;

/* Control and unknown tokens count only with ZT_TOK_SPECIAL or where nobody typed their ends, those a
 * user defined always. */
static bool counts(const zt_vocab *v, int32_t id, const marked *t, size_t at)
{
    bool own = t->origin && !t->origin[at] && !t->origin[at + v->text[id].n - 1];
    return zt_vocab_is_special(v, id) &&
           (zt_vocab_type(v, id) == ZT_TOK_USER || own || t->flags & ZT_TOK_SPECIAL);
}

/* The longest special token that is at `at`, -1: none. */
static int32_t special_at(const zt_vocab *v, const marked *t, size_t at)
{
    const char *text = t->text + at;
    const size_t n = t->n - at;
    const uint64_t *lengths = v->special[(unsigned char)text[0]];
    uint64_t h = ZT_HASH_SEED;
    size_t done = 0;
    int32_t best = -1;
    for (size_t w = 0; w < ZT_SPECIAL_MAX / 64; w++)
        for (uint64_t bits = lengths[w]; bits; bits &= bits - 1) {
            size_t len = w * 64 + (size_t)__builtin_ctzll(bits) + 1;
            if (len > n)
                return best;
            h = zt_hash_more(h, text + done, len - done);
            done = len;
            int32_t id = zt_vocab_lookup(v, h, (zt_bytes){text, len}, (zt_bytes){"", 0});
            if (id >= 0 && counts(v, id, t, at))
                best = id;
        }
    return best;
}

/* The first special token from `at` on, the longest that begins there; its distance, that of the end
 * when there is none. */
static size_t next_special(const zt_vocab *v, const marked *t, size_t at, int32_t *id)
{
    size_t i = at;
    for (*id = -1; i < t->n; i++) {
        *id = special_at(v, t, i);
        if (*id >= 0)
            break;
    }
    return i - at;
}

static bool is_space(char c) /* as isspace of the C locale */
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static zt_status encode(const zt_vocab *v, const marked *t, zt_merger *m, zt_ids *ids)
{
    const char *text = t->text;
    const size_t n = t->n;
    zt_status s = ZT_OK;
    for (size_t at = 0; !s && at < n;) {
        int32_t id;
        size_t len = next_special(v, t, at, &id), plain = len;
        while (id >= 0 && v->attr[id] & ZT_TOK_LSTRIP && plain && is_space(text[at + plain - 1]))
            plain--;
        if (plain && at && v->kind->encode_next)
            s = v->kind->encode_next(v, text + at, plain, m, ids);
        else if (plain)
            s = v->kind->encode(v, text + at, plain, m, ids);
        at += len;
        if (!s && id >= 0) {
            s = zt_ids_push(v->ctx, ids, id);
            at += v->text[id].n;
            while (v->attr[id] & ZT_TOK_RSTRIP && at < n && is_space(text[at]))
                at++;
        }
    }
    return s;
}

/* Where the special token's text is, at or after `from`; SIZE_MAX: nowhere. *len: its bytes. */
static zt_status find_special(const zt_vocab *v, const marked *t, size_t from, int32_t id, size_t *at,
                              size_t *len)
{
    zt_str word;
    zt_str_init(&word, v->ctx);
    zt_status s = zt_vocab_decode(v, id, true, false, &word);
    const char *hit = NULL;
    if (s == ZT_OK && word.len)
        hit = memmem(t->text + from, t->n - from, word.data, word.len);
    *at = hit ? (size_t)(hit - t->text) : SIZE_MAX;
    *len = word.len;
    zt_str_fini(&word);
    return s;
}

/* The special tokens among `all` that are the template's, with the text between them encoded without;
 * out NULL: only *typed, whether there are others. */
static zt_status encode_between(const zt_vocab *v, const marked *t, const zt_ids *all, zt_ids *out,
                                bool *typed)
{
    size_t plain = 0, from = 0, at, len;
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < all->count; i++) {
        if (!zt_vocab_is_control(v, all->id[i]))
            continue;
        s = find_special(v, t, from, all->id[i], &at, &len);
        if (s != ZT_OK || at == SIZE_MAX)
            continue;
        from = at + len;
        if (t->origin[at] || t->origin[from - 1]) {
            *typed = true;
            continue;
        }
        if (out && at > plain)
            s = zt_vocab_encode(v, t->text + plain, at - plain, 0, out);
        if (out && s == ZT_OK)
            s = zt_ids_push(v->ctx, out, all->id[i]);
        plain = from;
    }
    return out && s == ZT_OK && plain < t->n
               ? zt_vocab_encode(v, t->text + plain, t->n - plain, 0, out)
               : s;
}

/* Of a kind that handles whole texts: all special tokens are found; if somebody typed one, the text is
 * encoded in the pieces between those of the others. */
static zt_status encode_pieces(const zt_vocab *v, const marked *t, zt_ids *ids)
{
    zt_ids all = {0};
    bool typed = false;
    zt_status s = v->kind->encode_all(v, t->text, t->n, ZT_TOK_SPECIAL, &all);
    if (s == ZT_OK)
        s = encode_between(v, t, &all, NULL, &typed);
    if (s == ZT_OK && typed)
        s = encode_between(v, t, &all, ids, &typed);
    for (size_t i = 0; s == ZT_OK && !typed && i < all.count; i++)
        s = zt_ids_push(v->ctx, ids, all.id[i]);
    zt_ids_fini(v->ctx, &all);
    return s;
}

static zt_status check_length(const zt_vocab *v, size_t n)
{
    if (n > INT32_MAX / 4)
        return zt_fail(v->ctx, ZT_EUSAGE, "text of %zu bytes: at most %d can be tokenized", n,
                       INT32_MAX / 4);
    return ZT_OK;
}

zt_status zt_vocab_encode_origin(const zt_vocab *v, const char *text, size_t n, const char *origin,
                                 unsigned flags, zt_ids *ids)
{
    const marked t = {text, n, origin, flags & ZT_TOK_SPECIAL};
    zt_merger m;
    zt_status s = check_length(v, n);
    if (s != ZT_OK || n == 0)
        return s;
    if (v->kind->encode_all)
        return t.flags ? v->kind->encode_all(v, text, n, t.flags, ids) : encode_pieces(v, &t, ids);
    zt_merger_init(&m, v->ctx);
    s = encode(v, &t, &m, ids);
    zt_merger_fini(&m);
    return s;
}

zt_status zt_vocab_encode(const zt_vocab *v, const char *text, size_t n, unsigned flags,
                          zt_ids *ids)
{
    bool rule = flags & ZT_TOK_BOS_RULE;
    const marked t = {text, n, NULL, flags};
    zt_merger m;
    zt_status s = check_length(v, n);
    if (s != ZT_OK)
        return s;
    if (v->kind->encode_all)
        return v->kind->encode_all(v, text, n, flags, ids);
    zt_merger_init(&m, v->ctx);
    if (flags & ZT_TOK_BOS && v->bos >= 0 && !(rule && v->before.n && v->before.id[0] == v->bos))
        s = zt_ids_push(v->ctx, ids, v->bos);
    for (int i = 0; !s && rule && i < v->before.n; i++)
        s = zt_ids_push(v->ctx, ids, v->before.id[i]);
    if (!s)
        s = encode(v, &t, &m, ids);
    for (int i = 0; !s && rule && i < v->after.n; i++)
        s = zt_ids_push(v->ctx, ids, v->after.id[i]);
    zt_merger_fini(&m);
    return s;
}

/* ---- ids to text ----------------------------------------------------------------------------- */

zt_status zt_vocab_decode(const zt_vocab *v, int32_t id, bool special, bool first, zt_str *out)
{
    if (id < 0 || id >= v->n)
        return zt_fail(v->ctx, ZT_EUSAGE, "token id %d: the vocabulary has %d tokens", id, v->n);
    if (v->kind->decode_all && (special || zt_vocab_type(v, id) != ZT_TOK_CONTROL))
        return v->kind->decode(v, id, first, out);
    if (!zt_vocab_is_special(v, id))
        return v->kind->decode(v, id, first, out);
    bool shown = special || zt_vocab_type(v, id) == ZT_TOK_USER;
    return shown ? zt_str_put(out, v->text[id].data, v->text[id].n) : ZT_OK;
}

zt_status zt_vocab_decode_ids(const zt_vocab *v, const int32_t *ids, size_t n, bool special,
                              zt_str *out)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= v->n)
            return zt_fail(v->ctx, ZT_EUSAGE, "token id %d: the vocabulary has %d tokens", ids[i],
                           v->n);
    if (v->kind->decode_all)
        return v->kind->decode_all(v, ids, n, special, out);
    for (size_t i = 0; !s && i < n; i++)
        s = zt_vocab_decode(v, ids[i], special, i == 0, out);
    return s;
}
