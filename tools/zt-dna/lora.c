/* lora.c - zt-dna lora: the difference of two models as an adapter. */
#include "tools/common/adapters.h"
#include "tools/zt-dna/dna_tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void on_progress(void *user, const char *matrix, double done, double all)
{
    zt_progress(user, &(zt_work){"lora", matrix, "matrices", done, all});
}

static zt_status write_file(zt_cli *cli, zt_extract *extract, const char *path, const char *container, bool force)
{
    zt_checkpoint_opts options = {.to = zt_container_named(container), .force = force};
    zt_writer *writer = zt_writer_open(cli->ctx, path, &options, zt_extract_meta(extract), zt_extract_entries(extract),
                                       zt_extract_count(extract));
    zt_status status = writer ? zt_extract_write(extract, writer) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    return status;
}

/* The modules that it is for, each last part of a name once: "q_proj". */
static zt_status put_modules(zt_str *text, zt_extract *extract)
{
    const zt_entry *entry = zt_extract_entries(extract);
    zt_status status = ZT_OK;
    bool first = true;
    zt_str seen;
    zt_str_init(&seen, text->ctx);
    for (int64_t i = 0; i < zt_extract_count(extract) && status == ZT_OK; i += 2) {
        const char *end = strstr(entry[i].name, ".lora_A."), *module = end;
        while (module > entry[i].name && module[-1] != '.') module--;
        char word[128];
        snprintf(word, sizeof word, " %.*s ", (int)(end - module), module);
        if (seen.data && strstr(seen.data, word)) continue;
        status = zt_str_puts(&seen, word);
        if (status == ZT_OK && !first) status = zt_str_puts(text, ", ");
        if (status == ZT_OK) status = zt_str_put_json(text, module, (size_t)(end - module));
        first = false;
    }
    zt_str_fini(&seen);
    return status;
}

/* What peft.LoraConfig reads. */
static zt_status write_config(zt_cli *cli, zt_extract *extract, const char *path, const char *base, int64_t rank)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_status status = zt_str_puts(&text, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\",\n"
                                          "  \"base_model_name_or_path\": ");
    if (status == ZT_OK) status = zt_str_put_json(&text, base, strlen(base));
    if (status == ZT_OK)
        status = zt_str_printf(&text,
                               ",\n  \"r\": %lld,\n  \"lora_alpha\": %lld,\n  \"lora_dropout\": 0.0,\n"
                               "  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                               "  \"inference_mode\": true,\n  \"target_modules\": [",
                               (long long)rank, (long long)rank);
    if (status == ZT_OK) status = put_modules(&text, extract);
    if (status == ZT_OK) status = zt_str_puts(&text, "]\n}\n");
    zt_sink *out = status == ZT_OK ? zt_sink_open(cli->ctx, path, false) : NULL;
    status = out ? zt_sink_write(out, text.data, text.len) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_sink_commit(out);
    zt_sink_close(out);
    zt_str_fini(&text);
    return status;
}

/* A directory beside its place, which goes there when it is whole. */
static zt_status write_folder(zt_cli *cli, zt_extract *extract, const char *base, int64_t rank)
{
    size_t length = strlen(cli->output);
    zt_str dir, model, config;
    zt_str_init(&dir, cli->ctx);
    zt_str_init(&model, cli->ctx);
    zt_str_init(&config, cli->ctx);
    while (length > 1 && cli->output[length - 1] == '/') length--;
    zt_status status = zt_str_printf(&dir, "%.*s.zt-XXXXXX", (int)length, cli->output);
    if (status == ZT_OK && !mkdtemp(dir.data)) {
        status = zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", cli->output, strerror(errno));
        zt_str_clear(&dir);
    }
    if (status == ZT_OK) status = zt_str_printf(&model, "%s/adapter_model.safetensors", dir.data);
    if (status == ZT_OK) status = zt_str_printf(&config, "%s/adapter_config.json", dir.data);
    if (status == ZT_OK) status = write_file(cli, extract, model.data, "safetensors", false);
    if (status == ZT_OK) status = write_config(cli, extract, config.data, base, rank);
    char *target = zt_strndup(cli->ctx, cli->output, length);
    if (status == ZT_OK && target) chmod(dir.data, 0777 & ~umask(umask(0)));
    if (status == ZT_OK && target) status = zt_attributes_keep_folder(cli->ctx, dir.data, target);
    if (status == ZT_OK && (!target || rename(dir.data, target)))
        status = zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", cli->output, strerror(errno));
    if (status != ZT_OK && dir.len) {
        if (model.data) unlink(model.data);
        if (config.data) unlink(config.data);
        rmdir(dir.data);
    }
    zt_free(cli->ctx, target);
    zt_str_fini(&dir);
    zt_str_fini(&model);
    zt_str_fini(&config);
    return status;
}

static zt_status extract_adapter(zt_cli *cli, const dna_options *options, zt_checkpoint *base, zt_checkpoint *tuned,
                                 const char *name)
{
    size_t length = strlen(cli->output);
    bool folder = cli->output[length - 1] == '/';
    zt_extract_opts opts = {.rank = options->rank,
                            .peft = folder,
                            .place = zt_adapter_place,
                            .threads = (int)cli->threads,
                            .seed = cli->seed,
                            .stop = zt_cli_interrupted,
                            .progress = on_progress,
                            .user = cli};
    zt_extract *extract = zt_extract_new(cli->ctx, base, tuned, &opts);
    zt_status status = extract ? ZT_OK : zt_ctx_status(cli->ctx);
    if (status == ZT_OK)
        status =
            folder ? write_folder(cli, extract, name, options->rank) : write_file(cli, extract, cli->output, "gguf", cli->force);
    if (status == ZT_OK)
        zt_cli_note(cli, "%lld matrices; the adapter has %.2f %% of the squared differences",
                    (long long)zt_extract_count(extract) / 2, 100 * zt_extract_share(extract));
    if (status == ZT_OK && zt_extract_left(extract))
        zt_cli_note(cli, "warning: %lld tensors that differ are not matrices or embeddings and are not in the adapter",
                    (long long)zt_extract_left(extract));
    zt_extract_free(extract);
    return status;
}

zt_status dna_lora(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    if (!cli->output || !*cli->output)
        return zt_fail(cli->ctx, ZT_EUSAGE, "lora: no output: specify one with -o FILE.gguf or -o DIR/");
    zt_status status = strcmp(cli->output, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "an adapter");
    for (int i = 0; i < count && status == ZT_OK; i++) status = zt_cli_refuse_same(cli, operands[i], cli->output);
    zt_checkpoint *base = status == ZT_OK ? dna_open_checkpoint(cli, operands[0]) : NULL;
    zt_checkpoint *tuned = base ? dna_open_checkpoint(cli, operands[1]) : NULL;
    status = tuned ? extract_adapter(cli, options, base, tuned, operands[0]) : zt_ctx_status(cli->ctx);
    zt_checkpoint_close(base);
    zt_checkpoint_close(tuned);
    return status;
}
