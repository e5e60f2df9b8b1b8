/* read.c - results that were kept: zt.bench/1 from a file. Nobody vouches for it. */
#include "tools/zt-bench/bench.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    zt_ctx *ctx;
    const char *file;
    bench_list *list;
} reader;

static zt_status bad(const reader *r, const char *what)
{
    return zt_fail(r->ctx, ZT_EDATA, "%s: %s", r->file, what);
}

/* The text of a member; NULL: there is none, or it is no text. */
static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* A member's text into a field that is too short for longer ones. */
static void take_text(const json_t *object, const char *key, char *to, size_t bytes)
{
    const char *text = text_of(object, key);
    snprintf(to, bytes, "%s", text ? text : "");
}

static zt_status read_machine(const reader *r, const json_t *j)
{
    bench_machine_id *m = &r->list->machine;
    if (!json_is_object(j)) return bad(r, "no \"machine\"");
    take_text(j, "os", m->os, sizeof m->os);
    take_text(j, "cpu", m->cpu, sizeof m->cpu);
    take_text(j, "isa", m->isa, sizeof m->isa);
    take_text(j, "version", m->version, sizeof m->version);
    m->threads = json_integer_value(json_object_get(j, "threads"));
    if (!m->os[0] || !m->cpu[0]) return bad(r, "\"machine\" has no \"os\" or no \"cpu\"");
    return ZT_OK;
}

static zt_status read_model(const reader *r, const json_t *j)
{
    const char *file = text_of(j, "file"), *id = text_of(j, "id");
    if (!file || !id) return j ? bad(r, "\"model\" has no \"file\" or no \"id\"") : ZT_OK;
    r->list->model = zt_strdup(r->ctx, file);
    r->list->model_id = zt_strdup(r->ctx, id);
    r->list->model_bytes = (uint64_t)json_integer_value(json_object_get(j, "bytes"));
    return zt_ctx_status(r->ctx);
}

static zt_status read_result(const reader *r, const json_t *j)
{
    const char *test = text_of(j, "test"), *unit = text_of(j, "unit");
    const json_t *samples = json_object_get(j, "samples");
    int64_t n = (int64_t)json_array_size(samples);
    if (!test || !unit) return bad(r, "a result has no \"test\" or no \"unit\"");
    if (n < 1 || n > BENCH_MAX_REPS)
        return zt_fail(r->ctx, ZT_EDATA, "%s: a result has %lld samples, not 1 to %d", r->file,
                       (long long)n, BENCH_MAX_REPS);
    zt_str name; /* of one of several models: "MODEL TEST" */
    const char *model = text_of(j, "model");
    zt_str_init(&name, r->ctx);
    zt_str_printf(&name, "%s%s%s", model ? model : "", model ? " " : "", test);
    int64_t threads = json_integer_value(json_object_get(j, "threads"));
    bench_result *to =
        name.data ? bench_add(r->ctx, r->list, name.data, threads, unit, n) : NULL;
    zt_str_fini(&name);
    if (!to) return zt_ctx_status(r->ctx);
    for (; to->n < n; to->n++) {
        const json_t *x = json_array_get(samples, (size_t)to->n);
        if (!json_is_number(x) || !isfinite(json_number_value(x)))
            return bad(r, "a sample is no number");
        to->samples[to->n] = json_number_value(x);
    }
    return ZT_OK;
}

static zt_status read_results(const reader *r, const json_t *j)
{
    zt_status s = ZT_OK;
    if (!json_is_array(j) || json_array_size(j) == 0) return bad(r, "no \"results\"");
    for (size_t i = 0; i < json_array_size(j) && !s; i++) {
        const json_t *one = json_array_get(j, i);
        const char *subject = text_of(one, "subject");
        if (!subject || strcmp(subject, "old")) s = read_result(r, one);
    }
    return s;
}

static zt_status read_json(zt_ctx *ctx, const char *file, const json_t *j, bench_list *l)
{
    reader r = {ctx, file, l};
    const char *schema = text_of(j, "schema");
    if (!schema || strcmp(schema, "zt.bench/1"))
        return bad(&r, "not results of zt-bench: its \"schema\" is not zt.bench/1");
    zt_status s = read_machine(&r, json_object_get(j, "machine"));
    take_text(j, "engine", l->engine, sizeof l->engine);
    if (!s) s = read_model(&r, json_object_get(j, "model"));
    return s ? s : read_results(&r, json_object_get(j, "results"));
}

zt_status bench_read_text(zt_ctx *ctx, const char *name, const char *text, size_t n, bench_list *l)
{
    char what[2 * JSON_ERROR_TEXT_LENGTH];
    json_error_t e;
    *l = (bench_list){0};
    json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    zt_status s = j ? read_json(ctx, name, j, l)
                    : zt_fail(ctx, ZT_EDATA, "%s: JSON, line %d: %s", name, e.line,
                              zt_escape(what, sizeof what, e.text, strlen(e.text)));
    json_decref(j);
    return s;
}

zt_status bench_read(zt_ctx *ctx, const char *file, bench_list *l)
{
    size_t n;
    *l = (bench_list){0};
    char *text = zt_read_all(ctx, file, &n);
    zt_status s = zt_ctx_status(ctx);
    if (!s) s = bench_read_text(ctx, strcmp(file, "-") ? file : "stdin", text, n, l);
    zt_free(ctx, text);
    return s;
}
