/* tokens.c - --tokenize, --detokenize and --count: they need only the vocabulary. */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <string.h>

static zt_status write_str(run_state *run, zt_str *text)
{
    zt_status status = zt_ctx_status(run->ctx);
    if (status == ZT_OK) status = run_write(run, text->data ? text->data : "", text->len);
    zt_str_fini(text);
    return status;
}

zt_status run_tokenize(run_state *run)
{
    zt_str line;
    zt_status status =
        zt_vocab_encode(run->vocab, run->prompt_text, run->prompt_bytes, run_encode_flags(run->options), &run->ids);
    if (status != ZT_OK) return status;
    zt_str_init(&line, run->ctx);
    for (size_t i = 0; i < run->ids.count; i++) zt_str_printf(&line, "%s%" PRId32, i ? " " : "", run->ids.id[i]);
    zt_str_putc(&line, '\n');
    return write_str(run, &line);
}

zt_status run_count(run_state *run)
{
    zt_str line;
    zt_status status =
        zt_vocab_encode(run->vocab, run->prompt_text, run->prompt_bytes, run_encode_flags(run->options), &run->ids);
    if (status != ZT_OK) return status;
    zt_str_init(&line, run->ctx);
    zt_str_printf(&line, "%zu\n", run->ids.count);
    return write_str(run, &line);
}

/* ---- detokenize ------------------------------------------------------------------------------ */

static bool is_gap(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ','; }

/* Parses token ids, separated by blanks or commas. */
static zt_status parse_ids(run_state *run)
{
    int64_t id;
    char shown[64];
    int line = 1;
    zt_status status = ZT_OK;
    if (strlen(run->prompt_text) != run->prompt_bytes) return zt_fail(run->ctx, ZT_EDATA, "the token ids contain a zero byte");
    for (char *word = run->prompt_text; status == ZT_OK;) {
        while (is_gap(*word)) line += *word++ == '\n';
        char *word_end = word;
        while (*word_end && !is_gap(*word_end)) word_end++;
        if (word_end == word) break;
        bool last = *word_end == 0;
        int lines = *word_end == '\n'; /* newlines at the word's end */
        *word_end = 0;
        if (!zt_parse_i64(word, &id) || id < 0 || id >= zt_vocab_size(run->vocab))
            return zt_fail(run->ctx, ZT_EDATA, "line %d: '%s' is not a token id from 0 to %" PRId32, line,
                           zt_escape(shown, sizeof shown, word, strlen(word)), zt_vocab_size(run->vocab) - 1);
        status = zt_ids_push(run->ctx, &run->ids, (int32_t)id);
        word = word_end + !last;
        line += lines;
    }
    return status;
}

/* Is the first id the BOS that --tokenize would put there under the same options? It is not part of the text. */
static bool opens_with_bos(run_state *run)
{
    zt_ids empty = {0};
    unsigned flags = run_encode_flags(run->options);
    bool has = run->ids.count > 0 && zt_vocab_encode(run->vocab, "", 0, flags, &empty) == ZT_OK && empty.count > 0 &&
               empty.id[0] == run->ids.id[0] && empty.id[0] == zt_vocab_bos(run->vocab);
    zt_ids_fini(run->ctx, &empty);
    return has;
}

/* Special tokens become their text, so that --detokenize reverses --tokenize --special. Control symbols of a
 * SentencePiece model do so only with --special: SentencePiece itself prints nothing for them. */
zt_status run_detokenize(run_state *run)
{
    zt_str text;
    bool pieces = zt_vocab_is_pieces(run->vocab);
    zt_status status = parse_ids(run);
    if (status == ZT_OK && run->options->special && !pieces)
        status = zt_fail(
            run->ctx, ZT_EUSAGE,
            "option '--special' applies to --detokenize only with a tokenizer.model: other vocabularies always print special tokens");
    if (status != ZT_OK) return status;
    zt_str_init(&text, run->ctx);
    size_t begin = opens_with_bos(run);
    if (pieces && begin < run->ids.count)
        status = zt_vocab_decode_ids(run->vocab, run->ids.id + begin, run->ids.count - begin, run->options->special, &text);
    for (size_t i = begin; i < run->ids.count && status == ZT_OK && !pieces; i++)
        status = zt_vocab_decode(run->vocab, run->ids.id[i], true, i == begin, &text);
    if (status == ZT_OK && text.len) status = run_write_text(run, text.data, text.len);
    zt_str_fini(&text);
    return status;
}
