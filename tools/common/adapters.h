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

/* What a new adapter consists of. */
typedef struct zt_adapter_content {
    const zt_entry *entries; /* [count]: A and B of each matrix, with the names of their container */
    int64_t count;
    zt_meta *meta; /* of a GGUF; empty for a directory */
    zt_status (*write)(void *user, zt_writer *writer);
    void *user;
    const char *base; /* of a directory: the model that it is for, */
    int64_t rank;     /* rank and alpha, */
    double alpha;
    bool transposed; /* and that the modules' matrices are [in, out] */
} zt_adapter_content;
/* Does the name end in '/'? It is then a directory. */
bool zt_adapter_is_folder(const char *path);
/* Refuses an output that zt_adapter_write could not write: a directory that exists, without --force, or has files of others. */
zt_status zt_adapter_check_output(zt_cli *cli);
/* Writes it to cli->output, completely or not at all: a GGUF, or a directory as PEFT writes it. */
zt_status zt_adapter_write(zt_cli *cli, const zt_adapter_content *content);

/* The GGUF tensor of a Hugging Face module, for lib/dna. */
bool zt_adapter_place(const char *arch, const char *hf_name, zt_lora_place *out);

/* Length of FILE in "FILE=SCALE"; *scale is 1 without a scale. */
size_t zt_adapter_split(const char *text, double *scale);

#endif
