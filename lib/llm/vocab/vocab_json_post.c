/* vocab_json_post.c - owns tokenizer.json's post-processors: which ids go before and after a text.
 *
 * Source: huggingface/tokenizers, processors/, as facts. Offsets, types and pairs of texts are no
 * matter here.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

typedef struct post {
    zt_tj_reader *r;
    zt_tj *t;
    bool done; /* one that adds ids was there */
} post;

static zt_status bad(const post *p, const char *what)
{
    return zt_fail(p->r->ctx, ZT_EDATA, "%s: post_processor: %s", p->r->file, what);
}

static zt_status push(const post *p, zt_ids *to, const json_t *id)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
        return bad(p, "an id that is none");
    return zt_ids_push(p->r->ctx, to, (int32_t)json_integer_value(id));
}

/* [text, id] of BERT and RoBERTa. */
static zt_status push_named(const post *p, const json_t *o, const char *name, zt_ids *to)
{
    const json_t *pair = json_object_get(o, name);
    return json_array_size(pair) == 2 ? push(p, to, json_array_get(pair, 1))
                                      : bad(p, "'sep' or 'cls' is not a text and an id");
}

static zt_status bert(post *p, const json_t *o)
{
    zt_status s = push_named(p, o, "cls", &p->t->before);
    return s ? s : push_named(p, o, "sep", &p->t->after);
}

/* The ids of one special token of a template. */
static zt_status push_special(const post *p, const json_t *o, const json_t *piece, zt_ids *to)
{
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *token = name ? json_object_get(json_object_get(o, "special_tokens"), name) : NULL;
    const json_t *ids = json_object_get(token, "ids");
    zt_status s = ZT_OK;
    if (!json_is_array(ids))
        return bad(p, "a template's special token is not among 'special_tokens'");
    for (size_t i = 0; !s && i < json_array_size(ids); i++)
        s = push(p, to, json_array_get(ids, i));
    return s;
}

static zt_status template(post *p, const json_t *o)
{
    const json_t *single = json_object_get(o, "single");
    zt_ids *to = &p->t->before;
    zt_status s = json_is_array(single) ? ZT_OK : bad(p, "a template without 'single'");
    for (size_t i = 0; !s && i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *sequence = json_object_get(piece, "Sequence");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        if (!sequence)
            s = push_special(p, o, json_object_get(piece, "SpecialToken"), to);
        else if (!which || strcmp(which, "A") != 0 || to == &p->t->after)
            s = zt_fail(p->r->ctx, ZT_ENOTSUP, "%s: post_processor: a template of one text is not "
                        "that text once", p->r->file);
        else
            to = &p->t->after;
    }
    if (!s && to == &p->t->before)
        s = zt_fail(p->r->ctx, ZT_ENOTSUP, "%s: post_processor: a template without the text",
                    p->r->file);
    return s;
}

static zt_status nothing(post *p, const json_t *o)
{
    (void)p, (void)o;
    return ZT_OK;
}

static zt_status read_post(post *p, const json_t *o, int depth);

static zt_status sequence(post *p, const json_t *o, int depth)
{
    const json_t *list = json_object_get(o, "processors");
    zt_status s = ZT_OK;
    if (!json_is_array(list) || depth > ZT_MOST_STEPS)
        return bad(p, "a Sequence without 'processors', or too deep");
    for (size_t i = 0; !s && i < json_array_size(list); i++)
        s = read_post(p, json_array_get(list, i), depth + 1);
    return s;
}

static zt_status read_post(post *p, const json_t *o, int depth)
{
    static const struct {
        const char *name;
        zt_status (*read)(post *p, const json_t *o);
        bool adds;
    } rows[] = {
        {"BertProcessing", bert, true},
        {"RobertaProcessing", bert, true},
        {"TemplateProcessing", template, true},
        {"ByteLevel", nothing, false},
    };
    const json_t *type = json_object_get(o, "type");
    const char *name = json_string_value(type);
    char buf[80];
    if (!name)
        return bad(p, "a component without a 'type'");
    if (strcmp(name, "Sequence") == 0)
        return sequence(p, o, depth);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        if (rows[i].adds && p->done)
            return zt_fail(p->r->ctx, ZT_ENOTSUP,
                           "%s: post_processor: a second one that adds tokens, '%s'", p->r->file,
                           name);
        p->done = p->done || rows[i].adds;
        return rows[i].read(p, o);
    }
    return zt_fail(p->r->ctx, ZT_ENOTSUP, "%s: post_processor '%s' is not supported", p->r->file,
                   zt_escape(buf, sizeof buf, name, json_string_length(type)));
}

zt_status zt_post_read(zt_tj_reader *r, const json_t *root, zt_tj *t)
{
    const json_t *o = json_object_get(root, "post_processor");
    post p = {.r = r, .t = t};
    r->where = "post_processor";
    return !o || json_is_null(o) ? ZT_OK : read_post(&p, o, 0);
}
