/* kv_store.c - --kv-store: which blocks are those of this run, and when they are read and written.
 *
 * The identity of a block's bits is a text: what the model's tensors are, what computes them, and the program that does, whose
 * text has the settings of the model (rope, norms, windows) and those of the run (--exact, --kv). zt-formats(5) has it line by line.
 */
#include "lib/llm/kv_store.h"
#include "lib/llm/model_digest.h"
#include "tools/zt-run/receipt.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16 };

/* Of a device: its name and its driver, which decide what it computes. */
static zt_status put_device(const run_state *run, const char *engine, zt_str *text)
{
    const char *number = strchr(run->cli->engine, ':');
    const long index = number ? strtol(number + 1, NULL, 10) : 0;
    zt_adapter *devices = zt_alloc_array(run->ctx, MOST_DEVICES, sizeof *devices);
    if (!devices) return ZT_ENOMEM;
    int count = zt_engine_adapters(run->ctx, engine, devices, MOST_DEVICES);
    zt_status status = zt_ctx_status(run->ctx);
    if (!status && (index < 0 || index >= count || index >= MOST_DEVICES))
        status = zt_fail(run->ctx, ZT_ENOTSUP, "--kv-store: the device of engine %s is not known by name", engine);
    if (!status) status = zt_str_puts(text, "device ");
    if (!status) status = zt_str_put_json(text, devices[index].name, strlen(devices[index].name));
    if (!status) status = zt_str_putc(text, ' ');
    if (!status) status = zt_str_put_json(text, devices[index].driver, strlen(devices[index].driver));
    if (!status) status = zt_str_putc(text, '\n');
    zt_free(run->ctx, devices);
    return status;
}

/* The same text for any number of sequences and for any context, unless the context changes what is computed; and for any container:
 * without the line that names the file. */
static zt_status put_program(const run_state *run, zt_str *text)
{
    static const char model[] = "model \"";
    const zt_llm_opts opts = run_llm_opts(run);
    zt_prog *program = zt_llm_program(run->gguf, &opts);
    zt_str printed;
    zt_str_init(&printed, run->ctx);
    zt_status status = program ? zt_prog_print(program, &printed) : zt_ctx_status(run->ctx);
    for (const char *line = printed.data, *next; !status && line && *line; line = next) {
        const char *end = strchr(line, '\n');
        next = end ? end + 1 : line + strlen(line);
        if (strncmp(line, model, sizeof model - 1) != 0) status = zt_str_put(text, line, (size_t)(next - line));
    }
    zt_str_fini(&printed);
    zt_prog_free(program);
    return status;
}

static zt_status describe_identity(const run_state *run, const uint8_t model[ZT_DIGEST_BYTES], zt_str *text)
{
    char digits[ZT_DIGEST_TEXT];
    const zt_engine *engine = zt_engine_inmost(run->engine);
    zt_status status = zt_str_printf(text, "zt-kv identity 1\nmodel %s\nzt %s arithmetic %d\nengine %s isa %s compute %s\n",
                                     zt_digest_text(model, digits), ZT_VERSION, ZT_ARITHMETIC, engine->vt->name,
                                     zt_isa_name(run->cli->isa), zt_compute_name(engine->compute));
    if (!status && engine->vt->devices) status = put_device(run, engine->vt->name, text);
    return status ? status : put_program(run, text);
}

static zt_status digest_text(zt_ctx *ctx, const zt_str *text, uint8_t digest[ZT_DIGEST_BYTES])
{
    zt_digest *whole = zt_digest_new(ctx);
    zt_status status = whole ? zt_digest_add(whole, text->data, text->len) : zt_ctx_status(ctx);
    if (!status) status = zt_digest_end(whole, digest);
    zt_digest_free(whole);
    return status;
}

/* A write past the limit of a file's size is to fail, not to kill. */
static void ignore_file_limit(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    sigaction(SIGXFSZ, &action, NULL);
}

zt_status run_kv_store_open(run_state *run, bool embed)
{
    uint8_t digest[ZT_DIGEST_BYTES];
    const run_options *options = run->options;
    if (!options->kv_store) return ZT_OK;
    if (embed)
        return zt_fail(run->ctx, ZT_ENOTSUP, "--kv-store: %s computes embeddings and has no KV cache", zt_gguf_name(run->gguf));
    ignore_file_limit();
    run->kv_store = zt_kv_store_open(run->ctx, options->kv_store, options->kv_store_size);
    if (!run->kv_store) return zt_ctx_status(run->ctx);
    zt_str text;
    zt_str_init(&text, run->ctx);
    zt_status status = zt_kv_store_model(run->kv_store, run->gguf, zt_cli_interrupted, digest);
    if (!status) status = describe_identity(run, digest, &text);
    if (!status) status = digest_text(run->ctx, &text, digest);
    if (!status) status = zt_kv_store_attach(run->kv_store, run->llm, digest);
    zt_str_fini(&text);
    return status;
}

zt_status run_kv_store_fetch(run_state *run, size_t most)
{
    if (!run->kv_store || run->fed_ids.count > most) return ZT_OK;
    zt_status status = zt_kv_store_resume(run->kv_store, run->ids.id, most, &run->fed_ids);
    run->reused_count = run->fed_ids.count;
    return status;
}

size_t run_kv_store_stop(const run_state *run, size_t position)
{
    return (size_t)zt_kv_store_stop(run->kv_store, run->ids.id, run->ids.count, (int64_t)position);
}

void run_kv_store_keep(run_state *run) { zt_kv_store_keep_fed(run->kv_store, run->fed_ids.id, run->fed_ids.count); }

void run_kv_store_close(run_state *run)
{
    if (!run->kv_store) return;
    const zt_kv_store_count count = zt_kv_store_counted(run->kv_store);
    zt_log(run->ctx, ZT_LOG_INFO, "%s: %llu blocks read, %llu written, %llu damaged, %llu files removed for their age",
           run->options->kv_store, (unsigned long long)count.found, (unsigned long long)count.written,
           (unsigned long long)count.damaged, (unsigned long long)count.removed);
    zt_kv_store_close(run->kv_store);
    run->kv_store = NULL;
}
