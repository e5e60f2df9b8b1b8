/* hyper_internal.h - private to lib/llm: how hyper-parameters are read from a file, for the files that read some of them.
 * hyper.c reads most, with hyper_keys.c; hyper_biases.c linear biases, hyper_queries.c what else is done to queries, hyper_classifier.c a classifier's, hyper_recurrent.c those of recurrent layers, hyper_streams.c those of per-layer
 * embeddings and several streams.
 */
#ifndef ZT_HYPER_INTERNAL_H
#define ZT_HYPER_INTERNAL_H

#include "lib/llm/arch/arch.h"

#define ZT_MAX_WIDTH (1 << 24)

typedef struct zt_key_reader {
    zt_ctx *ctx;
    const zt_gguf *gguf;
    const zt_arch *arch;
    char key[128]; /* the key last looked at */
    zt_status status;
} zt_key_reader;

/* The key with the architecture before it, until the next call. */
const char *zt_hyper_key(zt_key_reader *reader, const char *suffix);
/* hyper_keys.c: the value, where the key is there; else false, and `value` is unchanged. A key of another kind fails. */
bool zt_hyper_i64(zt_key_reader *reader, const char *suffix, int64_t *value);
bool zt_hyper_key_i64(zt_key_reader *reader, int64_t *value); /* of the key in `reader` */
bool zt_hyper_f64(zt_key_reader *reader, const char *suffix, double *value);
bool zt_hyper_str(zt_key_reader *reader, const char *suffix, zt_bytes *value);
bool zt_hyper_flag(zt_key_reader *reader, const char *suffix, int64_t *value); /* a bool, or 0 or 1 */
/* A number from 1 to max; `otherwise` where the key is absent, and then 0 means that it must be there. After a failure 1. */
int64_t zt_hyper_count(zt_key_reader *reader, const char *suffix, int64_t otherwise, int64_t max);
/* A finite number of at least `min`; `otherwise` where the key is absent, NAN: must be there. */
double zt_hyper_real(zt_key_reader *reader, const char *suffix, double otherwise, double min);
/* Fails with the rule and its two numbers unless the condition `holds`. */
void zt_hyper_require(zt_key_reader *reader, bool holds, const char *rule, int64_t left, int64_t right);

/* Fails: the key last looked at is missing. */
void zt_hyper_missing(zt_key_reader *reader);

/* Which two columns rotate together, where the file says it; the columns that rotate have been read. */
void zt_hyper_read_pair(zt_key_reader *reader, zt_hyper *hyper);
/* The indexer of latent attention, whose rank of queries and columns that rotate (`turned`) have been read. */
void zt_hyper_read_indexer(zt_key_reader *reader, zt_latent_sizes *latent, int64_t turned);
/* Growth of queries, norms without weights; rope and experts have been read. */
void zt_hyper_read_queries(zt_key_reader *reader, zt_hyper *hyper);
/* Linear biases; rope has been read. A classifier; pooling and the parts have been. */
void zt_hyper_read_biases(zt_key_reader *reader, zt_hyper *hyper);
void zt_hyper_read_classifier(zt_key_reader *reader, zt_hyper *hyper);
/* Per-layer embeddings, and several streams; the parts of the model have been read. */
void zt_hyper_read_streams(zt_key_reader *reader, zt_hyper *hyper);
/* May layers of the architecture have attention? */
static inline bool zt_arch_may_attend(const zt_arch *arch)
{
    return arch->kinds != ZT_KINDS_ALL || zt_layer_attends(arch->recurrent);
}
/* The kind of a layer whose numbers of heads and length of the feed-forward are known, where they say it. */
void zt_hyper_set_kind(zt_key_reader *reader, zt_hyper *hyper, zt_layer_sizes *sizes);
/* Which layers are recurrent, and their sizes. n_layers and extra_layers have been read. */
void zt_hyper_read_recurrent(zt_key_reader *reader, zt_hyper *hyper);
/* Parts of a time mix that the file has or not. The parts of the row have been read. */
void zt_hyper_read_time_parts(zt_key_reader *reader, zt_hyper *hyper);

#endif
