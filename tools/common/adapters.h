/* adapters.h - adapters as command lines name them: FILE or FILE=SCALE. */
#ifndef ZT_ADAPTERS_H
#define ZT_ADAPTERS_H

#include "lib/dna/adapted.h"
#include "tools/common/cli.h"

enum { ZT_ADAPTERS = 64 };

typedef struct zt_adapters { /* zero-initialised: none */
    zt_lora_use adapters[ZT_ADAPTERS];
    int count;
} zt_adapters;

/* One more: a directory of PEFT's or a GGUF. What is set in its configuration and not known is a
 * line on stderr. */
zt_status zt_adapters_add(zt_cli *cli, zt_adapters *adapters, const char *path, double scale);
/* The same of "FILE" or "FILE=SCALE"; the former where a file has the whole as its name. */
zt_status zt_adapters_add_text(zt_cli *cli, zt_adapters *adapters, const char *text);
/* What of a model with adapters its user should know. */
void zt_adapters_tell(zt_cli *cli, const zt_adapted *adapted);
void zt_adapters_close(zt_adapters *adapters);

/* Where Hugging Face's modules are in GGUFs, for lib/dna. */
bool zt_adapter_place(const char *arch, const char *hf_name, zt_lora_place *out);

/* How much of "FILE=SCALE" is the name; *scale is 1 where none is said. */
size_t zt_adapter_split(const char *text, double *scale);

#endif
