/* adapters.c - adapters as command lines name them. */
#include "tools/common/adapters.h"

#include "lib/llm/llm.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* lib/dna does not know Hugging Face's names, lib/llm does. */
bool zt_adapter_place(const char *arch, const char *hf_name, zt_lora_place *out)
{
    zt_hf_place p;
    if (!zt_hf_place_of(arch, hf_name, &p)) return false;
    *out = (zt_lora_place){
        .transposed = p.transposed, .add = p.add, .pairs = p.pairs, .kv = p.kv};
    memcpy(out->name, p.name, sizeof out->name);
    return true;
}

/* "FILE=WORD" where there is FILE alone: the word is not a scale. */
static zt_status refuse_word(zt_cli *cli, const char *path)
{
    const char *eq = strrchr(path, '=');
    char shown[80];
    if (!eq || eq == path || access(path, F_OK) == 0) return ZT_OK;
    char *file = zt_strndup(cli->ctx, path, (size_t)(eq - path));
    bool is = file && access(file, F_OK) == 0;
    zt_free(cli->ctx, file);
    if (!file) return ZT_ENOMEM;
    return !is ? ZT_OK
               : zt_fail(cli->ctx, ZT_EUSAGE, "%s: the scale '%s' is not a finite number", path,
                         zt_escape(shown, sizeof shown, eq + 1, strlen(eq + 1)));
}

zt_status zt_adapters_add(zt_cli *cli, zt_adapters *a, const char *path, double scale)
{
    char shown[80];
    const char *unknown;
    if (a->n == ZT_ADAPTERS)
        return zt_fail(cli->ctx, ZT_EUSAGE, "%d adapters at most", ZT_ADAPTERS);
    zt_status s = refuse_word(cli, path);
    zt_lora *l = s != ZT_OK ? NULL : zt_lora_open(cli->ctx, path, zt_adapter_place);
    if (!l) return zt_ctx_status(cli->ctx);
    a->adapter[a->n++] = (zt_lora_use){l, scale};
    for (int i = 0; (unknown = zt_lora_unknown(l, i)); i++)
        zt_cli_note(cli, "warning: %s: adapter_config.json: '%s' is not known and has no effect",
                    path, zt_escape(shown, sizeof shown, unknown, strlen(unknown)));
    return ZT_OK;
}

size_t zt_adapter_split(const char *text, double *scale)
{
    const char *eq = strrchr(text, '=');
    double x;
    *scale = 1;
    if (!eq || eq == text || access(text, F_OK) == 0 || !zt_parse_double(eq + 1, &x) ||
        !isfinite(x))
        return strlen(text);
    *scale = x;
    return (size_t)(eq - text);
}

zt_status zt_adapters_add_text(zt_cli *cli, zt_adapters *a, const char *text)
{
    double scale;
    size_t n = zt_adapter_split(text, &scale);
    char *path = zt_strndup(cli->ctx, text, n);
    zt_status s = path ? zt_adapters_add(cli, a, path, scale) : ZT_ENOMEM;
    zt_free(cli->ctx, path);
    return s;
}

void zt_adapters_tell(zt_cli *cli, const zt_adapted *a)
{
    if (zt_adapted_grown(a))
        zt_cli_note(cli,
                    "warning: %lld rows are added to the vocabulary: tokens without a text, unless "
                    "the tokenizer has them",
                    (long long)zt_adapted_grown(a));
}

void zt_adapters_close(zt_adapters *a)
{
    for (int i = 0; i < a->n; i++) zt_lora_close((zt_lora *)(uintptr_t)a->adapter[i].lora);
    a->n = 0;
}
