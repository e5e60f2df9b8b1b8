/* read_peers.c - results of other tools, for compare: the JSON of llama-bench (-o json) and of hyperfine (--export-json).
 *
 *     llama-bench  [{"model_filename":.., "backends":.., "cpu_info":.., "n_threads":.., "n_prompt":512, "n_gen":0, "n_depth":0,
 *                    "samples_ts":[..]}, ..]           test pp512, tg128, pp512@d4096; tokens/s
 *     hyperfine    {"results":[{"command":.., "times":[..], "memory_usage_byte":[..], "parameters":{"NAME":"VALUE"}}, ..]}
 *                                                      test wall (s) and peak (bytes), of several commands "wall COMMAND"
 *
 * Sources: llama.cpp, tools/llama-bench/README.md; hyperfine, src/benchmark/benchmark_result.rs. What these files do not say
 * of the machine is "unknown" (0 for its processors), which compare takes for no difference and mentions.
 */
#include "tools/zt-bench/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void set_unknown(bench_list *list)
{
    snprintf(list->machine.os, sizeof list->machine.os, "%s", BENCH_UNKNOWN);
    snprintf(list->machine.cpu, sizeof list->machine.cpu, "%s", BENCH_UNKNOWN);
    snprintf(list->machine.isa, sizeof list->machine.isa, "%s", BENCH_UNKNOWN);
    snprintf(list->engine, sizeof list->engine, "%s", BENCH_UNKNOWN);
}

/* ---- llama-bench ------------------------------------------------------------------------------ */

/* An integer of an object, from 0 on; -1: missing, of another type, or negative. */
static int64_t count_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? (int64_t)json_integer_value(value) : -1;
}

/* The engine of zt that has the name of the backend; another backend is unknown. */
static void read_backend(const json_t *test, bench_list *list)
{
    static const struct {
        const char *backend, *engine;
    } names[] = {{"CPU", "cpu"}, {"CUDA", "cuda"}, {"ROCm", "hip"}, {"Vulkan", "vulkan"}, {"OpenCL", "opencl"}};
    const char *backend = bench_text_of(test, "backends");
    for (size_t i = 0; backend && i < sizeof names / sizeof *names; i++)
        if (!strcmp(backend, names[i].backend)) snprintf(list->engine, sizeof list->engine, "%s", names[i].engine);
}

/* "pp512", "tg128", "pp512+tg128", each with "@d4096" behind a depth; false: the test has no tokens. */
static bool put_test_name(const json_t *test, const char *model, zt_str *name)
{
    int64_t prompt = count_of(test, "n_prompt"), generate = count_of(test, "n_gen"), depth = count_of(test, "n_depth");
    if (prompt < 0 || generate < 0 || prompt + generate == 0) return false;
    if (model) zt_str_printf(name, "%s ", model);
    if (prompt > 0) zt_str_printf(name, "pp%" PRId64, prompt);
    if (generate > 0) zt_str_printf(name, "%stg%" PRId64, prompt > 0 ? "+" : "", generate);
    if (depth > 0) zt_str_printf(name, "@d%" PRId64, depth);
    return true;
}

static zt_status read_llama_test(const bench_reader *reader, const json_t *test, bool several)
{
    zt_str name;
    const char *model = bench_text_of(test, "model_filename");
    int64_t threads = count_of(test, "n_threads");
    if (!model || threads < 0)
        return bench_fail_read(reader, "llama-bench: a test has no \"model_filename\" or no \"n_threads\"");
    zt_str_init(&name, reader->ctx);
    zt_status status = put_test_name(test, several ? model : NULL, &name) && name.data
                           ? bench_read_samples(reader, json_object_get(test, "samples_ts"), name.data, threads, "tokens/s")
                           : bench_fail_read(reader, "llama-bench: a test has no \"n_prompt\" and \"n_gen\" above 0");
    zt_str_fini(&name);
    return status;
}

static bool has_several_models(const json_t *tests)
{
    const char *first = bench_text_of(json_array_get(tests, 0), "model_filename");
    for (size_t i = 1; first && i < json_array_size(tests); i++) {
        const char *model = bench_text_of(json_array_get(tests, i), "model_filename");
        if (model && strcmp(model, first)) return true;
    }
    return false;
}

zt_status bench_read_llama(const bench_reader *reader, const json_t *tests)
{
    const json_t *first = json_array_get(tests, 0);
    const char *cpu = bench_text_of(first, "cpu_info");
    if (!first) return bench_fail_read(reader, "llama-bench: no tests");
    set_unknown(reader->list);
    if (cpu && *cpu) snprintf(reader->list->machine.cpu, sizeof reader->list->machine.cpu, "%s", cpu);
    read_backend(first, reader->list);
    bool several = has_several_models(tests);
    zt_status status = ZT_OK;
    for (size_t i = 0; i < json_array_size(tests) && !status; i++)
        status = read_llama_test(reader, json_array_get(tests, i), several);
    return status;
}

/* ---- hyperfine -------------------------------------------------------------------------------- */

/* " NAME=VALUE" of each parameter, as zt-bench run names the rows of --parameter-scan; without parameters the command, where the file
 * has several. */
static void put_variant(const json_t *result, bool several, zt_str *name)
{
    const char *key;
    json_t *value, *parameters = json_object_get(result, "parameters");
    json_object_foreach(parameters, key, value) if (json_is_string(value))
        zt_str_printf(name, " %s=%s", key, json_string_value(value));
    if (json_object_size(parameters) == 0 && several) zt_str_printf(name, " %s", bench_text_of(result, "command"));
}

static zt_status read_hyperfine_command(const bench_reader *reader, const json_t *result, bool several)
{
    static const struct {
        const char *member, *test, *unit;
        bool optional;
    } rows[] = {{"times", "wall", "s", false}, {"memory_usage_byte", "peak", "bytes", true}};
    zt_status status = ZT_OK;
    if (!bench_text_of(result, "command")) return bench_fail_read(reader, "hyperfine: a result has no \"command\"");
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++) {
        const json_t *samples = json_object_get(result, rows[i].member);
        if (!samples && rows[i].optional) continue;
        zt_str name;
        zt_str_init(&name, reader->ctx);
        zt_str_puts(&name, rows[i].test);
        put_variant(result, several, &name);
        status = name.data ? bench_read_samples(reader, samples, name.data, 0, rows[i].unit) : zt_ctx_status(reader->ctx);
        zt_str_fini(&name);
    }
    return status;
}

zt_status bench_read_hyperfine(const bench_reader *reader, const json_t *results)
{
    const size_t count = json_array_size(results);
    zt_status status = ZT_OK;
    if (count == 0) return bench_fail_read(reader, "hyperfine: no \"results\"");
    set_unknown(reader->list);
    reader->list->engine[0] = 0; /* as of zt-bench run */
    if (count == 1) {
        const char *command = bench_text_of(json_array_get(results, 0), "command");
        reader->list->command = command ? zt_strdup(reader->ctx, command) : NULL;
    }
    for (size_t i = 0; i < count && !status; i++) status = read_hyperfine_command(reader, json_array_get(results, i), count > 1);
    return status;
}
