/* adapter_write.c - adapters as files: a GGUF, or a directory as PEFT writes it. */
#include "tools/common/adapters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static zt_status write_file(zt_cli *cli, const zt_adapter_content *content, const char *path, const char *container, bool force)
{
    zt_checkpoint_opts options = {.to = zt_container_named(container), .force = force};
    zt_writer *writer = zt_writer_open(cli->ctx, path, &options, content->meta, content->entries, content->count);
    zt_status status = writer ? content->write(content->user, writer) : zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    return status;
}

/* The modules that it is for, each last part of a name once: "q_proj". */
static zt_status put_modules(zt_str *text, const zt_adapter_content *content)
{
    const zt_entry *entry = content->entries;
    zt_status status = ZT_OK;
    bool first = true;
    zt_str seen;
    zt_str_init(&seen, text->ctx);
    for (int64_t i = 0; i < content->count && status == ZT_OK; i += 2) {
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
static zt_status write_config(zt_cli *cli, const zt_adapter_content *content, const char *path)
{
    zt_str text;
    zt_str_init(&text, cli->ctx);
    zt_status status = zt_str_puts(&text, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": \"CAUSAL_LM\",\n"
                                          "  \"base_model_name_or_path\": ");
    if (status == ZT_OK) status = zt_str_put_json(&text, content->base, strlen(content->base));
    if (status == ZT_OK) status = zt_str_printf(&text, ",\n  \"r\": %lld,\n  \"lora_alpha\": ", (long long)content->rank);
    if (status == ZT_OK) status = zt_str_put_double(&text, content->alpha);
    if (status == ZT_OK)
        status = zt_str_printf(&text,
                               ",\n  \"lora_dropout\": 0.0,\n"
                               "  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n"
                               "  \"inference_mode\": true,\n  \"target_modules\": [",
                               content->transposed ? "true" : "false");
    if (status == ZT_OK) status = put_modules(&text, content);
    if (status == ZT_OK) status = zt_str_puts(&text, "]\n}\n");
    if (status == ZT_OK) status = zt_sink_put_file(cli->ctx, path, false, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* ---- directories ----------------------------------------------------------------------------- */

static const char *const files[] = {"adapter_model.safetensors", "adapter_config.json"};
enum { FILES = sizeof files / sizeof *files };

static bool is_own_file(const char *name)
{
    bool is = !strcmp(name, ".") || !strcmp(name, "..");
    for (int i = 0; i < FILES; i++) is = is || !strcmp(name, files[i]);
    return is;
}

zt_status zt_adapter_check_output(zt_cli *cli)
{
    DIR *directory = cli->output && zt_adapter_is_folder(cli->output) ? opendir(cli->output) : NULL;
    zt_status status = ZT_OK;
    char shown[160];
    if (!directory) return ZT_OK;
    for (struct dirent *entry; !status && (entry = readdir(directory));)
        if (!cli->force && strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            status = zt_fail(cli->ctx, ZT_ECREATE, "%s: already exists (use -f to overwrite)", cli->output);
        else if (!is_own_file(entry->d_name))
            status = zt_fail(cli->ctx, ZT_ECREATE, "%s: contains '%s', which does not belong to an adapter", cli->output,
                             zt_escape(shown, sizeof shown, entry->d_name, strlen(entry->d_name)));
    closedir(directory);
    return status;
}

/* Path of a file of the directory; free it with zt_free. */
static char *path_in(zt_ctx *ctx, const char *directory, const char *name)
{
    zt_str path;
    zt_str_init(&path, ctx);
    if (!zt_str_printf(&path, "%s/%s", directory, name)) return path.data;
    zt_str_fini(&path);
    return NULL;
}

static void remove_folder(zt_ctx *ctx, const char *directory)
{
    for (int i = 0; i < FILES; i++) {
        char *path = path_in(ctx, directory, files[i]);
        if (path) unlink(path);
        zt_free(ctx, path);
    }
    rmdir(directory);
}

/* Puts the directory `fresh` at its place; of one that is there already, an adapter's, what was in it is removed. */
static zt_status place_folder(zt_cli *cli, const char *fresh, const char *target)
{
    zt_attributes_open_folder(fresh);
    zt_status status = zt_attributes_keep_folder(cli->ctx, fresh, target);
    if (status == ZT_OK && rename(fresh, target) == 0) return ZT_OK;
    if (status == ZT_OK && cli->force && (errno == ENOTEMPTY || errno == EEXIST)) {
        status = zt_adapter_check_output(cli);
        if (status == ZT_OK && renameat2(AT_FDCWD, fresh, AT_FDCWD, target, RENAME_EXCHANGE) == 0) {
            remove_folder(cli->ctx, fresh);
            return ZT_OK;
        }
    }
    return status != ZT_OK ? status : zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", cli->output, strerror(errno));
}

/* A directory beside its place, which goes there when it is whole. */
static zt_status write_folder(zt_cli *cli, const zt_adapter_content *content)
{
    size_t length = strlen(cli->output);
    while (length > 1 && cli->output[length - 1] == '/') length--;
    char *target = zt_strndup(cli->ctx, cli->output, length);
    zt_status status = zt_adapter_check_output(cli);
    zt_str name;
    zt_str_init(&name, cli->ctx);
    if (status == ZT_OK) status = target ? zt_str_printf(&name, "%s.zt-XXXXXX", target) : ZT_ENOMEM;
    if (status == ZT_OK && !mkdtemp(name.data)) {
        status = zt_fail(cli->ctx, ZT_ECREATE, "%s: %s", cli->output, strerror(errno));
        zt_str_clear(&name);
    }
    char *model = name.len ? path_in(cli->ctx, name.data, files[0]) : NULL;
    char *config = name.len ? path_in(cli->ctx, name.data, files[1]) : NULL;
    if (status == ZT_OK) status = model && config ? write_file(cli, content, model, "safetensors", false) : ZT_ENOMEM;
    if (status == ZT_OK) status = write_config(cli, content, config);
    if (status == ZT_OK) status = place_folder(cli, name.data, target);
    if (status != ZT_OK && name.len) remove_folder(cli->ctx, name.data);
    zt_free(cli->ctx, model);
    zt_free(cli->ctx, config);
    zt_free(cli->ctx, target);
    zt_str_fini(&name);
    return status;
}

bool zt_adapter_is_folder(const char *path) { return *path && path[strlen(path) - 1] == '/'; }

zt_status zt_adapter_write(zt_cli *cli, const zt_adapter_content *content)
{
    return zt_adapter_is_folder(cli->output) ? write_folder(cli, content)
                                             : write_file(cli, content, cli->output, "gguf", cli->force);
}
