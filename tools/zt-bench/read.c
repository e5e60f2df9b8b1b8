/* read.c - results that were kept: zt.bench/1 from a file, or what another tool has written (read_peers.c). */
#include "tools/zt-bench/read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

zt_status bench_fail_read(const bench_reader *reader, const char *what)
{
    return zt_fail(reader->ctx, ZT_EDATA, "%s: %s", reader->file, what);
}

const char *bench_text_of(const json_t *object, const char *key) { return json_string_value(json_object_get(object, key)); }

/* A member's text into a field that is too short for longer ones. */
static void copy_text(const json_t *object, const char *key, char *out, size_t bytes)
{
    const char *text = bench_text_of(object, key);
    snprintf(out, bytes, "%s", text ? text : "");
}

static zt_status read_machine(const bench_reader *reader, const json_t *j)
{
    bench_machine_id *machine = &reader->list->machine;
    if (!json_is_object(j)) return bench_fail_read(reader, "no \"machine\"");
    copy_text(j, "os", machine->os, sizeof machine->os);
    copy_text(j, "cpu", machine->cpu, sizeof machine->cpu);
    copy_text(j, "isa", machine->isa, sizeof machine->isa);
    copy_text(j, "version", machine->version, sizeof machine->version);
    machine->threads = json_integer_value(json_object_get(j, "threads"));
    if (!machine->os[0] || !machine->cpu[0]) return bench_fail_read(reader, "\"machine\" has no \"os\" or no \"cpu\"");
    return ZT_OK;
}

static zt_status read_model(const bench_reader *reader, const json_t *j)
{
    const char *file = bench_text_of(j, "file"), *id = bench_text_of(j, "id");
    if (!file || !id) return j ? bench_fail_read(reader, "\"model\" has no \"file\" or no \"id\"") : ZT_OK;
    reader->list->model = zt_strdup(reader->ctx, file);
    reader->list->model_id = zt_strdup(reader->ctx, id);
    reader->list->model_bytes = (uint64_t)json_integer_value(json_object_get(j, "bytes"));
    return zt_ctx_status(reader->ctx);
}

zt_status bench_read_samples(const bench_reader *reader, const json_t *samples, const char *test, int64_t threads,
                             const char *unit)
{
    int64_t count = (int64_t)json_array_size(samples);
    if (count < 1 || count > BENCH_MAX_REPS)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: a result has %lld samples, expected 1 to %d", reader->file, (long long)count,
                       BENCH_MAX_REPS);
    bench_result *out = bench_add(reader->ctx, reader->list, test, threads, unit, count);
    if (!out) return zt_ctx_status(reader->ctx);
    for (; out->count < count; out->count++) {
        const json_t *value = json_array_get(samples, (size_t)out->count);
        if (!json_is_number(value) || !isfinite(json_number_value(value)))
            return bench_fail_read(reader, "a sample is not a number");
        out->samples[out->count] = json_number_value(value);
    }
    return ZT_OK;
}

static zt_status read_result(const bench_reader *reader, const json_t *j)
{
    const char *test = bench_text_of(j, "test"), *unit = bench_text_of(j, "unit"), *model = bench_text_of(j, "model"),
               *engine = bench_text_of(j, "engine");
    if (!test || !unit) return bench_fail_read(reader, "a result has no \"test\" or no \"unit\"");
    zt_str name; /* of one of several models or engines: "MODEL ENGINE TEST" */
    zt_str_init(&name, reader->ctx);
    bench_put_owner(&name, model, engine);
    zt_str_puts(&name, test);
    int64_t threads = json_integer_value(json_object_get(j, "threads"));
    zt_status status = name.data ? bench_read_samples(reader, json_object_get(j, "samples"), name.data, threads, unit)
                                 : zt_ctx_status(reader->ctx);
    zt_str_fini(&name);
    return status;
}

static zt_status read_results(const bench_reader *reader, const json_t *j)
{
    zt_status status = ZT_OK;
    if (!json_is_array(j) || json_array_size(j) == 0) return bench_fail_read(reader, "no \"results\"");
    for (size_t i = 0; i < json_array_size(j) && !status; i++) {
        const json_t *one = json_array_get(j, i);
        const char *subject = bench_text_of(one, "subject");
        if (!subject || strcmp(subject, "old")) status = read_result(reader, one);
    }
    return status;
}

static zt_status read_json(zt_ctx *ctx, const char *file, const json_t *j, bench_list *list)
{
    bench_reader reader = {ctx, file, list};
    const char *schema = bench_text_of(j, "schema");
    if (json_is_array(j)) return bench_read_llama(&reader, j);
    if (!schema && json_is_array(json_object_get(j, "results")) && !json_object_get(j, "machine"))
        return bench_read_hyperfine(&reader, json_object_get(j, "results"));
    if (!schema || strcmp(schema, "zt.bench/1"))
        return bench_fail_read(&reader, "not a valid results file: \"schema\" is not zt.bench/1");
    zt_status status = read_machine(&reader, json_object_get(j, "machine"));
    copy_text(j, "engine", list->engine, sizeof list->engine);
    if (!status) status = read_model(&reader, json_object_get(j, "model"));
    return status ? status : read_results(&reader, json_object_get(j, "results"));
}

zt_status bench_read_text(zt_ctx *ctx, const char *name, const char *text, size_t length, bench_list *list)
{
    char what[2 * JSON_ERROR_TEXT_LENGTH];
    json_error_t error;
    *list = (bench_list){0};
    json_t *j = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    zt_status status = j ? read_json(ctx, name, j, list)
                         : zt_fail(ctx, ZT_EDATA, "%s: JSON, line %d: %s", name, error.line,
                                   zt_escape(what, sizeof what, error.text, strlen(error.text)));
    json_decref(j);
    return status;
}

zt_status bench_read(zt_ctx *ctx, const char *file, bench_list *list)
{
    size_t length;
    *list = (bench_list){0};
    char *text = zt_read_all(ctx, file, &length);
    zt_status status = zt_ctx_status(ctx);
    if (!status) status = bench_read_text(ctx, strcmp(file, "-") ? file : "stdin", text, length, list);
    zt_free(ctx, text);
    return status;
}
