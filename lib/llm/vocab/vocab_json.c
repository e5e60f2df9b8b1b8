/* vocab_json.c - a vocabulary from Hugging Face's tokenizer.json: opening it, and passing a text through its components
 * (drawn in vocab_json.h).
 *
 * Text may be any bytes. A stretch that is not UTF-8 skips normalizers and pre-tokenizers: it becomes byte tokens where
 * the vocabulary has them, else one U+FFFD for each byte. Truncation and padding are not applied. A file without the
 * member 'decoder' (the library always writes one) is decoded as its ByteLevel component says.
 */
#include "lib/base/require.h"
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

static const zt_vocab_kind huggingface;

/* ---- working memory -------------------------------------------------------------------------- */

void zt_tj_work_init(zt_tj_work *work, const zt_tj *tokenizer, const zt_vocab *vocab, zt_ids *ids)
{
    *work = (zt_tj_work){.tokenizer = tokenizer, .vocab = vocab, .ids = ids};
    zt_merger_init(&work->merger, tokenizer->ctx);
    for (int i = 0; i < tokenizer->pre.count; i++) zt_str_init(&work->step[i], tokenizer->ctx);
    zt_str_init(&work->norm[0], tokenizer->ctx);
    zt_str_init(&work->norm[1], tokenizer->ctx);
}

void zt_tj_work_fini(zt_tj_work *work)
{
    for (int i = 0; i < work->tokenizer->pre.count; i++) zt_str_fini(&work->step[i]);
    zt_str_fini(&work->norm[0]);
    zt_str_fini(&work->norm[1]);
    zt_merger_fini(&work->merger);
    zt_pattern_work_fini(work);
    zt_free(work->tokenizer->ctx, work->path);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void tj_free(zt_tj *tokenizer)
{
    zt_tj_steps_free(tokenizer->ctx, &tokenizer->norm);
    zt_tj_steps_free(tokenizer->ctx, &tokenizer->pre);
    zt_tj_steps_free(tokenizer->ctx, &tokenizer->decode);
    zt_added_free(tokenizer->ctx, &tokenizer->added);
    zt_ids_fini(tokenizer->ctx, &tokenizer->before);
    zt_ids_fini(tokenizer->ctx, &tokenizer->after);
    zt_map_free(tokenizer->ids);
    zt_trie_free(tokenizer->trie);
    zt_trie_free(tokenizer->trie_more);
    zt_free(tokenizer->ctx, tokenizer->text);
    zt_free(tokenizer->ctx, tokenizer->score);
    zt_free(tokenizer->ctx, tokenizer->pairs);
    zt_arena_free(tokenizer->texts);
    zt_free(tokenizer->ctx, tokenizer);
}

static bool has_step(const zt_tj_steps *steps, const char *name)
{
    for (int i = 0; i < steps->count; i++)
        if (strcmp(steps->step[i].row->name, name) == 0) return true;
    return false;
}

static zt_status read_decoder(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer)
{
    const json_t *decoder = json_object_get(root, "decoder");
    json_t *own = NULL;
    if (!decoder && has_step(&tokenizer->pre, "ByteLevel")) decoder = own = json_pack("{ss}", "type", "ByteLevel");
    tokenizer->has_decoder = decoder && !json_is_null(decoder);
    zt_status status = zt_tj_steps_read(reader, &zt_decoders, decoder, &tokenizer->decode);
    zt_decode_link(&tokenizer->decode);
    json_decref(own);
    return status;
}

static zt_status read_parts(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer)
{
    zt_status status = zt_model_read(reader, root, tokenizer);
    if (!status) status = zt_tj_steps_read(reader, &zt_norms, json_object_get(root, "normalizer"), &tokenizer->norm);
    if (!status) status = zt_tj_steps_read(reader, &zt_pres, json_object_get(root, "pre_tokenizer"), &tokenizer->pre);
    tokenizer->byte_level = has_step(&tokenizer->norm, "ByteLevel") || has_step(&tokenizer->pre, "ByteLevel");
    if (!status) status = read_decoder(reader, root, tokenizer);
    if (!status) status = zt_post_read(reader, root, tokenizer);
    return status ? status : zt_added_read(reader, root, tokenizer);
}

static zt_tj *tj_new(zt_ctx *ctx, const char *file, const char *text, size_t size)
{
    zt_tj *tokenizer = zt_calloc(ctx, 1, sizeof *tokenizer);
    zt_tj_reader reader = {.ctx = ctx, .file = file, .where = ""};
    void *held = NULL;
    if (!tokenizer) return NULL;
    tokenizer->ctx = ctx;
    tokenizer->unk = -1;
    memset(tokenizer->byte, 0xff, sizeof tokenizer->byte);
    reader.texts = tokenizer->texts = zt_arena_new(ctx, 0);
    json_t *root = tokenizer->texts ? zt_tj_load(&reader, text, size, &held) : NULL;
    zt_status status = root ? read_parts(&reader, root, tokenizer) : ZT_EDATA;
    json_decref(root);
    zt_free(ctx, held);
    if (status == ZT_ENOMEM && !zt_ctx_status(ctx)) /* jansson's own */
        zt_fail(ctx, status, "%s: out of memory", file);
    if (!status) return tokenizer;
    tj_free(tokenizer);
    return NULL;
}

/* ---- the vocabulary of it -------------------------------------------------------------------- */

static int32_t vocab_size(const zt_tj *tokenizer)
{
    int32_t size = tokenizer->token_count;
    for (size_t i = 0; i < tokenizer->added.count; i++)
        size = tokenizer->added.token[i].id >= size ? tokenizer->added.token[i].id + 1 : size;
    return size;
}

static void set_special(zt_vocab_spec *spec, const zt_tj *tokenizer)
{
    for (size_t i = 0; i < tokenizer->added.count; i++) {
        const zt_added *added = &tokenizer->added.token[i];
        spec->text[added->id] = added->shown;
        spec->attr[added->id] = added->special ? ZT_TOK_CONTROL : ZT_TOK_USER;
    }
}

static zt_status set_texts(zt_ctx *ctx, zt_vocab_spec *spec, const zt_tj *tokenizer)
{
    spec->token_count = vocab_size(tokenizer);
    if (!spec->token_count) return zt_fail(ctx, ZT_EDATA, "%s: the vocabulary has no tokens", spec->file);
    spec->text = zt_alloc_array(ctx, (size_t)spec->token_count, sizeof *spec->text);
    spec->attr = zt_alloc_array(ctx, (size_t)spec->token_count, sizeof *spec->attr);
    if (!spec->text || !spec->attr) return ZT_ENOMEM;
    for (int32_t i = 0; i < spec->token_count; i++) {
        bool there = i < tokenizer->token_count && tokenizer->text[i].data;
        spec->text[i] = there ? tokenizer->text[i] : (zt_bytes){"", 0};
        spec->attr[i] = there ? ZT_TOK_NORMAL : ZT_TOK_UNUSED;
    }
    if (tokenizer->unk >= 0) spec->attr[tokenizer->unk] = ZT_TOK_UNKNOWN;
    for (int byte = 0; tokenizer->byte_fallback && byte < 256; byte++)
        if (tokenizer->byte[byte] >= 0) spec->attr[tokenizer->byte[byte]] = ZT_TOK_BYTE;
    set_special(spec, tokenizer);
    return ZT_OK;
}

/* An id that a key of the model's file names; absent: `otherwise`. */
static zt_status read_key_id(zt_ctx *ctx, const zt_vocab_spec *spec, const zt_gguf *gguf, const char *key, int32_t otherwise,
                             int32_t *id)
{
    int64_t number = otherwise;
    if (gguf && zt_gguf_i64(gguf, key, &number) && (number < 0 || number >= spec->token_count))
        return zt_fail(ctx, ZT_EDATA, "%s: '%s' is %lld, but the vocabulary has %d tokens", spec->file, key, (long long)number,
                       spec->token_count);
    *id = (int32_t)number;
    return ZT_OK;
}

/* The model's keys may say that BOS goes first, and EOS last, or that it does not. */
static zt_status apply_key_add(zt_ctx *ctx, const zt_gguf *gguf, const char *key, zt_ids *ids, int32_t id, bool first)
{
    int64_t add;
    if (!gguf || id < 0 || !zt_gguf_i64(gguf, key, &add)) return ZT_OK;
    size_t place = first || !ids->count ? 0 : ids->count - 1;
    bool there = ids->count && ids->id[place] == id;
    if (there == (add != 0)) return ZT_OK;
    if (there) {
        ids->count--;
        memmove(ids->id + place, ids->id + place + 1, (ids->count - place) * sizeof *ids->id);
        return ZT_OK;
    }
    zt_status status = zt_ids_push(ctx, ids, id);
    if (!status && first) {
        memmove(ids->id + 1, ids->id, (ids->count - 1) * sizeof *ids->id);
        ids->id[0] = id;
    }
    return status;
}

/* BOS and EOS come from the model's keys, else from the single id that the post-processor puts before, or after, a text. */
static zt_status set_ends(zt_ctx *ctx, zt_vocab_spec *spec, zt_tj *tokenizer, const zt_gguf *gguf)
{
    int32_t bos = tokenizer->before.count ? tokenizer->before.id[0] : -1,
            eos = tokenizer->after.count == 1 ? tokenizer->after.id[0] : -1;
    for (size_t i = 0; i < tokenizer->before.count + tokenizer->after.count; i++) {
        int32_t id = i < tokenizer->before.count ? tokenizer->before.id[i] : tokenizer->after.id[i - tokenizer->before.count];
        if (id >= spec->token_count)
            return zt_fail(ctx, ZT_EDATA, "%s: post_processor adds token %d, but the vocabulary has %d tokens", spec->file, id,
                           spec->token_count);
    }
    zt_status status = read_key_id(ctx, spec, gguf, "tokenizer.ggml.bos_token_id", bos, &spec->bos);
    if (!status) status = read_key_id(ctx, spec, gguf, "tokenizer.ggml.eos_token_id", eos, &spec->eos);
    if (!status) status = apply_key_add(ctx, gguf, "tokenizer.ggml.add_bos_token", &tokenizer->before, spec->bos, true);
    if (!status) status = apply_key_add(ctx, gguf, "tokenizer.ggml.add_eos_token", &tokenizer->after, spec->eos, false);
    spec->unk = tokenizer->unk;
    return status ? status : zt_vocab_ends(ctx, spec, gguf);
}

static zt_vocab *open_text(zt_ctx *ctx, const char *name, const char *text, size_t size, const zt_gguf *gguf)
{
    zt_tj *tokenizer = tj_new(ctx, name, text, size), *left = tokenizer; /* not yet the vocabulary's */
    zt_vocab_spec spec = {.file = name, .kind = &huggingface, .extra = &left};
    zt_vocab *vocab = NULL;
    if (!tokenizer) return NULL;
    zt_status status = set_texts(ctx, &spec, tokenizer);
    if (!status) status = set_ends(ctx, &spec, tokenizer, gguf);
    if (!status) {
        vocab = zt_vocab_from(ctx, &spec);
    } else {
        zt_free(ctx, spec.text);
        zt_free(ctx, spec.attr);
    }
    if (left) tj_free(left);
    return vocab;
}

zt_vocab *zt_vocab_open_json(zt_ctx *ctx, const char *name, const char *text, size_t size)
{
    ZT_REQUIRE(ctx, text || !size, NULL);
    return open_text(ctx, name, text, size, NULL);
}

zt_vocab *zt_vocab_from_json(const zt_gguf *gguf, zt_bytes text)
{
    return open_text(zt_gguf_ctx(gguf), zt_gguf_name(gguf), text.data, text.n, gguf);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

/* Normalized text without added tokens in it. */
static zt_status encode_stretch(zt_tj_work *work, zt_text input, size_t from, size_t to)
{
    size_t zero = input.zero > from ? input.zero - from : 0;
    return zt_pre_run(work, work->tokenizer->pre.step,
                      (zt_text){input.data + from, to - from, zero < to - from ? zero : to - from});
}

/* Raw text without those added tokens that are found raw. */
static zt_status encode_normalized(zt_tj_work *work, zt_text input, bool special)
{
    zt_text text;
    size_t from, to;
    zt_status status = zt_norm_run(work->tokenizer, work, input, &text);
    zt_added_finder finder = {.tokenizer = work->tokenizer,
                              .trie = work->tokenizer->added.normal,
                              .text = text.data,
                              .size = text.size,
                              .special = special};
    for (const zt_added *added; !status && (added = zt_added_next(&finder, &from, &to)); finder.done = to) {
        if (finder.done < from) status = encode_stretch(work, text, finder.done, from);
        if (!status) status = zt_tj_put(work->tokenizer, work, added->id);
    }
    return !status && finder.done < text.size ? encode_stretch(work, text, finder.done, text.size) : status;
}

/* Valid UTF-8; `opens`: nothing is before it. */
static zt_status encode_valid(zt_tj_work *work, const char *text, size_t size, bool opens, bool special)
{
    size_t from, to, zero = 0;
    zt_status status = ZT_OK;
    zt_added_finder finder = {
        .tokenizer = work->tokenizer, .trie = work->tokenizer->added.raw, .text = text, .size = size, .special = special};
    if (opens) zt_char_next(text, size, &zero);
    for (const zt_added *added; !status && (added = zt_added_next(&finder, &from, &to)); finder.done = to) {
        if (finder.done < from)
            status = encode_normalized(work, (zt_text){text + finder.done, from - finder.done, finder.done ? 0 : zero}, special);
        if (!status) status = zt_tj_put(work->tokenizer, work, added->id);
    }
    if (!status && finder.done < size)
        status = encode_normalized(work, (zt_text){text + finder.done, size - finder.done, finder.done ? 0 : zero}, special);
    return status;
}

/* Bytes that are no UTF-8. */
static zt_status encode_invalid(zt_tj_work *work, const char *text, size_t size)
{
    const zt_tj *tokenizer = work->tokenizer;
    zt_str *replaced = &work->norm[0];
    zt_status status = ZT_OK;
    zt_str_clear(replaced);
    if (!tokenizer->byte_level && tokenizer->byte_fallback && zt_tj_has_bytes(tokenizer, text, size)) {
        for (size_t i = 0; !status && i < size; i++) status = zt_tj_put(tokenizer, work, tokenizer->byte[(unsigned char)text[i]]);
        return status;
    }
    if (tokenizer->byte_level) status = zt_char_print(text, size, replaced);
    for (size_t i = 0; !status && !tokenizer->byte_level && i < size; i++) status = zt_str_puts(replaced, "\xef\xbf\xbd");
    return status ? status : tokenizer->model->piece(tokenizer, work, replaced->data, replaced->len);
}

/* Bytes at the start of text that are all UTF-8, or all not. */
static size_t same_stretch(const char *text, size_t size, bool want)
{
    size_t i = 0;
    uint32_t codepoint;
    while (i < size) {
        int length = (unsigned char)text[i] < 0x80 ? 1 : zt_utf8_decode(text + i, size - i, &codepoint);
        if ((length > 0) != want) break;
        i += length ? (size_t)length : 1;
    }
    return i;
}

static zt_status put_all(const zt_tj *tokenizer, zt_tj_work *work, const zt_ids *ids)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < ids->count; i++) status = zt_tj_put(tokenizer, work, ids->id[i]);
    return status;
}

static zt_status encode_all(const zt_vocab *vocab, const char *text, size_t size, unsigned flags, zt_ids *ids)
{
    const zt_tj *tokenizer = vocab->extra;
    bool rule = flags & ZT_TOK_BOS_RULE, special = flags & ZT_TOK_SPECIAL;
    zt_tj_work work;
    zt_status status = ZT_OK;
    zt_tj_work_init(&work, tokenizer, vocab, ids);
    bool has_bos = rule && tokenizer->before.count && tokenizer->before.id[0] == vocab->bos;
    if (flags & ZT_TOK_BOS && vocab->bos >= 0 && !has_bos) status = zt_tj_put(tokenizer, &work, vocab->bos);
    if (!status && rule) status = put_all(tokenizer, &work, &tokenizer->before);
    for (size_t offset = 0; !status && offset < size;) {
        size_t good = same_stretch(text + offset, size - offset, true);
        if (good) status = encode_valid(&work, text + offset, good, offset == 0, special);
        offset += good;
        size_t bad = same_stretch(text + offset, size - offset, false);
        if (!status && bad) status = encode_invalid(&work, text + offset, bad);
        offset += bad;
    }
    if (!status && rule) status = put_all(tokenizer, &work, &tokenizer->after);
    zt_tj_work_fini(&work);
    return status;
}

/* ---- ids to text ----------------------------------------------------------------------------- */

static zt_status put_part(const zt_vocab *vocab, int32_t id, bool special, zt_parts *parts)
{
    bool hidden = !special && zt_vocab_is_control(vocab, id);
    if (hidden || zt_vocab_type(vocab, id) == ZT_TOK_UNUSED) return ZT_OK;
    zt_status status = zt_str_put(&parts->bytes, vocab->text[id].data, vocab->text[id].n);
    return status ? status : zt_parts_end(parts);
}

static zt_status decode_list(const zt_vocab *vocab, const int32_t *ids, size_t count, bool special, bool alone, bool first,
                             zt_str *out)
{
    zt_parts parts = {0};
    zt_tj_work work;
    zt_status status = ZT_OK;
    zt_tj_work_init(&work, vocab->extra, vocab, NULL);
    work.alone = alone;
    work.first = first;
    zt_str_init(&parts.bytes, vocab->ctx);
    for (size_t i = 0; !status && i < count; i++) status = put_part(vocab, ids[i], special, &parts);
    if (!status && parts.count) status = zt_decode_run(vocab->extra, &work, &parts, out);
    zt_str_fini(&parts.bytes);
    zt_free(vocab->ctx, parts.end);
    zt_tj_work_fini(&work);
    return status;
}

static zt_status decode_all(const zt_vocab *vocab, const int32_t *ids, size_t count, bool special, zt_str *out)
{
    return decode_list(vocab, ids, count, special, false, true, out);
}

static zt_status decode_one(const zt_vocab *vocab, int32_t id, bool first, zt_str *out)
{
    return decode_list(vocab, &id, 1, true, true, first, out);
}

/* ---- the kind -------------------------------------------------------------------------------- */

static zt_status open_kind(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    zt_tj **left = spec->extra;
    vocab->extra = *left;
    *left = NULL;
    return ZT_OK;
}

static void close_kind(zt_vocab *vocab)
{
    if (vocab->extra) tj_free(vocab->extra);
}

static const zt_vocab_kind huggingface = {
    .name = "huggingface",
    .open = open_kind,
    .close = close_kind,
    .encode_all = encode_all,
    .decode_all = decode_all,
    .decode = decode_one,
};
