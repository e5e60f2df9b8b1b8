/* wishes.c - types that the user names for some tensors: --tensor-type, the lines of --tensor-type-file,
 * --token-embedding-type and --output-tensor-type.
 *
 * They become one list, of which the last match applies: the file's lines first, from its last to its first, because
 * there the first match applies; then the options in their order.
 */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- types ----------------------------------------------------------------------------------- */

bool quant_find_type(const char *name, const zt_mix **mix, zt_storage *net)
{
    *mix = zt_mix_find(name);
    if (*mix && !quant_can((*mix)->dtype)) *mix = NULL;
    if (!zt_storage_parse(name, strlen(name), net)) *net = ZT_STORE_COUNT;
    for (int storage = 0; storage < ZT_STORE_COUNT; storage++)
        if (!strcmp(name, zt_netjson_word((zt_storage)storage))) *net = (zt_storage)storage;
    return *mix || *net != ZT_STORE_COUNT;
}

/* A type that some tensors get: iq2_s names a type and a mix of another. */
static bool find_wish_type(const char *name, zt_dtype *dtype, zt_storage *net)
{
    const zt_mix *mix;
    char lower[32];
    size_t length = strlen(name);
    bool found = quant_find_type(name, &mix, net);
    for (size_t i = 0; i <= length && i < sizeof lower; i++)
        lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    if (length >= sizeof lower || !zt_dtype_parse(lower, length, dtype) || !zt_mix_find(name) || !quant_can(*dtype))
        *dtype = mix ? mix->dtype : ZT_DTYPE_COUNT;
    return found;
}

/* ---- --tensor-type --------------------------------------------------------------------------- */

static zt_status take_option(quant_run *run, int index, int64_t into)
{
    char shown[64];
    const char *text = run->options->wishes.item[index], *equals = strrchr(text, '=');
    quant_wish *wish = &run->wish_of[into];
    zt_dtype dtype;
    zt_escape(shown, sizeof shown, text, strlen(text));
    if (!equals || equals == text) return zt_fail(run->ctx, ZT_EUSAGE, "--tensor-type: '%s' is not GLOB=TYPE", shown);
    if (!find_wish_type(equals + 1, &dtype, &wish->net)) return zt_cli_no_mix(run->cli, "tensor-type", equals + 1);
    wish->pattern = zt_strndup(run->ctx, text, (size_t)(equals - text));
    run->wishes[into] = (zt_mix_wish){.glob = wish->pattern, .dtype = dtype};
    return wish->pattern ? ZT_OK : ZT_ENOMEM;
}

/* ---- --tensor-type-file ---------------------------------------------------------------------- */

typedef struct word_reader {
    const char *cursor, *end;
    int64_t line;
} word_reader;

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next word of the file: llama-quantize divides it at any blank. A word that begins with # is a comment, to the end
 * of its line. */
static bool next_word(word_reader *reader, const char **word, size_t *length)
{
    while (reader->cursor < reader->end && (is_blank(*reader->cursor) || *reader->cursor == '#')) {
        if (*reader->cursor == '#')
            while (reader->cursor < reader->end && *reader->cursor != '\n') reader->cursor++;
        else
            reader->line += *reader->cursor++ == '\n';
    }
    *word = reader->cursor;
    while (reader->cursor < reader->end && !is_blank(*reader->cursor)) reader->cursor++;
    *length = (size_t)(reader->cursor - *word);
    return *length > 0;
}

static zt_status take_word(quant_run *run, const char *word, size_t length, int64_t line, int64_t into)
{
    char place[300], shown[80];
    quant_wish *wish = &run->wish_of[into];
    const char *equals = memrchr(word, '=', length);
    snprintf(place, sizeof place, "%.250s:%" PRId64, run->options->type_file, line);
    if (!equals || equals == word || equals + 1 == word + length)
        return zt_fail(run->ctx, ZT_EDATA, "%s: '%s' is not REGEX=TYPE", place, zt_escape(shown, sizeof shown, word, length));
    wish->line = line;
    wish->pattern = zt_strndup(run->ctx, word, (size_t)(equals - word));
    char *type = zt_strndup(run->ctx, equals + 1, (size_t)(word + length - equals) - 1);
    zt_status status = wish->pattern && type ? ZT_OK : ZT_ENOMEM;
    if (status == ZT_OK && !find_wish_type(type, &run->wishes[into].dtype, &wish->net)) {
        snprintf(place + strlen(place), sizeof place - strlen(place), ": unknown type");
        status = zt_fail_unknown(run->ctx, ZT_EDATA, place, type, strlen(type), zt_cli_mix_names, NULL);
    }
    if (status == ZT_OK) {
        wish->regex = zt_mix_pattern_new(run->ctx, place, wish->pattern);
        run->wishes[into].regex = wish->regex;
        status = wish->regex ? ZT_OK : zt_ctx_status(run->ctx);
    }
    zt_free(run->ctx, type);
    return status;
}

static int64_t count_words(word_reader reader)
{
    const char *word;
    size_t length;
    int64_t count = 0;
    while (next_word(&reader, &word, &length)) count++;
    return count;
}

/* ---- the list -------------------------------------------------------------------------------- */

static zt_status make_room(quant_run *run, int64_t count)
{
    run->wishes = zt_calloc(run->ctx, (size_t)count + 1, sizeof *run->wishes);
    run->wish_of = zt_calloc(run->ctx, (size_t)count + 1, sizeof *run->wish_of);
    run->wish_count = run->wishes && run->wish_of ? count : 0;
    return run->wishes && run->wish_of ? ZT_OK : ZT_ENOMEM;
}

static zt_status take_list(quant_run *run, word_reader reader)
{
    const char *word;
    size_t length;
    int64_t words = count_words(reader), options = run->options->wishes.n;
    zt_status status = make_room(run, words + options);
    for (int64_t i = words; status == ZT_OK && next_word(&reader, &word, &length);)
        status = take_word(run, word, length, reader.line, --i);
    for (int64_t i = 0; i < options && status == ZT_OK; i++) status = take_option(run, (int)i, words + i);
    return status;
}

/* The type of one option; it is for models alone. */
static zt_status take_type(quant_run *run, const char *option, const char *name, zt_dtype *dtype)
{
    zt_storage net;
    if (!name) return ZT_OK;
    if (!find_wish_type(name, dtype, &net)) return zt_cli_no_mix(run->cli, option, name);
    return *dtype < ZT_DTYPE_COUNT ? ZT_OK : zt_fail(run->ctx, ZT_EUSAGE, "--%s: '%s' is a type for networks", option, name);
}

zt_status quant_take_wishes(quant_run *run)
{
    const quant_options *options = run->options;
    size_t length = 0;
    if (options->type_file && !strcmp(options->type_file, "-") && !strcmp(run->input_path, "-"))
        return zt_fail(run->ctx, ZT_EUSAGE, "the input and --tensor-type-file cannot both be stdin");
    char *text = options->type_file ? zt_read_all(run->ctx, options->type_file, &length) : NULL;
    if (options->type_file && !text) return zt_ctx_status(run->ctx);
    zt_status status = text && memchr(text, 0, length)
                           ? zt_fail(run->ctx, ZT_EDATA, "%s: is not text: it has zero bytes", options->type_file)
                           : take_list(run, (word_reader){text, text ? text + length : NULL, 1});
    zt_free(run->ctx, text);
    if (status == ZT_OK) status = take_type(run, "token-embedding-type", options->embedding_type, &run->embedding_type);
    return status == ZT_OK ? take_type(run, "output-tensor-type", options->output_type, &run->output_type) : status;
}

void quant_free_wishes(quant_run *run)
{
    for (int64_t i = 0; i < run->wish_count; i++) {
        zt_free(run->ctx, run->wish_of[i].pattern);
        zt_mix_pattern_free(run->wish_of[i].regex);
    }
    zt_free(run->ctx, run->wishes);
    zt_free(run->ctx, run->wish_of);
}

/* ---- what they are for ----------------------------------------------------------------------- */

const char *quant_wish_text(const quant_run *run, int64_t index, char text[QUANT_WISH_TEXT])
{
    const quant_wish *wish = &run->wish_of[index];
    char shown[80];
    zt_escape(shown, sizeof shown, wish->pattern, strlen(wish->pattern));
    if (wish->line)
        snprintf(text, QUANT_WISH_TEXT, "%.250s:%" PRId64 ": '%s'", run->options->type_file, wish->line, shown);
    else
        snprintf(text, QUANT_WISH_TEXT, "--tensor-type '%s'", shown);
    return text;
}

/* A file may be for several models, and its lines that match nothing are only named. */
zt_status quant_wish_unused(quant_run *run, int64_t index, const char *of_what)
{
    char text[QUANT_WISH_TEXT];
    const char *model = zt_checkpoint_name(run->input);
    quant_wish_text(run, index, text);
    if (!run->wish_of[index].line) return zt_fail(run->ctx, ZT_EUSAGE, "%s: %s matches no %s", model, text, of_what);
    zt_cli_note(run->cli, "warning: %s: %s matches no %s", model, text, of_what);
    return ZT_OK;
}

bool quant_wants_scaled(const quant_run *run)
{
    bool wants = (run->mix && quant_is_scaled(run->mix->dtype)) || quant_is_scaled(run->embedding_type) ||
                 quant_is_scaled(run->output_type);
    for (int64_t i = 0; i < run->wish_count; i++) wants = wants || quant_is_scaled(run->wishes[i].dtype);
    return wants;
}
