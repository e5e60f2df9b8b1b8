/* vocab_json_post.c - tokenizer.json's post-processors: which ids go before and after a text.
 *
 * Source: huggingface/tokenizers, processors/, as facts. Offsets, types and pairs of texts are no
 * matter here.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

typedef struct post_reader {
    zt_tj_reader *reader;
    zt_tj *tokenizer;
    bool done; /* one that adds ids was there */
} post_reader;

static zt_status fail_post(const post_reader *post, const char *what)
{
    return zt_fail(post->reader->ctx, ZT_EDATA, "%s: post_processor: %s", post->reader->file, what);
}

static zt_status push_id(const post_reader *post, zt_ids *ids, const json_t *value)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX)
        return fail_post(post, "an id is not a non-negative integer");
    return zt_ids_push(post->reader->ctx, ids, (int32_t)json_integer_value(value));
}

/* [text, id] of BERT and RoBERTa. */
static zt_status push_named(const post_reader *post, const json_t *object, const char *name, zt_ids *ids)
{
    const json_t *pair = json_object_get(object, name);
    return json_array_size(pair) == 2 ? push_id(post, ids, json_array_get(pair, 1))
                                      : fail_post(post, "'sep' or 'cls' is not a pair of string and id");
}

static zt_status read_bert(post_reader *post, const json_t *object)
{
    zt_status status = push_named(post, object, "cls", &post->tokenizer->before);
    return status ? status : push_named(post, object, "sep", &post->tokenizer->after);
}

/* The ids of one special token of a template. */
static zt_status push_special(const post_reader *post, const json_t *object, const json_t *piece, zt_ids *ids)
{
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *token = name ? json_object_get(json_object_get(object, "special_tokens"), name) : NULL;
    const json_t *listed = json_object_get(token, "ids");
    zt_status status = ZT_OK;
    if (!json_is_array(listed)) return fail_post(post, "a special token of the template is not in 'special_tokens'");
    for (size_t i = 0; !status && i < json_array_size(listed); i++) status = push_id(post, ids, json_array_get(listed, i));
    return status;
}

static zt_status read_template(post_reader *post, const json_t *object)
{
    const json_t *single = json_object_get(object, "single");
    zt_ids *ids = &post->tokenizer->before;
    zt_status status = json_is_array(single) ? ZT_OK : fail_post(post, "the template has no 'single'");
    for (size_t i = 0; !status && i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *sequence = json_object_get(piece, "Sequence");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        if (!sequence)
            status = push_special(post, object, json_object_get(piece, "SpecialToken"), ids);
        else if (!which || strcmp(which, "A") != 0 || ids == &post->tokenizer->after)
            status = zt_fail(post->reader->ctx, ZT_ENOTSUP,
                             "%s: post_processor: 'single' contains a sequence other than A, or A twice", post->reader->file);
        else
            ids = &post->tokenizer->after;
    }
    if (!status && ids == &post->tokenizer->before)
        status = zt_fail(post->reader->ctx, ZT_ENOTSUP, "%s: post_processor: 'single' does not contain the sequence A",
                         post->reader->file);
    return status;
}

static zt_status read_nothing(post_reader *post, const json_t *object)
{
    (void)post, (void)object;
    return ZT_OK;
}

static zt_status read_post(post_reader *post, const json_t *object, int depth);

static zt_status read_sequence(post_reader *post, const json_t *object, int depth)
{
    const json_t *list = json_object_get(object, "processors");
    zt_status status = ZT_OK;
    if (!json_is_array(list) || depth > ZT_MOST_STEPS)
        return fail_post(post, "a Sequence has no 'processors' or is nested too deeply");
    for (size_t i = 0; !status && i < json_array_size(list); i++) status = read_post(post, json_array_get(list, i), depth + 1);
    return status;
}

static zt_status read_post(post_reader *post, const json_t *object, int depth)
{
    static const struct {
        const char *name;
        zt_status (*read)(post_reader *post, const json_t *object);
        bool adds;
    } rows[] = {
        {"BertProcessing", read_bert, true},
        {"RobertaProcessing", read_bert, true},
        {"TemplateProcessing", read_template, true},
        {"ByteLevel", read_nothing, false},
    };
    const json_t *type = json_object_get(object, "type");
    const char *name = json_string_value(type);
    char escaped[80];
    if (!name) return fail_post(post, "a component has no 'type'");
    if (strcmp(name, "Sequence") == 0) return read_sequence(post, object, depth);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        if (rows[i].adds && post->done)
            return zt_fail(post->reader->ctx, ZT_ENOTSUP, "%s: post_processor: a second component that adds tokens, '%s'",
                           post->reader->file, name);
        post->done = post->done || rows[i].adds;
        return rows[i].read(post, object);
    }
    return zt_fail(post->reader->ctx, ZT_ENOTSUP, "%s: post_processor '%s' is not supported", post->reader->file,
                   zt_escape(escaped, sizeof escaped, name, json_string_length(type)));
}

zt_status zt_post_read(zt_tj_reader *reader, const json_t *root, zt_tj *tokenizer)
{
    const json_t *object = json_object_get(root, "post_processor");
    post_reader post = {.reader = reader, .tokenizer = tokenizer};
    reader->where = "post_processor";
    return !object || json_is_null(object) ? ZT_OK : read_post(&post, object, 0);
}
