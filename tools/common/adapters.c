/* adapters.c - adapters as command lines name them. */
#include "tools/common/adapters.h"

#include "lib/llm/llm.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* lib/dna does not know Hugging Face's names, lib/llm does. */
bool zt_adapter_place(const char *arch, const char *hf_name, zt_lora_place *out)
{
    zt_hf_place place;
    if (!zt_hf_place_of(arch, hf_name, &place)) return false;
    *out = (zt_lora_place){
        .transposed = place.transposed, .add = place.add, .pairs = place.pairs, .kv = place.kv, .expert = place.expert};
    memcpy(out->name, place.name, sizeof out->name);
    return true;
}

/* "FILE=WORD" where there is FILE alone: the word is not a scale. */
static zt_status refuse_word(zt_cli *cli, const char *path)
{
    const char *equals = strrchr(path, '=');
    char shown[80];
    if (!equals || equals == path || access(path, F_OK) == 0) return ZT_OK;
    char *file = zt_strndup(cli->ctx, path, (size_t)(equals - path));
    bool is_file = file && access(file, F_OK) == 0;
    zt_free(cli->ctx, file);
    if (!file) return ZT_ENOMEM;
    return !is_file ? ZT_OK
                    : zt_fail(cli->ctx, ZT_EUSAGE, "%s: the scale '%s' is not a finite number", path,
                              zt_escape(shown, sizeof shown, equals + 1, strlen(equals + 1)));
}

zt_status zt_adapters_add(zt_cli *cli, zt_adapters *adapters, const char *path, double scale)
{
    char shown[80];
    const char *unknown;
    if (adapters->count == ZT_ADAPTERS) return zt_fail(cli->ctx, ZT_EUSAGE, "too many adapters, the limit is %d", ZT_ADAPTERS);
    zt_status status = refuse_word(cli, path);
    zt_lora *lora = status != ZT_OK ? NULL : zt_lora_open(cli->ctx, path, zt_adapter_place);
    if (!lora) return zt_ctx_status(cli->ctx);
    adapters->adapters[adapters->count++] = (zt_lora_use){lora, scale};
    for (int i = 0; (unknown = zt_lora_unknown(lora, i)); i++)
        zt_cli_note(cli, "warning: %s: adapter_config.json: unknown key '%s' is ignored", path,
                    zt_escape(shown, sizeof shown, unknown, strlen(unknown)));
    return ZT_OK;
}

size_t zt_adapter_split(const char *text, double *scale)
{
    const char *equals = strrchr(text, '=');
    double parsed;
    *scale = 1;
    if (!equals || equals == text || access(text, F_OK) == 0 || !zt_parse_double(equals + 1, &parsed) || !isfinite(parsed))
        return strlen(text);
    *scale = parsed;
    return (size_t)(equals - text);
}

zt_status zt_adapters_add_text(zt_cli *cli, zt_adapters *adapters, const char *text)
{
    double scale;
    size_t length = zt_adapter_split(text, &scale);
    char *path = zt_strndup(cli->ctx, text, length);
    zt_status status = path ? zt_adapters_add(cli, adapters, path, scale) : ZT_ENOMEM;
    zt_free(cli->ctx, path);
    return status;
}

void zt_adapters_tell(zt_cli *cli, const zt_adapted *adapted)
{
    if (zt_adapted_grown(adapted))
        zt_cli_note(cli,
                    "warning: %lld rows are added to the vocabulary: their tokens have no text unless the tokenizer defines them",
                    (long long)zt_adapted_grown(adapted));
}

void zt_adapters_close(zt_adapters *adapters)
{
    for (int i = 0; i < adapters->count; i++) zt_lora_close((zt_lora *)(uintptr_t)adapters->adapters[i].lora);
    adapters->count = 0;
}
