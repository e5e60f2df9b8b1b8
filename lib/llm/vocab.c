/* vocab.c - opens a vocabulary from a GGUF's keys; what all kinds share: the table from texts to
 * ids, special tokens in raw text, BOS and EOS, which tokens end a generation.
 *
 * Keys and token types: docs/gguf.md of ggml, as facts. Where files leave things open we do what
 * llama.cpp does, so that both make the same ids; the tests compare.
 */
#include "lib/llm/vocab.h"

#include <limits.h>
#include <string.h>

static const zt_vocab_kind *const kinds[] = {&zt_vocab_gpt2, &zt_vocab_llama};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Texts that end a generation in one model family or another, whatever their type: as llama.cpp,
 * we then treat them as control tokens. The second half ends a file in code models. */
static const char *const eog_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>",
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>",
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
};

/* ---- lists of ids -------------------------------------------------------------------------------- */

zt_status zt_ids_push(zt_ctx *ctx, zt_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap : 32, bytes;
        if (!zt_mul_size(cap, 2 * sizeof *ids->id, &bytes))
            return zt_fail(ctx, ZT_ENOMEM, "%zu token ids are too many", ids->n);
        int32_t *p = zt_realloc(ctx, ids->id, bytes);
        if (!p)
            return ZT_ENOMEM;
        ids->id = p;
        ids->cap = 2 * cap;
    }
    ids->id[ids->n++] = id;
    return ZT_OK;
}

void zt_ids_fini(zt_ctx *ctx, zt_ids *ids)
{
    zt_free(ctx, ids->id);
    *ids = (zt_ids){0};
}

/* ---- the text table ------------------------------------------------------------------------------- */

/* Longest run of taken slots that an honest file could make, with room to spare: beyond it the texts
 * were chosen to collide, and every look-up would be slow. */
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

/* ---- opening -------------------------------------------------------------------------------------- */

static int type_of(const zt_vocab *v, int32_t id)
{
    return v->attr[id] & ZT_TOK_TYPE_MASK;
}

static zt_status read_kind(zt_vocab *v, const zt_gguf *g)
{
    zt_bytes name;
    char buf[80];
    if (!zt_gguf_str(g, "tokenizer.ggml.model", &name))
        return zt_fail(v->ctx, ZT_EDATA, "%s: no tokenizer: 'tokenizer.ggml.model' is missing",
                       v->file);
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strlen(kinds[i]->name) == name.n && memcmp(kinds[i]->name, name.data, name.n) == 0)
            v->kind = kinds[i];
    if (!v->kind)
        return zt_fail(v->ctx, ZT_ENOTSUP, "%s: tokenizer '%s' is not known (known: gpt2, llama)",
                       v->file, zt_escape(buf, sizeof buf, name.data, name.n));
    return ZT_OK;
}

static zt_status read_texts(zt_vocab *v, const zt_gguf *g)
{
    const char *key = "tokenizer.ggml.tokens";
    int64_t n;
    zt_gguf_kind elem;
    if (!zt_gguf_array(g, key, &elem, &n) || elem != ZT_GGUF_STR)
        return zt_fail(v->ctx, ZT_EDATA, "%s: '%s' is missing or no list of texts", v->file, key);
    if (n < 1 || n > INT32_MAX / 4)
        return zt_fail(v->ctx, ZT_EDATA, "%s: %lld tokens, between 1 and %d expected", v->file,
                       (long long)n, INT32_MAX / 4);
    v->n = (int32_t)n;
    v->text = zt_alloc_array(v->ctx, (size_t)n, sizeof *v->text);
    if (!v->text)
        return ZT_ENOMEM;
    if (!zt_gguf_array_strs(g, key, v->text, n))
        return zt_fail(v->ctx, ZT_EDATA, "%s: '%s' cannot be read", v->file, key);
    return ZT_OK;
}

static zt_status read_types(zt_vocab *v, const zt_gguf *g)
{
    const char *key = "tokenizer.ggml.token_type";
    int64_t n, *type = NULL;
    zt_gguf_kind elem;
    zt_status s = ZT_OK;
    v->attr = zt_alloc(v->ctx, (size_t)v->n);
    if (!v->attr)
        return ZT_ENOMEM;
    memset(v->attr, ZT_TOK_NORMAL, (size_t)v->n);
    if (!zt_gguf_array(g, key, &elem, &n))
        return ZT_OK;
    if (n != v->n)
        return zt_fail(v->ctx, ZT_EDATA, "%s: %lld token types for %d tokens", v->file,
                       (long long)n, v->n);
    type = zt_alloc_array(v->ctx, (size_t)n, sizeof *type);
    if (!type)
        return ZT_ENOMEM;
    if (!zt_gguf_array_i64(g, key, type, n))
        s = zt_fail(v->ctx, ZT_EDATA, "%s: '%s' is no list of integers", v->file, key);
    for (int64_t i = 0; !s && i < n; i++) {
        if (type[i] < 0 || type[i] > ZT_TOK_BYTE)
            s = zt_fail(v->ctx, ZT_EDATA, "%s: token %lld has type %lld, at most %d is known",
                        v->file, (long long)i, (long long)type[i], ZT_TOK_BYTE);
        else if (type[i])
            v->attr[i] = (uint8_t)type[i];
    }
    zt_free(v->ctx, type);
    return s;
}

/* An id named by a key; where the key is absent `def` if there is such a token, else -1. */
static zt_status read_id(const zt_vocab *v, const zt_gguf *g, const char *key, int32_t def,
                         int32_t *id)
{
    int64_t x;
    *id = def < v->n ? def : -1;
    if (!zt_gguf_i64(g, key, &x))
        return ZT_OK;
    if (x < 0 || x >= v->n)
        return zt_fail(v->ctx, ZT_EDATA, "%s: '%s' is %lld, but there are %d tokens", v->file, key,
                       (long long)x, v->n);
    *id = (int32_t)x;
    return ZT_OK;
}

static bool read_flag(const zt_gguf *g, const char *key, bool def)
{
    int64_t x;
    return zt_gguf_i64(g, key, &x) ? x != 0 : def;
}

static zt_status read_ends(zt_vocab *v, const zt_gguf *g)
{
    static const char *const keys[] = {
        "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
        "tokenizer.ggml.fim_sep_token_id",
    };
    int32_t id;
    if (v->eos >= 0)
        v->attr[v->eos] |= ZT_TOK_EOG;
    for (size_t i = 0; i < COUNT(keys); i++) {
        zt_status s = read_id(v, g, keys[i], -1, &id);
        if (s)
            return s;
        if (id >= 0)
            v->attr[id] |= ZT_TOK_EOG;
    }
    for (size_t i = 0; i < COUNT(eog_texts); i++) {
        id = zt_vocab_find(v, eog_texts[i], strlen(eog_texts[i]));
        if (id >= 0)
            v->attr[id] = ZT_TOK_CONTROL | ZT_TOK_EOG;
    }
    return ZT_OK;
}

static zt_status read_rules(zt_vocab *v, const zt_gguf *g)
{
    const zt_vocab_kind *k = v->kind;
    zt_status s = read_id(v, g, "tokenizer.ggml.bos_token_id", k->bos, &v->bos);
    if (!s)
        s = read_id(v, g, "tokenizer.ggml.eos_token_id", k->eos, &v->eos);
    if (!s)
        s = read_id(v, g, "tokenizer.ggml.unknown_token_id", k->unk, &v->unk);
    v->add_bos = read_flag(g, "tokenizer.ggml.add_bos_token", k->add_bos);
    v->add_eos = read_flag(g, "tokenizer.ggml.add_eos_token", false);
    v->add_space = read_flag(g, "tokenizer.ggml.add_space_prefix", k->add_space);
    return s ? s : read_ends(v, g);
}

static bool is_special(const zt_vocab *v, int32_t id)
{
    int t = type_of(v, id);
    return t == ZT_TOK_USER || t == ZT_TOK_CONTROL || t == ZT_TOK_UNKNOWN;
}

static zt_status index_special(zt_vocab *v)
{
    for (int32_t id = 0; id < v->n; id++) {
        size_t n = v->text[id].n;
        if (!n || !is_special(v, id))
            continue;
        if (n > ZT_SPECIAL_MAX)
            return zt_fail(v->ctx, ZT_EDATA, "%s: special token %d has %zu bytes, at most %d fit",
                           v->file, id, n, ZT_SPECIAL_MAX);
        v->special[(unsigned char)v->text[id].data[0]][(n - 1) / 64] |= UINT64_C(1) << (n - 1) % 64;
    }
    return ZT_OK;
}

static zt_status open_vocab(zt_vocab *v, const zt_gguf *g)
{
    static zt_status (*const step[])(zt_vocab *, const zt_gguf *) = {read_kind, read_texts,
                                                                     read_types};
    for (size_t i = 0; i < COUNT(step); i++) {
        zt_status s = step[i](v, g);
        if (s)
            return s;
    }
    zt_status s = build_table(v);
    if (!s)
        s = read_rules(v, g);
    if (!s)
        s = index_special(v);
    return s ? s : v->kind->open(v, g);
}

zt_vocab *zt_vocab_open(const zt_gguf *g)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    zt_vocab *v = zt_calloc(ctx, 1, sizeof *v);
    if (!v)
        return NULL;
    v->ctx = ctx;
    v->file = zt_gguf_name(g);
    for (int b = 0; b < 256; b++)
        v->byte_id[b] = -1;
    if (open_vocab(v, g)) {
        zt_vocab_free(v);
        return NULL;
    }
    return v;
}

void zt_vocab_free(zt_vocab *v)
{
    if (!v)
        return;
    if (v->kind)
        v->kind->close(v);
    zt_free(v->ctx, v->text);
    zt_free(v->ctx, v->attr);
    zt_free(v->ctx, v->slot);
    zt_free(v->ctx, v);
}

/* ---- questions ------------------------------------------------------------------------------------ */

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

bool zt_vocab_is_eog(const zt_vocab *v, int32_t id)
{
    return id >= 0 && id < v->n && v->attr[id] & ZT_TOK_EOG;
}

bool zt_vocab_is_control(const zt_vocab *v, int32_t id)
{
    return id >= 0 && id < v->n && type_of(v, id) == ZT_TOK_CONTROL;
}

int32_t zt_vocab_find(const zt_vocab *v, const char *text, size_t n)
{
    uint64_t h = zt_hash_more(ZT_HASH_SEED, text, n);
    return n ? zt_vocab_lookup(v, h, (zt_bytes){text, n}, (zt_bytes){"", 0}) : -1;
}

/* ---- text to ids ---------------------------------------------------------------------------------- */

/* Control and unknown tokens count only with ZT_TOK_SPECIAL, those a user defined always. */
static bool counts(const zt_vocab *v, int32_t id, unsigned flags)
{
    return is_special(v, id) && (type_of(v, id) == ZT_TOK_USER || flags & ZT_TOK_SPECIAL);
}

/* The longest special token that text begins with, -1: none. */
static int32_t special_at(const zt_vocab *v, const char *text, size_t n, unsigned flags)
{
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
            if (id >= 0 && counts(v, id, flags))
                best = id;
        }
    return best;
}

/* The first special token of text, the longest that begins there; n when there is none. */
static size_t next_special(const zt_vocab *v, const char *text, size_t n, unsigned flags,
                           int32_t *id)
{
    size_t i = 0;
    for (*id = -1; i < n; i++) {
        *id = special_at(v, text + i, n - i, flags);
        if (*id >= 0)
            break;
    }
    return i;
}

static zt_status encode(const zt_vocab *v, const char *text, size_t n, unsigned flags,
                        zt_merger *m, zt_ids *ids)
{
    zt_status s = ZT_OK;
    for (size_t at = 0; !s && at < n;) {
        int32_t id;
        size_t len = next_special(v, text + at, n - at, flags, &id);
        if (len)
            s = v->kind->encode(v, text + at, len, m, ids);
        at += len;
        if (!s && id >= 0) {
            s = zt_ids_push(v->ctx, ids, id);
            at += v->text[id].n;
        }
    }
    return s;
}

zt_status zt_vocab_encode(const zt_vocab *v, const char *text, size_t n, unsigned flags, zt_ids *ids)
{
    bool rule = flags & ZT_TOK_BOS_RULE;
    zt_merger m = {.ctx = v->ctx};
    zt_status s = ZT_OK;
    if (n > INT32_MAX / 4)
        return zt_fail(v->ctx, ZT_EUSAGE, "text of %zu bytes: at most %d can be tokenized", n,
                       INT32_MAX / 4);
    if (v->bos >= 0 && (flags & ZT_TOK_BOS || (rule && v->add_bos)))
        s = zt_ids_push(v->ctx, ids, v->bos);
    if (!s)
        s = encode(v, text, n, flags, &m, ids);
    if (!s && v->eos >= 0 && rule && v->add_eos)
        s = zt_ids_push(v->ctx, ids, v->eos);
    zt_merger_fini(&m);
    return s;
}

/* ---- ids to text ---------------------------------------------------------------------------------- */

zt_status zt_vocab_decode(const zt_vocab *v, int32_t id, bool special, bool first, zt_str *out)
{
    if (id < 0 || id >= v->n)
        return zt_fail(v->ctx, ZT_EUSAGE, "token id %d: the vocabulary has %d tokens", id, v->n);
    size_t start = out->len;
    zt_status s;
    if (!is_special(v, id))
        s = v->kind->decode(v, id, out);
    else if (special || type_of(v, id) == ZT_TOK_USER)
        s = zt_str_put(out, v->text[id].data, v->text[id].n);
    else
        return ZT_OK;
    if (!s && first && v->add_space && out->len > start && out->data[start] == ' ') {
        memmove(out->data + start, out->data + start + 1, out->len - start);
        out->len--;
    }
    return s;
}
