/* tokens.c - --tokenize, --detokenize and --count: they need only the vocabulary. */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <string.h>

static unsigned encode_flags(const run_options *o)
{
    unsigned bos = o->bos ? ZT_TOK_BOS : o->no_bos ? 0 : ZT_TOK_BOS_RULE;
    return bos | (o->special ? ZT_TOK_SPECIAL : 0);
}

static zt_status write_str(run *r, zt_str *s)
{
    zt_status st = zt_ctx_status(r->ctx);
    if (st == ZT_OK)
        st = run_write(r, s->data ? s->data : "", s->len);
    zt_str_fini(s);
    return st;
}

zt_status run_tokenize(run *r)
{
    zt_str line;
    zt_status s = zt_vocab_encode(r->vocab, r->input, r->input_bytes, encode_flags(r->o), &r->ids);
    if (s != ZT_OK)
        return s;
    zt_str_init(&line, r->ctx);
    for (size_t i = 0; i < r->ids.count; i++)
        zt_str_printf(&line, "%s%" PRId32, i ? " " : "", r->ids.id[i]);
    zt_str_putc(&line, '\n');
    return write_str(r, &line);
}

zt_status run_count(run *r)
{
    zt_str line;
    zt_status s = zt_vocab_encode(r->vocab, r->input, r->input_bytes, encode_flags(r->o), &r->ids);
    if (s != ZT_OK)
        return s;
    zt_str_init(&line, r->ctx);
    zt_str_printf(&line, "%zu\n", r->ids.count);
    return write_str(r, &line);
}

/* ---- detokenize ------------------------------------------------------------------------------ */

static bool is_gap(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ',';
}

/* Ids between blanks or commas, all of them in the vocabulary. */
static zt_status parse_ids(run *r)
{
    int64_t id;
    char shown[64];
    int line = 1;
    zt_status s = ZT_OK;
    if (strlen(r->input) != r->input_bytes)
        return zt_fail(r->ctx, ZT_EDATA, "a zero byte among token ids");
    for (char *c = r->input; s == ZT_OK;) {
        while (is_gap(*c))
            line += *c++ == '\n';
        char *end = c;
        while (*end && !is_gap(*end))
            end++;
        if (end == c)
            break;
        bool last = *end == 0;
        int lines = *end == '\n'; /* that end here */
        *end = 0;
        if (!zt_parse_i64(c, &id) || id < 0 || id >= zt_vocab_size(r->vocab))
            return zt_fail(r->ctx, ZT_EDATA, "line %d: '%s' is not a token id from 0 to %" PRId32,
                           line, zt_escape(shown, sizeof shown, c, strlen(c)),
                           zt_vocab_size(r->vocab) - 1);
        s = zt_ids_push(r->ctx, &r->ids, (int32_t)id);
        c = end + !last;
        line += lines;
    }
    return s;
}

/* The BOS that --tokenize puts first under the same options is none of the text. */
static bool opens_with_bos(run *r)
{
    zt_ids empty = {0};
    unsigned flags = encode_flags(r->o);
    bool has = r->ids.count > 0 && zt_vocab_encode(r->vocab, "", 0, flags, &empty) == ZT_OK &&
               empty.count > 0 && empty.id[0] == r->ids.id[0] &&
               empty.id[0] == zt_vocab_bos(r->vocab);
    zt_ids_fini(r->ctx, &empty);
    return has;
}

/* Special tokens come back as their text, so that what --tokenize --special took apart is whole; a
 * SentencePiece model's control symbols only with --special, as SentencePiece has none for them. */
zt_status run_detokenize(run *r)
{
    zt_str text;
    bool pieces = zt_vocab_is_pieces(r->vocab);
    zt_status s = parse_ids(r);
    if (s == ZT_OK && r->o->special && !pieces)
        s = zt_fail(r->ctx, ZT_EUSAGE,
                    "option '--special' applies to --detokenize of a tokenizer.model only: other "
                    "vocabularies print special tokens without it");
    if (s != ZT_OK)
        return s;
    zt_str_init(&text, r->ctx);
    size_t begin = opens_with_bos(r);
    if (pieces && begin < r->ids.count)
        s = zt_vocab_decode_ids(r->vocab, r->ids.id + begin, r->ids.count - begin, r->o->special,
                                &text);
    for (size_t i = begin; i < r->ids.count && s == ZT_OK && !pieces; i++)
        s = zt_vocab_decode(r->vocab, r->ids.id[i], true, i == begin, &text);
    if (s == ZT_OK && text.len)
        s = run_write_text(r, text.data, text.len);
    zt_str_fini(&text);
    return s;
}
