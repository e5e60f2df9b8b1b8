/* vocab_precompiled.c - tokenizer.json's Precompiled normalizer: SentencePiece's charsmap.
 *
 * A grapheme cluster below 6 bytes, else each of its characters, is replaced as a whole when some
 * key is its prefix; the shortest such key counts. Source: the crates spm_precompiled and
 * tokenizers (normalizers/precompiled.rs), as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>
#include <utf8proc.h>

enum { CLUSTER = 6 };

/* ---- reading --------------------------------------------------------------------------------- */

static int base64_value(char digit)
{
    return digit >= 'A' && digit <= 'Z'   ? digit - 'A'
           : digit >= 'a' && digit <= 'z' ? digit - 'a' + 26
           : digit >= '0' && digit <= '9' ? digit - '0' + 52
           : digit == '+'                 ? 62
           : digit == '/'                 ? 63
                                          : -1;
}

size_t zt_tj_base64(zt_bytes input, char *out)
{
    size_t size = 0;
    uint32_t bits = 0;
    while (input.n && input.data[input.n - 1] == '=')
        input.n--;
    for (size_t i = 0; i < input.n; i++) {
        int value = base64_value(input.data[i]);
        if (value < 0)
            return SIZE_MAX;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4)
            out[size++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    return size;
}

zt_status zt_precompiled_read(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    zt_bytes text;
    zt_status status = zt_tj_need(reader, object, "precompiled_charsmap");
    if (!status)
        status = zt_tj_text(reader, object, "precompiled_charsmap", &text);
    if (status)
        return status;
    char *bytes = zt_arena_alloc(reader->texts, text.n + 1);
    if (!bytes)
        return ZT_ENOMEM;
    size_t size = zt_tj_base64(text, bytes);
    if (size == SIZE_MAX)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'precompiled_charsmap' is not base64", reader->file, reader->where);
    step->map = zt_charsmap_new(reader->ctx, reader->file, (zt_bytes){bytes, size});
    return step->map ? ZT_OK : zt_ctx_status(reader->ctx);
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* The text is replaced if some key is a prefix: then *done. */
static zt_status replace_prefix(const zt_charsmap *charsmap, const char *text, size_t size, zt_str *out, bool *done)
{
    zt_bytes replacement;
    size_t used = 0;
    zt_status status = zt_charsmap_prefix(charsmap, text, size, true, &replacement, &used);
    *done = used > 0;
    for (size_t i = 0; !status && used && i < replacement.n; i++) {
        uint32_t codepoint;
        int length = zt_utf8_decode(replacement.data + i, replacement.n - i, &codepoint);
        if (!length)
            return zt_fail(out->ctx, ZT_EDATA, "the charsmap has a replacement that is not UTF-8");
        i += (size_t)length - 1;
    }
    return !status && used ? zt_str_put(out, replacement.data, replacement.n) : status;
}

static zt_status each_char(const zt_charsmap *charsmap, const char *text, size_t size, zt_str *out)
{
    zt_status status = ZT_OK;
    for (size_t i = 0, from; !status && i < size;) {
        bool done;
        from = i;
        zt_char_next(text, size, &i);
        status = replace_prefix(charsmap, text + from, i - from, out, &done);
        if (!status && !done)
            status = zt_str_put(out, text + from, i - from);
    }
    return status;
}

/* Where the grapheme cluster that begins at text[offset] ends. */
static size_t cluster_end(zt_text input, size_t offset)
{
    utf8proc_int32_t state = 0, left = (utf8proc_int32_t)zt_char_next(input.data, input.size, &offset);
    while (offset < input.size) {
        size_t next = offset;
        utf8proc_int32_t right = (utf8proc_int32_t)zt_char_next(input.data, input.size, &next);
        if (utf8proc_grapheme_break_stateful(left, right, &state))
            break;
        left = right;
        offset = next;
    }
    return offset;
}

zt_status zt_precompiled(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)
{
    zt_status status = ZT_OK;
    (void)work;
    for (size_t i = 0, end; !status && i < input.size; i = end) {
        bool done = false;
        end = cluster_end(input, i);
        if (end - i < CLUSTER)
            status = replace_prefix(step->map, input.data + i, end - i, out, &done);
        if (!status && !done)
            status = each_char(step->map, input.data + i, end - i, out);
    }
    *zero = 0;
    if (input.zero && out->len)
        zt_char_next(out->data, out->len, zero);
    return status;
}
