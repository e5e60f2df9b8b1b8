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

static zt_status write_file(zt_cli *cli, zt_extract *x, const char *path, const char *to,
                            bool force)
{
    zt_checkpoint_opts o = {.to = zt_container_named(to), .force = force};
    zt_writer *w = zt_writer_open(cli->ctx, path, &o, zt_extract_meta(x), zt_extract_entries(x),
                                  zt_extract_count(x));
    zt_status s = w ? zt_extract_write(x, w) : zt_ctx_status(cli->ctx);
    if (s == ZT_OK) s = zt_writer_commit(w);
    zt_writer_close(w);
    return s;
}

/* The modules that it is for, each last part of a name once: "q_proj". */
static zt_status put_modules(zt_str *t, zt_extract *x)
{
    const zt_entry *e = zt_extract_entries(x);
    zt_status s = ZT_OK;
    bool first = true;
    zt_str seen;
    zt_str_init(&seen, t->ctx);
    for (int64_t i = 0; i < zt_extract_count(x) && s == ZT_OK; i += 2) {
        const char *end = strstr(e[i].name, ".lora_A."), *at = end;
        while (at > e[i].name && at[-1] != '.') at--;
        char word[128];
        snprintf(word, sizeof word, " %.*s ", (int)(end - at), at);
        if (seen.data && strstr(seen.data, word)) continue;
        s = zt_str_puts(&seen, word);
        if (s == ZT_OK && !first) s = zt_str_puts(t, ", ");
        if (s == ZT_OK) s = zt_str_put_json(t, at, (size_t)(end - at));
        first = false;
    }
    zt_str_fini(&seen);
    return s;
}

/* What peft.LoraConfig reads. */
static zt_status write_config(zt_cli *cli, zt_extract *x, const char *path, const char *base,
                              int64_t rank)
{
    zt_str t;
    zt_str_init(&t, cli->ctx);
    zt_status s = zt_str_puts(&t, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\",\n"
                                  "  \"base_model_name_or_path\": ");
    if (s == ZT_OK) s = zt_str_put_json(&t, base, strlen(base));
    if (s == ZT_OK)
        s = zt_str_printf(&t,
                          ",\n  \"r\": %lld,\n  \"lora_alpha\": %lld,\n  \"lora_dropout\": 0.0,\n"
                          "  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                          "  \"inference_mode\": true,\n  \"target_modules\": [",
                          (long long)rank, (long long)rank);
    if (s == ZT_OK) s = put_modules(&t, x);
    if (s == ZT_OK) s = zt_str_puts(&t, "]\n}\n");
    zt_sink *out = s == ZT_OK ? zt_sink_open(cli->ctx, path, false) : NULL;
    s = out ? zt_sink_write(out, t.data, t.len) : zt_ctx_status(cli->ctx);
    if (s == ZT_OK) s = zt_sink_commit(out);
    zt_sink_close(out);
    zt_str_fini(&t);
    return s;
}

/* A directory beside its place, which goes there when it is whole. */
static zt_status write_folder(zt_cli *cli, zt_extract *x, const char *base, int64_t rank)
{
    size_t n = strlen(cli->output);
    zt_str dir, model, config;
    zt_str_init(&dir, cli->ctx);
    zt_str_init(&model, cli->ctx);
    zt_str_init(&config, cli->ctx);
    while (n > 1 && cli->output[n - 1] == '/') n--;
    zt_status s = zt_str_printf(&dir, "%.*s.zt-XXXXXX", (int)n, cli->output);
    if (s == ZT_OK && !mkdtemp(dir.data)) {
        s = zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", cli->output, strerror(errno));
        zt_str_clear(&dir);
    }
    if (s == ZT_OK) s = zt_str_printf(&model, "%s/adapter_model.safetensors", dir.data);
    if (s == ZT_OK) s = zt_str_printf(&config, "%s/adapter_config.json", dir.data);
    if (s == ZT_OK) s = write_file(cli, x, model.data, "safetensors", false);
    if (s == ZT_OK) s = write_config(cli, x, config.data, base, rank);
    char *target = zt_strndup(cli->ctx, cli->output, n);
    if (s == ZT_OK && target) chmod(dir.data, 0777 & ~umask(umask(0)));
    if (s == ZT_OK && target) s = zt_attributes_keep_folder(cli->ctx, dir.data, target);
    if (s == ZT_OK && (!target || rename(dir.data, target)))
        s = zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", cli->output, strerror(errno));
    if (s != ZT_OK && dir.len) {
        if (model.data) unlink(model.data);
        if (config.data) unlink(config.data);
        rmdir(dir.data);
    }
    zt_free(cli->ctx, target);
    zt_str_fini(&dir);
    zt_str_fini(&model);
    zt_str_fini(&config);
    return s;
}

static zt_status extract(zt_cli *cli, const dna_options *o, zt_checkpoint *base,
                         zt_checkpoint *tuned, const char *name)
{
    size_t n = strlen(cli->output);
    bool folder = cli->output[n - 1] == '/';
    zt_extract_opts opts = {.rank = o->rank,
                            .peft = folder,
                            .place = zt_adapter_place,
                            .threads = (int)cli->threads,
                            .seed = cli->seed,
                            .stop = zt_cli_interrupted,
                            .progress = on_progress,
                            .user = cli};
    zt_extract *x = zt_extract_new(cli->ctx, base, tuned, &opts);
    zt_status s = x ? ZT_OK : zt_ctx_status(cli->ctx);
    if (s == ZT_OK)
        s = folder ? write_folder(cli, x, name, o->rank)
                   : write_file(cli, x, cli->output, "gguf", cli->force);
    if (s == ZT_OK)
        zt_cli_note(cli, "%lld matrices, %.2f %% of the squares of their differences",
                    (long long)zt_extract_count(x) / 2, 100 * zt_extract_share(x));
    if (s == ZT_OK && zt_extract_left(x))
        zt_cli_note(cli,
                    "%lld tensors that differ are no matrices or embeddings: they are not in it",
                    (long long)zt_extract_left(x));
    zt_extract_free(x);
    return s;
}

zt_status dna_lora(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    if (!cli->output || !*cli->output)
        return zt_fail(cli->ctx, ZT_EUSAGE, "lora: no output: -o FILE.gguf, or DIR/");
    zt_status s = strcmp(cli->output, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "an adapter");
    for (int i = 0; i < n && s == ZT_OK; i++) s = zt_cli_refuse_same(cli, operands[i], cli->output);
    zt_checkpoint *base = s == ZT_OK ? dna_open_checkpoint(cli, operands[0]) : NULL;
    zt_checkpoint *tuned = base ? dna_open_checkpoint(cli, operands[1]) : NULL;
    s = tuned ? extract(cli, o, base, tuned, operands[0]) : zt_ctx_status(cli->ctx);
    zt_checkpoint_close(base);
    zt_checkpoint_close(tuned);
    return s;
}
