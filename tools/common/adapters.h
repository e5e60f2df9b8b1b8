/* adapters.h - LoRA adapters from the command line: FILE or FILE=SCALE. */
#ifndef ZT_ADAPTERS_H
#define ZT_ADAPTERS_H

#include "lib/dna/adapted.h"
#include "tools/common/cli.h"

enum { ZT_ADAPTERS = 64 };

typedef struct zt_adapters { /* zero-initialised: none */
    zt_lora_use adapters[ZT_ADAPTERS];
    int count;
} zt_adapters;

/* Opens an adapter, a PEFT directory or a GGUF file, and appends it. Prints a warning for each unknown key of its
 * configuration. */
zt_status zt_adapters_add(zt_cli *cli, zt_adapters *adapters, const char *path, double scale);
/* The same for "FILE" or "FILE=SCALE". The whole text is the name if a file of that name exists. */
zt_status zt_adapters_add_text(zt_cli *cli, zt_adapters *adapters, const char *text);
/* Prints warnings about a model with adapters. */
void zt_adapters_tell(zt_cli *cli, const zt_adapted *adapted);
void zt_adapters_close(zt_adapters *adapters);

/* The GGUF tensor of a Hugging Face module, for lib/dna. */
bool zt_adapter_place(const char *arch, const char *hf_name, zt_lora_place *out);

/* Length of FILE in "FILE=SCALE"; *scale is 1 without a scale. */
size_t zt_adapter_split(const char *text, double *scale);

#endif
